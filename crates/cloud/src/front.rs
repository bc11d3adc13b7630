//! The load balancer in front of a cluster's API servers.
//!
//! Before its first backend the front is a waiting room: connections wait for the cluster's certificate, and requests
//! wait for the backend, for a bounded time, as in a load balancer with a surge queue. Cluster API's cluster cache
//! tries once when infrastructure is provisioned and then only every 30 s. So a refusal costs half a minute, where a
//! wait costs only the boot time of the machine. The load balancer itself answers the first requests of the cache, the
//! health check `GET /` and discovery, shortly before the cache would give up. So the waiting continues in the next
//! request.
//!
//! After the last backend has gone it is an outage: connections end, and new ones wait before the TLS handshake, so
//! that a health check notices.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_apiserver::{ApiServer, PortForward, Settings, Store, Version};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tls::ApiServerTls;
use crate::trouble::{ApiServerTrouble, ApiServerTroubleKind, Trouble, Troubles};

/// The state of a front that connections read and wait for.
#[derive(Clone)]
pub(crate) struct FrontState {
    /// Set when the cluster's authority is known.
    pub(crate) tls: Option<Arc<ApiServerTls>>,
    /// The number of backends in service.
    backends: usize,
    /// What is wrong with the API servers.
    troubles: Arc<Troubles>,
    /// Whether there ever was a backend.
    pub(crate) was_up: bool,
    /// The settings of the newest API server.
    settings: Arc<Settings>,
    /// Cancelled when the last backend goes, which ends the connections.
    pub(crate) epoch: CancellationToken,
}

impl FrontState {
    /// Whether an API server answers.
    pub(crate) fn is_up(&self) -> bool {
        let is_down = |trouble: &Arc<Trouble>| trouble.spec.kind == ApiServerTroubleKind::Down;
        self.backends > 0 && !self.troubles.values().any(is_down)
    }

    /// Ends the open connections if there was an API server and there is none any more. New connections wait.
    fn end_if_down(&mut self) {
        if !self.is_up() && self.was_up {
            std::mem::take(&mut self.epoch).cancel();
        }
    }
}

/// The front of one cluster.
pub(crate) struct Front {
    state: watch::Sender<FrontState>,
}

impl Front {
    /// `settings` are the settings of the API server except the version, which comes with the first backend.
    pub(crate) fn new(settings: Settings) -> Self {
        let state = FrontState {
            tls: None,
            backends: 0,
            troubles: Arc::default(),
            was_up: false,
            settings: Arc::new(settings),
            epoch: CancellationToken::new(),
        };
        Self { state: watch::Sender::new(state) }
    }

    pub(crate) fn set_tls(&self, tls: Arc<ApiServerTls>) {
        self.state.send_modify(|state| state.tls = Some(tls));
    }

    /// `version` is the version of the newest API server.
    pub(crate) fn set_backends(&self, backends: usize, version: &str) {
        self.state.send_modify(|state| {
            if backends > 0 && version != state.settings.version.git_version {
                let version = parse_version(version);
                state.settings = Arc::new(Settings { version, ..(*state.settings).clone() });
            }
            state.backends = backends;
            state.was_up |= backends > 0;
            state.end_if_down();
        });
    }

    /// Sets what is wrong with the API servers.
    pub(crate) fn set_troubles(&self, wanted: BTreeMap<String, ApiServerTrouble>) {
        self.state.send_if_modified(|state| {
            let known = state.troubles.iter().map(|(fault, trouble)| (fault, &trouble.spec));
            if known.eq(&wanted) {
                return false;
            }
            let trouble = |(fault, spec): (String, ApiServerTrouble)| {
                // One that stays goes on counting its requests.
                let known = state.troubles.get(&fault).filter(|known| known.spec == spec).cloned();
                (fault, known.unwrap_or_else(|| Arc::new(Trouble::new(spec))))
            };
            state.troubles = Arc::new(wanted.into_iter().map(trouble).collect());
            state.end_if_down();
            true
        });
    }

    /// What is wrong with the API servers.
    pub(crate) fn troubles(&self) -> Arc<Troubles> {
        self.state.borrow().troubles.clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<FrontState> {
        self.state.subscribe()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.borrow().is_up()
    }

    /// Cancelled when the current API servers are gone.
    pub(crate) fn epoch(&self) -> CancellationToken {
        self.state.borrow().epoch.clone()
    }

    /// The API server that answers a request that arrives now. Costs three reference counts.
    pub(crate) fn api_server(&self, store: &Arc<Store>, tunnel: Arc<dyn PortForward>) -> ApiServer {
        let settings = self.state.borrow().settings.clone();
        ApiServer::new(store.clone(), settings).with_port_forward(tunnel)
    }
}

/// A version such as `v1.36.3`, in the form of `/version`.
pub(crate) fn parse_version(text: &str) -> Version {
    let mut parts = text.trim_start_matches('v').split('.');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    Version { major: part(), minor: part(), git_version: text.to_owned() }
}
