//! How the clusters of a cloud are reached: through sockets, or within this process.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};
use nephele_apiserver::UserInfo;
use nephele_state::MemoryDisk;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::listener;
use crate::ports::PortLease;
use crate::serve;
use crate::served::Served;
use crate::tunnel::Tunnel;

/// How the clusters of a cloud are reached.
#[derive(Clone, Default)]
pub enum Network {
    /// Each cluster listens on a TCP port of this machine.
    #[default]
    Sockets,
    /// Clusters have ports, and only this process reaches them: for simulations on paused time, which a socket would not
    /// keep to.
    InProcess(InProcess),
}

/// The ports of clusters without sockets behind them. Cheap to clone, and all clones are one.
#[derive(Clone, Default)]
pub struct InProcess {
    /// As many as the range of ports of the cloud.
    clusters: Arc<Mutex<BTreeMap<u16, Arc<Served>>>>,
    /// In the place of the state directory.
    disk: MemoryDisk,
}

impl InProcess {
    /// Ports of clusters whose objects are kept on this disk.
    #[must_use]
    pub fn keeping_on(disk: MemoryDisk) -> Self {
        Self { clusters: Arc::default(), disk }
    }

    pub(crate) fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// The ports that clusters listen on, in order.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.clusters.lock().keys().copied().collect()
    }

    /// Sends a request to the load balancer at `port`, as an authenticated user. It waits for the first backend as a
    /// request over a socket does.
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
        request.extensions_mut().insert(user);
        let tunnel = Tunnel::of(&cluster);
        let (over, epoch) = (cluster.over.clone(), cluster.front.epoch());
        tokio::select! {
            response = serve::answer(&cluster, tunnel, request) => Ok(response),
            () = over.cancelled() => Err(io::ErrorKind::ConnectionReset.into()),
            () = epoch.cancelled() => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

/// A port that is open, and not yet served.
pub(crate) enum Listening {
    Socket(TcpListener),
    InProcess(InProcess),
}

impl Network {
    /// Opens a port.
    ///
    /// # Errors
    /// When another has it.
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
    /// Serves the cluster until it is over; then closes the port and gives it back, in this order.
    pub(crate) async fn serve(self, cluster: Arc<Served>, lease: PortLease) {
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
