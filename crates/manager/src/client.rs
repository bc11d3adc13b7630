use kube::{Client, client::ClientBuilder};
use prometheus::{IntCounterVec, Opts, Registry};

use crate::throttle::{RequestRate, ThrottleLayer};

/// Why there is no client of the management API.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The request counter could not be declared.
    #[error("failed to register the metrics of the management API client")]
    Metrics(#[source] prometheus::Error),
    /// The kubeconfig or the service account names something that cannot be used.
    #[error("failed to set up the client of the management API")]
    Client(#[source] kube::Error),
}

/// A client of the management API that keeps to the rate and counts its requests in `registry`. Nothing is sent yet.
///
/// # Errors
///
/// When the configuration cannot be used, or the registry counts such requests already.
pub fn connect(config: kube::Config, rate: RequestRate, registry: &Registry) -> Result<Client, ConnectError> {
    let requests = IntCounterVec::new(
        Opts::new(
            "rest_client_requests_total",
            "Requests to the management API by status code, method and host.",
        ),
        &["code", "method", "host"],
    )
    .map_err(ConnectError::Metrics)?;
    registry.register(Box::new(requests.clone())).map_err(ConnectError::Metrics)?;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let builder = ClientBuilder::try_from(config).map_err(ConnectError::Client)?;
    Ok(builder.with_layer(&ThrottleLayer::new(rate, requests, &host)).build())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::{Router, http::StatusCode, routing::get};
    use http::Request;
    use prometheus::TextEncoder;

    use super::*;

    #[tokio::test]
    async fn requests_keep_to_the_rate_and_are_counted_under_the_name_that_dashboards_know() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let host = listener.local_addr().expect("bound").to_string();
        let router = Router::new()
            .route("/version", get(|| async { "{}" }))
            .route("/refused", get(|| async { StatusCode::FORBIDDEN }));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let (registry, rate) = (Registry::new(), RequestRate { per_second: 20.0, burst: 2 });
        let config = kube::Config::new(format!("http://{host}").parse().expect("an address"));
        let client = connect(config, rate, &registry).expect("a client");
        let started = Instant::now();
        for path in ["/version", "/version", "/version", "/refused"] {
            let request = Request::get(path).body(Vec::new()).expect("a request");
            let _ = client.request_text(request).await;
        }
        // Two at once, the others 50 ms apart.
        assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let sample = |code: u16, count: u8| {
            format!("rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"GET\"}} {count}")
        };
        assert_eq!(samples, [sample(200, 3), sample(403, 1)]);
        server.abort();
    }
}
