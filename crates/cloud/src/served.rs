//! What the connections of a cluster take.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nephele_apiserver::{Settings, Store};
use nephele_etcd::{EtcdCluster, SharedEtcdCluster, member_id};
use nephele_listen::Limits;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::front::Front;
use crate::identity::ClusterId;
use crate::kept::Keeper;
use crate::metrics::Metrics;
use crate::tls::ApiServerTls;

/// What clients of one cluster may hold.
///
/// Three controllers open some four connections each, a busy test suite some dozens. A held one costs a socket and a task
/// of a few kilobytes, so that 256 are about a megabyte. Clients show a certificate with the handshake; 64 places are
/// enough for those who are in it, wait for the cluster, or have none.
pub(crate) const LIMITS: Limits = Limits {
    connections_max: 256,
    unauthenticated_max: 64,
    // An answer takes microseconds; watches never end by themselves and are cut.
    drain: Duration::from_millis(100),
    // Bodies are small objects.
    connection_window: 128 * 1024,
    ..Limits::DEFAULT
};

/// What serving a cluster needs beside the cluster.
pub(crate) struct Shared {
    /// Every task that serves anything.
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Metrics,
    pub(crate) keeper: Keeper,
    /// How long a connection or request waits for a backend.
    pub(crate) hold: Duration,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// Port-forwards of one cluster at a time. A control plane's manager has two per etcd member it looks at. Each holds two
/// zlib states and some buffers, 0.3 MiB together, so that 64 are 20 MiB.
const TUNNELS_MAX: usize = 64;

/// A cluster as its connections see it: a load balancer, the objects behind it, and ports of pods. They reach nothing else
/// of the cluster.
///
/// Every connection passes `listener`, every request passes `serve::answer`, and every port-forward passes `tunnel`: what is
/// to refuse, delay or cut one stands there, and finds here what it needs to know.
pub(crate) struct Served {
    pub(crate) id: ClusterId,
    pub(crate) store: Arc<Store>,
    pub(crate) etcd: SharedEtcdCluster,
    pub(crate) front: Front,
    pub(crate) shared: Arc<Shared>,
    /// Places for port-forwards.
    pub(crate) tunnels: Arc<Semaphore>,
    /// Ends everything that runs for the cluster.
    pub(crate) over: CancellationToken,
    behind: BehindPort,
}

/// Says what listens on the port of a pod now.
pub(crate) type BehindPort = Box<dyn Fn(&str, u16) -> Option<Behind> + Send + Sync>;

/// What a port-forward reaches.
pub(crate) enum Behind {
    /// A member of etcd.
    Etcd { tls: Arc<ServerConfig>, member: u64 },
    /// An API server.
    ApiServer(Arc<ApiServerTls>),
}

impl Served {
    /// `settings` are those of the API servers but for their version.
    pub(crate) fn new(
        id: ClusterId,
        store: Arc<Store>,
        settings: Settings,
        shared: Arc<Shared>,
        over: CancellationToken,
        behind: BehindPort,
    ) -> Self {
        let etcd = EtcdCluster::new(member_id(&id.to_string(), ""));
        Self {
            id,
            store,
            etcd: Arc::new(Mutex::new(etcd)),
            front: Front::new(settings),
            shared,
            tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
            over,
            behind,
        }
    }

    /// What listens on the port of a pod now, with the TLS it speaks.
    pub(crate) fn behind(&self, pod: &str, port: u16) -> Option<Behind> {
        (self.behind)(pod, port)
    }
}
