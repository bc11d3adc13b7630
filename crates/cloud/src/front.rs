//! The load balancer in front of a cluster's API servers.
//!
//! Before its first backend it is a waiting room: connections wait for the cluster's certificate, then requests for
//! the backend, for a bounded time, as in a load balancer with a surge queue. Cluster API's cluster cache tries once
//! when infrastructure is provisioned and then only every 30 s, so a refusal costs half a minute where a wait costs
//! what the machine takes to boot. The health check `GET /` is answered by the load balancer itself in that time,
//! because the cache gives it 5 s and any other request 10 s.

use std::sync::Arc;

use nephele_apiserver::{ApiServer, Authentication, PortForward, Settings, Version};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tls::ApiServerTls;

/// What the connections of a cluster look at and wait on.
#[derive(Clone)]
pub(crate) struct FrontState {
    /// Known once the cluster's authority is.
    pub(crate) tls: Option<Arc<ApiServerTls>>,
    /// API servers that are up.
    pub(crate) backends: usize,
    /// Whether there ever was one.
    pub(crate) was_up: bool,
    /// The version that the API servers run.
    version: String,
    /// Ends the connections when the last backend goes.
    pub(crate) epoch: CancellationToken,
}

/// The front of one cluster.
pub(crate) struct Front {
    state: watch::Sender<FrontState>,
    settings: Settings,
}

impl Front {
    /// `settings` are those of the API server but for its version.
    pub(crate) fn new(settings: Settings) -> Self {
        let state = FrontState {
            tls: None,
            backends: 0,
            was_up: false,
            version: settings.version.git_version.clone(),
            epoch: CancellationToken::new(),
        };
        Self { state: watch::Sender::new(state), settings }
    }

    pub(crate) fn set_tls(&self, tls: Arc<ApiServerTls>) {
        self.state.send_modify(|state| state.tls = Some(tls));
    }

    pub(crate) fn set_backends(&self, backends: usize, version: &str) {
        self.state.send_modify(|state| {
            if backends > state.backends && !version.is_empty() {
                version.clone_into(&mut state.version);
            }
            state.backends = backends;
            state.was_up |= backends > 0;
            if backends == 0 {
                // Those who are connected lose their connection with the server behind it; those who come wait.
                std::mem::take(&mut state.epoch).cancel();
            }
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<FrontState> {
        self.state.subscribe()
    }

    /// The API server as a connection that begins now reaches it.
    pub(crate) fn api_server(
        &self,
        store: &Arc<nephele_apiserver::Store>,
        tunnel: Arc<dyn PortForward>,
    ) -> ApiServer {
        let version = parse_version(&self.state.borrow().version);
        let settings =
            Settings { version, authentication: Authentication::Required, ..self.settings.clone() };
        ApiServer::new(store.clone(), Arc::new(settings)).with_port_forward(tunnel)
    }
}

/// `v1.36.3` as `/version` says it.
pub(crate) fn parse_version(text: &str) -> Version {
    let mut parts = text.trim_start_matches('v').split('.');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    Version { major: part(), minor: part(), git_version: text.to_owned() }
}
