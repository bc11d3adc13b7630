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
