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
//!
//! The load balancer terminates TLS with one certificate, which stands for whichever API server is up. Where a fault
//! gives some API servers a certificate of their own, the backends in service take the new connections in turn, and
//! each presents its own certificate or else the load balancer's.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nephele_apiserver::{ApiServer, PortForward, Settings, Store, Version};
use nephele_model::{ApiServerRequestEffect, ApiServerRequestEffectKind, LoadBalancerEffect};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{self, Backend, Diversion, LoadBalancerEffects},
    request_effect::{RequestEffect, RequestEffects, stays},
    tls::ApiServerTls,
};

/// The state of a front that connections read and wait for.
#[derive(Clone)]
pub(crate) struct FrontendState {
    /// Set when the cluster's authority is known.
    pub(crate) tls: Option<Arc<ApiServerTls>>,
    /// The backends in service: the certificate of each that does not present the load balancer's.
    backends: Arc<[Option<Arc<ApiServerTls>>]>,
    /// What is wrong with the load balancer.
    pub(crate) balancer: Arc<LoadBalancerEffects>,
    /// The server of another cluster. Set while connections may reach it.
    foreign_server: Option<Arc<ApiServerTls>>,
    /// What is wrong with the API servers.
    request_effects: Arc<RequestEffects>,
    /// Whether there ever was a backend.
    pub(crate) was_up: bool,
    /// The settings of the newest API server.
    settings: Arc<Settings>,
    /// Cancelled when the last backend goes, which ends the connections.
    pub(crate) epoch: CancellationToken,
}

impl FrontendState {
    /// Whether an API server answers.
    pub(crate) fn is_up(&self) -> bool {
        let is_down = |request_effect: &Arc<RequestEffect>| {
            request_effect.spec.kind == ApiServerRequestEffectKind::Down
        };
        !self.backends.is_empty() && !self.request_effects.values().any(is_down)
    }

    /// Whether a new connection leads to a server, or ends at once.
    pub(crate) fn is_open(&self) -> bool {
        self.is_diverted() || (self.tls.is_some() && (self.is_up() || !self.was_up))
    }

    /// Whether new connections do not reach the cluster.
    pub(crate) fn is_diverted(&self) -> bool {
        connection::diversion(&self.balancer).is_some()
    }

    /// Ends the open connections if there was an API server and there is none any more. New connections wait.
    fn end_if_down(&mut self) {
        if !self.is_up() && self.was_up {
            std::mem::take(&mut self.epoch).cancel();
        }
    }
}

/// How a time ended that a fault imposed on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Imposed {
    /// All of it is over.
    Over,
    /// The fault has gone or changed before.
    Healed,
}

/// The front of one cluster.
pub(crate) struct Frontend {
    state: watch::Sender<FrontendState>,
    /// How many connections the backends took in turn.
    turns: AtomicU64,
    /// How many connections there were.
    connections: AtomicU64,
}

impl Frontend {
    /// `settings` are the settings of the API server except the version, which comes with the first backend.
    pub(crate) fn new(settings: Settings) -> Self {
        let state = FrontendState {
            tls: None,
            backends: Arc::default(),
            balancer: Arc::default(),
            foreign_server: None,
            request_effects: Arc::default(),
            was_up: false,
            settings: Arc::new(settings),
            epoch: CancellationToken::new(),
        };
        let turns = AtomicU64::new(0);
        let connections = AtomicU64::new(0);
        Self {
            state: watch::Sender::new(state),
            turns,
            connections,
        }
    }

    pub(crate) fn set_tls(&self, tls: Arc<ApiServerTls>) {
        self.state.send_modify(|state| state.tls = Some(tls));
    }

    /// Sets the backends in service, by the certificate of each that does not present the load balancer's. `version` is
    /// the version of the newest API server.
    pub(crate) fn set_backends(&self, backends: Arc<[Option<Arc<ApiServerTls>>]>, version: &str) {
        self.state.send_modify(|state| {
            if !backends.is_empty() && version != state.settings.version.git_version {
                let version = parse_version(version);
                state.settings = Arc::new(Settings {
                    version,
                    ..(*state.settings).clone()
                });
            }
            state.was_up |= !backends.is_empty();
            state.backends = backends;
            state.end_if_down();
        });
    }

    /// Sets what is wrong with the API servers, which serve `store`. Open connections end when reads begin or cease to be
    /// answered from the past.
    pub(crate) fn set_request_effects(
        &self,
        wanted: BTreeMap<String, ApiServerRequestEffect>,
        store: &Store,
    ) {
        self.state.send_if_modified(|state| {
            let known = state
                .request_effects
                .iter()
                .map(|(fault, request_effect)| (fault, &request_effect.spec));
            if known.eq(&wanted) {
                return false;
            }
            let request_effect = |(fault, spec): (String, ApiServerRequestEffect)| {
                // One that stays keeps counting its requests.
                let known = state
                    .request_effects
                    .get(&fault)
                    .filter(|known| known.spec == spec)
                    .cloned();
                (
                    fault,
                    known.unwrap_or_else(|| Arc::new(RequestEffect::new(spec, store))),
                )
            };
            let request_effects: RequestEffects = wanted.into_iter().map(request_effect).collect();
            let changes_past = !pasts(&request_effects).eq(pasts(&state.request_effects));
            state.request_effects = Arc::new(request_effects);
            if changes_past {
                std::mem::take(&mut state.epoch).cancel();
            }
            state.end_if_down();
            true
        });
    }

