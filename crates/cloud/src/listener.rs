//! The TCP listener of a cluster, and how its connections wait.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use nephele_apiserver::UserInfo;
use nephele_listen::{Budget, Grant, accept, handshake};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::front::FrontState;
use crate::metrics::Counted;
use crate::ports::PortLease;
use crate::serve::serve_http;
use crate::served::{LIMITS, Served};
use crate::tls::ApiServerTls;
use crate::tunnel::Tunnel;

/// Opens the listener. The port is free again when the returned socket is dropped. The standard library sets
/// `SO_REUSEADDR`, so connections in TIME_WAIT do not block the port.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections until the cluster is deleted. Then closes the listener and releases its port, in this order.
pub(crate) async fn serve(cluster: Arc<Served>, listener: TcpListener, lease: PortLease) {
    let places = Budget::new(LIMITS.connections_max, LIMITS.unauthenticated_max);
    let (tasks, over) = (&cluster.shared.tasks, &cluster.over);
    let span = tracing::info_span!("listener", cluster = %cluster.id);
    accept(&listener, &places, &LIMITS, tasks, over, |stream, _, place| {
        Connection { cluster: cluster.clone(), place }.run(stream)
    })
    .instrument(span)
    .await;
    drop(listener);
    drop(lease);
}

/// One accepted connection.
struct Connection {
    cluster: Arc<Served>,
    place: Arc<Grant>,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        let greeted = tokio::select! {
            () = self.cluster.over.cancelled() => return,
            greeted = self.hold_and_greet(stream) => greeted,
        };
        let Some((stream, user, epoch)) = greeted else { return };
        if user.is_some() && !self.place.pin() {
            return;
        }
        let _open = Counted::new(&self.cluster.shared.metrics.connections);
        let stop = async {
            tokio::select! {
                () = epoch.cancelled() => {}
                () = self.cluster.over.cancelled() => {}
            }
        };
        serve_http(stream, &self.cluster, Tunnel::of(&self.cluster), user, Some(self.place), stop).await;
    }

    /// Waits until the cluster can answer, then for the TLS handshake.
    async fn hold_and_greet(&self, stream: TcpStream) -> Option<Greeted> {
        let (tls, epoch) = self.wait_for_front().await?;
        match handshake(stream, TlsAcceptor::from(tls.config.clone()), LIMITS.handshake).await {
            Ok(stream) => {
                let user = tls.user(stream.get_ref().1.peer_certificates(), (self.cluster.shared.clock)());
                Some((stream, user, epoch))
            }
            Err(error) => {
                tracing::debug!(cluster = %self.cluster.id, error = &error as &dyn Error, "Ended a connection");
                None
            }
        }
    }

    /// Waits, for a bounded time, until TLS is possible and, during an outage, until a backend is in service.
    async fn wait_for_front(&self) -> Option<(Arc<ApiServerTls>, CancellationToken)> {
        let ready = |state: &FrontState| state.tls.is_some() && (state.is_up() || !state.was_up);
        let mut front = self.cluster.front.subscribe();
        let _held = Counted::new(&self.cluster.shared.metrics.connections_held);
        let state = timeout(self.cluster.shared.hold, front.wait_for(ready)).await.ok()?.ok()?;
        Some((state.tls.clone()?, state.epoch.clone()))
    }
}

/// A connection after its handshake: the stream, the user that its certificate proves, and the token that ends it.
type Greeted = (tokio_rustls::server::TlsStream<TcpStream>, Option<UserInfo>, CancellationToken);
