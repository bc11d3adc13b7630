//! The TCP listener of a cluster, and how its connections wait.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nephele_apiserver::UserInfo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::front::FrontState;
use crate::kept::Keeper;
use crate::metrics::{Counted, Metrics};
use crate::ports::PortLease;
use crate::serve::serve_http;
use crate::tls::ApiServerTls;

/// Connections of one cluster at a time, held ones included. Three controllers open some four each, a busy test
/// suite some dozens. A held one costs a socket and a task of a few kilobytes, so that 256 are about a megabyte.
const CONNECTIONS_MAX: usize = 256;

/// A handshake takes milliseconds; whoever takes this long is not going to finish.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Silence after which the kernel asks whether a client is still there; it gives up some minutes later. Clients that
/// vanish without a word would else keep their place for ever. The kernel's probes cost this process nothing, unlike
/// HTTP/2 pings.
const KEEPALIVE: Duration = Duration::from_secs(60);

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

/// Opens the listener. The port is free again when the returned socket is dropped. `SO_REUSEADDR` is set by the
/// standard library, so that connections in TIME_WAIT do not stand in the way.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections until the cluster is over; then closes the listener and lets go of its port, in this order.
pub(crate) async fn serve(cluster: Arc<Cluster>, listener: TcpListener, lease: PortLease) {
    accept(&cluster, &listener).await;
    drop(listener);
    drop(lease);
}

async fn accept(cluster: &Arc<Cluster>, listener: &TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = cluster.over.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // A client that is gone already, or a process out of descriptors: the next try may fare better.
                tracing::warn!(cluster = %cluster.spec.id, %error, "Failed to accept a connection");
                tokio::select! {
                    () = cluster.over.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_millis(50)) => continue,
                }
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(cluster = %cluster.spec.id, "Refused a connection: too many are open");
            continue;
        };
        // Small messages to and fro: waiting for more to send helps nobody. Either option may fail on a socket that
        // is closed already, which the handshake finds out.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let connection = Connection { cluster: cluster.clone() };
        cluster.shared.tasks.spawn(async move {
            connection.run(stream).await;
            drop(place);
        });
    }
}

/// One accepted connection.
struct Connection {
    cluster: Arc<Cluster>,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        let greeted = tokio::select! {
            () = self.cluster.over.cancelled() => return,
            greeted = self.hold_and_greet(stream) => greeted,
        };
        let Some((stream, user, epoch)) = greeted else { return };
        let _open = Counted::new(&self.cluster.shared.metrics.connections);
        let stop = async {
            tokio::select! {
                () = epoch.cancelled() => {}
                () = self.cluster.over.cancelled() => {}
            }
        };
        serve_http(stream, &self.cluster, user, stop).await;
    }

    /// Waits for the cluster to be able to answer, then for the TLS handshake.
    async fn hold_and_greet(&self, stream: TcpStream) -> Option<Greeted> {
        let (tls, epoch) = self.wait_for_front().await?;
        let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls.config.clone()).accept(stream)).await;
        match accepted.ok()? {
            Ok(stream) => {
                let user = tls.user(stream.get_ref().1.peer_certificates(), (self.cluster.shared.clock)());
                Some((stream, user, epoch))
            }
            Err(error) => {
                tracing::debug!(cluster = %self.cluster.spec.id, %error, "Failed a TLS handshake");
                None
            }
        }
    }

    /// Waits, for a bounded time, until TLS can be spoken and, after the first backend's time, until one is up.
    async fn wait_for_front(&self) -> Option<(Arc<ApiServerTls>, CancellationToken)> {
        let ready = |state: &FrontState| state.tls.is_some() && (state.backends > 0 || !state.was_up);
        let mut front = self.cluster.front.subscribe();
        let _held = Counted::new(&self.cluster.shared.metrics.connections_held);
        let state = timeout(self.cluster.shared.hold, front.wait_for(ready)).await.ok()?.ok()?;
        Some((state.tls.clone()?, state.epoch.clone()))
    }
}

/// A connection after its handshake: the user that it proved, and what ends it.
type Greeted = (tokio_rustls::server::TlsStream<TcpStream>, Option<UserInfo>, CancellationToken);
