//! The parts of a cluster that its connections need.

use std::{
    future::{Future, pending},
    sync::{Arc, LazyLock},
    time::Duration,
};

use nephele_apiserver::{Settings, Store};
use nephele_engine::Seed;
use nephele_etcd::{CallDelay, Delay, EtcdCluster, SharedEtcdCluster, member_id};
use nephele_listen::{Budget, Limits, Owner};
use nephele_model::ClusterId;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::{CloudClock, WallClock},
    connection::breaks_at,
    etcd_delay::Latenesses,
    frontend::Frontend,
    metrics::Metrics,
    persisted::Persister,
    tls::ApiServerTls,
};

/// The limits for clients of one cluster.
///
/// Three controllers open some four connections each, a busy test suite some dozens. An open connection costs a socket
/// and a task of a few kilobytes, so 256 are about a megabyte. Clients present a certificate in the handshake. So 64
/// places are enough for connections that are in the handshake, wait for the cluster, or have no certificate.
pub(crate) const LIMITS: Limits = Limits {
    connections_max: 256,
    unauthenticated_max: 64,
    // An answer takes microseconds. Watches never end by themselves and are cut.
    drain: Duration::from_millis(100),
    // Request and response bodies are small objects.
    connection_window: 128 * 1024,
    // Two lists of all that clients may store (`StoreOptions::bytes_max`).
    responses_bytes_max: 128 << 20,
    ..Limits::DEFAULT
};

/// The bytes of responses that clients of all clusters have not read.
const RESPONSES_BYTES_MAX: usize = 192 << 20;

/// One for all clusters, because they share the process's memory. Each may hold [`Limits::responses_bytes_max`].
static RESPONSES: LazyLock<Budget> = LazyLock::new(|| Budget::new(RESPONSES_BYTES_MAX, RESPONSES_BYTES_MAX));

/// What serving a cluster needs besides the cluster.
pub(crate) struct Shared {
    /// All tasks that serve connections.
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Metrics,
    pub(crate) persister: Persister,
    /// How long a connection or request waits for a backend.
    pub(crate) hold: Duration,
    pub(crate) clock: WallClock,
    pub(crate) cloud_clock: CloudClock,
    /// The seed of the draws about requests.
    pub(crate) seed: Seed,
}

/// Open port-forwards per cluster. KCP's manager has two per etcd member that it looks at. Each has two zlib states and
/// some buffers, 0.4 MiB together, so 64 are 26 MiB. The connections inside of them take places as all others do.
const TUNNELS_MAX: usize = 64;

/// A cluster as its connections see it: a load balancer, the objects behind it, and the ports of pods. Connections
/// reach no other part of the cluster.
///
/// Every connection passes `listener`, every request passes `serve::answer`, and every port-forward passes `tunnel`.
/// Code that refuses, delays or cuts one of them belongs there, and finds the state it needs here.
pub(crate) struct ClusterServer {
    pub(crate) id: ClusterId,
    pub(crate) store: Arc<Store>,
    pub(crate) etcd: SharedEtcdCluster,
    /// How late calls of etcd are answered.
    pub(crate) etcd_latenesses: Latenesses,
    pub(crate) frontend: Frontend,
    pub(crate) shared: Arc<Shared>,
    /// Places for connections, also for those inside port-forwards.
    pub(crate) places: Budget,
    /// Who answers for what its clients take of the process together.
    pub(crate) clients: Owner,
    /// Memory for responses that are not read yet.
    pub(crate) responses: Budget,
    pub(crate) tunnels: Arc<Semaphore>,
    /// Cancelled when the cluster is deleted, which ends everything that runs for it.
    pub(crate) over: CancellationToken,
    backend_pod: BackendPodOfPort,
}

/// Looks up what currently listens on a port of a pod.
pub(crate) type BackendPodOfPort = Box<dyn Fn(&str, u16) -> Option<BackendPod> + Send + Sync>;

/// The server that a port-forward reaches.
pub(crate) enum BackendPod {
    /// An etcd member.
    Etcd { tls: Arc<ServerConfig>, member: u64 },
    /// An API server.
    ApiServer(Arc<ApiServerTls>),
}

impl ClusterServer {
    /// `settings` are the settings of the API servers except the version.
    pub(crate) fn new(
        id: ClusterId,
        store: Arc<Store>,
        settings: Settings,
        shared: Arc<Shared>,
        over: CancellationToken,
        backend_pod: BackendPodOfPort,
    ) -> Self {
        let etcd = EtcdCluster::new(member_id(&id.to_string(), ""));
        let clients = Owner::unique();
        Self {
            id,
            store,
            etcd: Arc::new(Mutex::new(etcd)),
            etcd_latenesses: Latenesses::default(),
            frontend: Frontend::new(settings),
            shared,
            places: Budget::new(LIMITS.connections_max, LIMITS.unauthenticated_max),
            clients,
            responses: RESPONSES.share(clients, LIMITS.responses_bytes_max),
            tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
            over,
            backend_pod,
        }
    }

    /// What currently listens on a port of a pod, with its TLS configuration.
    pub(crate) fn backend_pod(&self, pod: &str, port: u16) -> Option<BackendPod> {
        (self.backend_pod)(pod, port)
    }

    /// Ready when a fault breaks a connection that begins now. Draws are keyed by the cluster, the fault and the number of
    /// the connection.
    pub(crate) fn broken(&self) -> impl Future<Output = ()> + use<> {
        let began = Instant::now();
        let number = self.frontend.number_of_connection();
        let id = self.id.clone();
        let seed = self.shared.seed.clone();
        let mut frontend = self.frontend.subscribe();
        async move {
            let draw =
                |fault: &str| seed.fraction(&["load-balancer", &id.namespace, &id.name, fault], number);
            loop {
                let end = breaks_at(&frontend.borrow_and_update().balancer, began, draw);
                let ended = async {
                    match end {
                        Some(end) => sleep_until(end).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    () = ended => return,
                    changed = frontend.changed() => if changed.is_err() { pending().await },
                }
            }
        }
    }
}

impl CallDelay for ClusterServer {
    fn delay(&self) -> Option<Delay> {
        Some(Box::pin(self.etcd_latenesses.delay(&self.id, &self.shared.seed)?))
    }
}
