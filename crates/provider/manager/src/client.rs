use kube::Client;
use nephele_access::Server;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::runtime::Handle;
use tower::util::MapResponseLayer;

use crate::{
    admin::visitors::ForVisitors,
    managed_fields::emptied,
    throttle::{RequestRate, ThrottleLayer},
};

/// Why there is no client of the management API.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The request counter could not be declared.
    #[error("failed to register the metrics of the management API client")]
    Metrics(#[source] prometheus::Error),
    /// The kubeconfig or the service account cannot be used.
    #[error("failed to set up the client of the management API")]
    Client(#[source] kube::Error),
}

/// The rate for the lease, which is read and written every two seconds.
const LEASE_RATE: RequestRate = RequestRate {
    per_second: 10.0,
    burst: 10,
};

/// The rate for reviews of callers of the diagnostics. A caller costs two requests a minute. Requests beyond the rate
/// wait, and beyond a number of reviews in flight callers are refused.
const REVIEWS_RATE: RequestRate = RequestRate {
    per_second: 20.0,
    burst: 20,
};

/// The rate for what callers of the webhooks cause. A review of a pool costs two requests, and one more for each 2,000
/// addresses; the API server waits ten seconds for it.
const WEBHOOKS_RATE: RequestRate = RequestRate {
    per_second: 50.0,
    burst: 100,
};

/// The rate for what callers of the runtime extension cause. A hook reads a ConfigMap and writes one or two objects, and
/// each of some hundred clusters calls some ten hooks in its life.
const HOOKS_RATE: RequestRate = RequestRate {
    per_second: 200.0,
    burst: 400,
};

/// Clients of the management API, one for each purpose, each with its own connection and rate. So neither the work of
/// controllers nor unknown callers can delay the renewal of the lease, and no caller can delay the work of controllers.
#[derive(Clone)]
pub struct Clients {
    pub work: Client,
    pub lease: Client,
    pub reviews: Client,
    /// For what callers of the webhooks cause.
    pub webhooks: Client,
    /// For what callers of the runtime extension cause.
    pub hooks: Client,
    /// Where the client for the lease works, and the lease and the probes with it.
    pub urgent: Handle,
    /// For clients with the tokens of visitors of the page; none where the caller has no address of the API server.
    pub visitors: Option<ForVisitors>,
}

impl Clients {
    /// The same client for every purpose, for an API server in this process. All work is on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn one(client: Client) -> Self {
        let [work, lease, reviews, webhooks] = std::array::from_fn(|_| client.clone());
        Self {
            work,
            lease,
            reviews,
            webhooks,
            hooks: client,
            urgent: Handle::current(),
            visitors: None,
        }
    }
}

/// Clients of the management API that keep to their rates and count their requests in `registry`. `rate` is the rate
/// for work. The client for the lease works on `urgent`. Sends no request yet.
///
/// # Errors
///
/// When the configuration cannot be used, or the registry already has the request counter.
pub fn connect(
    server: &Server,
    rate: RequestRate,
    registry: &Registry,
    urgent: &Handle,
) -> Result<Clients, ConnectError> {
    let requests = IntCounterVec::new(
        Opts::new(
            "rest_client_requests_total",
            "Requests to the management API by status code, method and host.",
        ),
        &["code", "method", "host"],
    )
    .map_err(ConnectError::Metrics)?;
    registry
        .register(Box::new(requests.clone()))
        .map_err(ConnectError::Metrics)?;
    let host = server
        .config
        .cluster_url
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    let client = |rate| -> Result<Client, ConnectError> {
        let builder = server.builder().map_err(ConnectError::Client)?;
        let builder = builder.with_layer(&MapResponseLayer::new(emptied));
        Ok(builder
            .with_layer(&ThrottleLayer::new(rate, requests.clone(), &host))
            .build())
    };
    let lease = {
        // A client has a task, which is where it was made.
        let _there = urgent.enter();
        client(LEASE_RATE)?
    };
    Ok(Clients {
        work: client(rate)?,
        lease,
        reviews: client(REVIEWS_RATE)?,
        webhooks: client(WEBHOOKS_RATE)?,
        hooks: client(HOOKS_RATE)?,
        urgent: urgent.clone(),
        visitors: Some(ForVisitors::new(server.clone(), requests.clone(), host)),
    })
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
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let host = listener.local_addr().expect("bound").to_string();
        let router = Router::new()
            .route("/version", get(|| async { "{}" }))
            .route("/refused", get(|| async { StatusCode::FORBIDDEN }));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let registry = Registry::new();
        let rate = RequestRate {
            per_second: 20.0,
            burst: 2,
        };
        let config = kube::Config::new(format!("http://{host}").parse().expect("an address"));
        let clients = connect(&Server::direct(config), rate, &registry, &Handle::current()).expect("clients");
        let client = clients.work;
        let started = Instant::now();
        for path in ["/version", "/version", "/version", "/refused"] {
            let request = Request::get(path).body(Vec::new()).expect("a request");
            let _ = client.request_text(request).await;
        }
        // Two requests at once, the others 50 ms apart.
        assert!(
            started.elapsed() >= Duration::from_millis(100),
            "{:?}",
            started.elapsed()
        );
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text");
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let sample = |code: u16, count: u8| {
            format!("rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"GET\"}} {count}")
        };
        assert_eq!(samples, [sample(200, 3), sample(403, 1)]);
        server.abort();
    }

    #[tokio::test]
    async fn no_purpose_waits_for_the_rate_of_another() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let host = listener.local_addr().expect("bound").to_string();
        let router = Router::new().route("/version", get(|| async { "{}" }));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let config = kube::Config::new(format!("http://{host}").parse().expect("an address"));
        let hourly = RequestRate {
            per_second: 1.0 / 3600.0,
            burst: 1,
        };
        let clients = connect(
            &Server::direct(config),
            hourly,
            &Registry::new(),
            &Handle::current(),
        )
        .expect("clients");
        let Clients {
            work,
            lease,
            reviews,
            webhooks,
            hooks,
            ..
        } = clients;
        let ask = |client: Client| async move {
            let request = Request::get("/version").body(Vec::new()).expect("a request");
            client.request_text(request).await.expect("an answer")
        };
        ask(work.clone()).await;
        let waiting = tokio::spawn(ask(work));
        let asked = async {
            for other in [lease, reviews, webhooks, hooks] {
                ask(other).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked)
            .await
            .expect("each has a rate of its own");
        assert!(!waiting.is_finished());
        waiting.abort();
        server.abort();
    }
}
