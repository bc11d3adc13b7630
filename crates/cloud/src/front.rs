//! The load balancer in front of a cluster's API servers.
//!
//! Before its first backend it is a waiting room: connections wait for the cluster's certificate, then requests for
//! the backend, for a bounded time, as in a load balancer with a surge queue. Cluster API's cluster cache tries once
//! when infrastructure is provisioned and then only every 30 s, so a refusal costs half a minute where a wait costs
//! what the machine takes to boot. What the cache asks first, the health check `GET /` and discovery, the load balancer
//! answers itself shortly before the cache would give up, so that the waiting goes on in the next request.
//!
//! After the last backend went it is an outage: connections end, and new ones wait before TLS is spoken, so that a
//! health check finds out.

use std::sync::Arc;

use nephele_apiserver::{ApiServer, PortForward, Settings, Store, Version};
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
    /// Those of the newest API server.
    settings: Arc<Settings>,
    /// Ends the connections when the last backend goes.
    pub(crate) epoch: CancellationToken,
}

/// The front of one cluster.
pub(crate) struct Front {
    state: watch::Sender<FrontState>,
}

impl Front {
    /// `settings` are those of the API server but for its version, which comes with the first backend.
    pub(crate) fn new(settings: Settings) -> Self {
        let state = FrontState {
            tls: None,
            backends: 0,
            was_up: false,
            settings: Arc::new(settings),
            epoch: CancellationToken::new(),
        };
        Self { state: watch::Sender::new(state) }
    }

    pub(crate) fn set_tls(&self, tls: Arc<ApiServerTls>) {
        self.state.send_modify(|state| state.tls = Some(tls));
    }

    /// `version` is that of the newest API server.
    pub(crate) fn set_backends(&self, backends: usize, version: &str) {
        self.state.send_modify(|state| {
            if backends > 0 && version != state.settings.version.git_version {
                let version = parse_version(version);
                state.settings = Arc::new(Settings { version, ..(*state.settings).clone() });
            }
            state.backends = backends;
            state.was_up |= backends > 0;
            if backends == 0 && state.was_up {
                // Those who are connected lose their connection with the server behind it; those who come wait.
                std::mem::take(&mut state.epoch).cancel();
            }
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<FrontState> {
        self.state.subscribe()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.borrow().backends > 0
    }

    /// Ends what depends on the API servers of today.
    pub(crate) fn epoch(&self) -> CancellationToken {
        self.state.borrow().epoch.clone()
    }

    /// The API server as a request that comes now reaches it. Costs three reference counts.
    pub(crate) fn api_server(&self, store: &Arc<Store>, tunnel: Arc<dyn PortForward>) -> ApiServer {
        let settings = self.state.borrow().settings.clone();
        ApiServer::new(store.clone(), settings).with_port_forward(tunnel)
    }
}

/// `v1.36.3` as `/version` says it.
pub(crate) fn parse_version(text: &str) -> Version {
    let mut parts = text.trim_start_matches('v').split('.');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    Version { major: part(), minor: part(), git_version: text.to_owned() }
}
