//! How clients reach the clusters of a cloud: through sockets, or within this process.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};

use axum::body::Body;
use http::{Request, Response};
use nephele_apiserver::UserInfo;
use nephele_state::{MemoryDisk, OpenError, State};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::{
    cluster_server::ClusterServer, listener, metrics::Metrics, ports::PortLease, request_effect, serve,
    tunnel::Tunnel,
};

/// How clients reach the clusters of a cloud.
#[derive(Clone, Default)]
pub enum Network {
    /// Each cluster listens on a TCP port of this machine.
    #[default]
    Sockets,
    /// Clusters have ports that only this process can reach. For simulations on paused time, which sockets do not
    /// follow.
    InProcess(InProcess),
}

/// The ports of clusters without sockets. Cheap to clone; all clones share the same ports.
#[derive(Clone, Default)]
pub struct InProcess {
    /// At most as many as the cloud's port range has.
    clusters: Arc<Mutex<BTreeMap<u16, Arc<ClusterServer>>>>,
    /// Takes the place of the state directory.
    disk: MemoryDisk,
}

impl InProcess {
    /// Ports of clusters whose objects are kept on this disk.
    #[must_use]
    pub fn keeping_on(disk: MemoryDisk) -> Self {
        Self {
            clusters: Arc::default(),
            disk,
        }
    }

    /// The ports that clusters listen on, in order.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.clusters.lock().keys().copied().collect()
    }

    /// Sends a request to the load balancer at `port`, as an authenticated user. It waits for the first backend like a
    /// request over a socket.
    ///
    /// # Errors
    /// When nothing listens on the port.
    pub async fn request(
        &self,
        port: u16,
        user: UserInfo,
        mut request: Request<Body>,
    ) -> io::Result<Response<Body>> {
        let cluster = self.clusters.lock().get(&port).cloned();
        let cluster = cluster.ok_or(io::ErrorKind::ConnectionRefused)?;
        if cluster.frontend.is_diverted() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        request.extensions_mut().insert(user);
        // Each request has a connection of its own.
        let broken = cluster.frontend.breaks_connections().then(|| cluster.broken());
        let tunnel = Tunnel::of(&cluster);
        let over = cluster.over.clone();
        let epoch = cluster.frontend.epoch();
        tokio::select! {
            response = serve::answer(&cluster, tunnel, request) => Ok(match broken {
                Some(broken) => request_effect::cut(response, broken),
                None => response,
            }),
            () = over.cancelled() => Err(io::ErrorKind::ConnectionReset.into()),
            () = epoch.cancelled() => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

/// A port that is open but not served yet.
pub(crate) enum Listening {
    Socket(TcpListener),
    InProcess(InProcess),
}

impl Network {
    /// Opens the state directory, if there is one. Without sockets, it is in memory and has no writer thread, because
    /// simulated time would not wait for a disk or a thread.
    pub(crate) fn open_state(
        &self,
        directory: Option<&Path>,
        metrics: &Metrics,
    ) -> Result<Option<State>, OpenError> {
        let Some(directory) = directory else {
            return Ok(None);
        };
        let observer = Arc::new(metrics.clone());
        let state = match self {
            Self::Sockets => State::open(directory, observer)?,
            Self::InProcess(network) => State::open_in_memory(&network.disk, observer)?,
        };
        tracing::info!(directory = %directory.display(), clusters = state.names().len(), "Opened the state directory");
        Ok(Some(state))
    }

    /// Opens a port.
    ///
    /// # Errors
    /// When the port is already in use.
    pub(crate) fn open(&self, address: IpAddr, port: u16) -> io::Result<Listening> {
        match self {
            Self::Sockets => listener::bind(SocketAddr::new(address, port)).map(Listening::Socket),
            Self::InProcess(network) if network.clusters.lock().contains_key(&port) => {
                Err(io::ErrorKind::AddrInUse.into())
            }
            Self::InProcess(network) => Ok(Listening::InProcess(network.clone())),
        }
    }
}

impl Listening {
    /// Serves the cluster until it is deleted. Then closes the port and releases it, in this order.
    pub(crate) async fn serve(self, cluster: Arc<ClusterServer>, lease: PortLease) {
        match self {
            Self::Socket(socket) => listener::serve(cluster, socket, lease).await,
            Self::InProcess(network) => {
                let over = cluster.over.clone();
                network.clusters.lock().insert(lease.port, cluster);
                over.cancelled().await;
                network.clusters.lock().remove(&lease.port);
                drop(lease);
            }
        }
    }
}