    /// Sets what is wrong with the load balancer. `foreign_server` is the server of another cluster, if connections reach it.
    /// Open connections end when new ones lead elsewhere.
    pub(crate) fn set_balancer(
        &self,
        wanted: BTreeMap<String, LoadBalancerEffect>,
        foreign_server: Option<Arc<ApiServerTls>>,
    ) {
        self.state.send_if_modified(|state| {
            let known = state
                .balancer
                .iter()
                .map(|(fault, known)| (fault, &known.request_effect));
            if known.eq(&wanted) {
                return false;
            }
            let before = connection::diversion(&state.balancer);
            state.balancer = Arc::new(connection::known(wanted, &state.balancer));
            state.foreign_server = foreign_server;
            if before != connection::diversion(&state.balancer) {
                std::mem::take(&mut state.epoch).cancel();
            }
            true
        });
    }

    /// The server that a new connection reaches. None before the cluster's authority is known.
    pub(crate) fn next_backend(&self, state: &FrontendState) -> Option<Backend> {
        match connection::diversion(&state.balancer) {
            Some(Diversion::Nowhere) => return Some(Backend::None),
            Some(Diversion::ForeignServer) => {
                return Some(
                    state
                        .foreign_server
                        .clone()
                        .map_or(Backend::None, Backend::ForeignServer),
                );
            }
            None => {}
        }
        let own = if state.backends.iter().any(Option::is_some) {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let index = usize::try_from(turn % state.backends.len() as u64).unwrap_or_default();
            state.backends[index].clone()
        } else {
            None
        };
        own.or_else(|| state.tls.clone()).map(Backend::ApiServer)
    }

    /// The number of a new connection.
    pub(crate) fn number_of_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether new connections do not reach the cluster.
    pub(crate) fn is_diverted(&self) -> bool {
        self.state.borrow().is_diverted()
    }

    /// Whether a fault may break connections.
    pub(crate) fn breaks_connections(&self) -> bool {
        !self.state.borrow().balancer.is_empty()
    }

    /// What is wrong with the API servers.
    pub(crate) fn request_effects(&self) -> Arc<RequestEffects> {
        self.state.borrow().request_effects.clone()
    }

    /// Waits for a time that a fault of these effects imposes, at most until the fault goes or changes.
    pub(crate) fn imposed(
        &self,
        request_effects: &RequestEffects,
        (fault, time): (String, Duration),
    ) -> impl Future<Output = Imposed> + Send + 'static {
        let before = request_effects.get(&fault).cloned();
        let mut state = self.state.subscribe();
        async move {
            let is_healed = |state: &FrontendState| !stays(&state.request_effects, &fault, before.as_ref());
            match timeout(time, state.wait_for(is_healed)).await {
                Ok(_) => Imposed::Healed,
                Err(_) => Imposed::Over,
            }
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<FrontendState> {
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

/// The effects that let reads be answered from the past.
fn pasts(request_effects: &RequestEffects) -> impl Iterator<Item = *const RequestEffect> {
    request_effects
        .values()
        .filter(|request_effect| request_effect.past.is_some())
        .map(Arc::as_ptr)
}

/// A version such as `v1.36.3`, in the form of `/version`.
pub(crate) fn parse_version(text: &str) -> Version {
    let mut parts = text.trim_start_matches('v').split('.');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    Version {
        major: part(),
        minor: part(),
        git_version: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use nephele_apiserver::{Authentication, StoreOptions};
    use tokio::time::{Instant, sleep};

    use super::*;

    fn cut(seconds: u64) -> ApiServerRequestEffect {
        ApiServerRequestEffect {
            verbs: vec![],
            resources: vec![],
            kind: ApiServerRequestEffectKind::Cut {
                after: Duration::from_secs(seconds),
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_a_fault_imposes_ends_with_the_fault() {
        let settings = Settings {
            version: parse_version(""),
            authentication: Authentication::AllowAll,
            clock: Arc::new(Timestamp::now),
            observer: None,
        };
        let frontend = Frontend::new(settings);
        let store = Store::new(StoreOptions::default());
        let set = |effects: &[(&str, u64)]| {
            let wanted = effects
                .iter()
                .map(|&(fault, seconds)| (fault.to_owned(), cut(seconds)));
            frontend.set_request_effects(wanted.collect(), &store);
        };
        set(&[("healed", 0), ("changed", 1), ("stays", 2)]);
        let began = Instant::now();
        let request_effects = frontend.request_effects();
        let ends = ["healed", "changed", "stays"].map(|fault| {
            let imposed = frontend.imposed(&request_effects, (fault.to_owned(), Duration::from_secs(60)));
            tokio::spawn(async move { (imposed.await, began.elapsed().as_secs()) })
        });
        sleep(Duration::from_secs(10)).await;
        set(&[("changed", 1), ("new", 0), ("stays", 2)]);
        sleep(Duration::from_secs(10)).await;
        set(&[("changed", 3), ("stays", 2)]);
        let mut seen = Vec::new();
        for end in ends {
            seen.push(end.await.unwrap());
        }
        assert_eq!(
            seen,
            [(Imposed::Healed, 10), (Imposed::Healed, 20), (Imposed::Over, 60)]
        );
    }
}
