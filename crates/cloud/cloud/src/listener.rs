//! The TCP listener of a cluster, and how its connections wait.

use std::{error::Error, io, net::SocketAddr, sync::Arc};

use nephele_apiserver::UserInfo;
use nephele_listen::{Grant, Http, Owner, accept, handshake, refuse};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    cluster_server::{ClusterServer, LIMITS},
    connection::Backend,
    frontend::FrontendState,
    metrics::Counted,
    ports::PortLease,
    serve::{serve_foreign_server, serve_http},
    tunnel::Tunnel,
};

/// Bytes that are read of a connection that ends at once: more than the first message of TLS.
const UNREAD_BYTES_MAX: u64 = 16 * 1024;

/// Opens the listener. The port is free again when the returned socket is dropped. The standard library sets
/// `SO_REUSEADDR`, so connections in TIME_WAIT do not block the port.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(nephele_listen::bind(address)?)
}

/// Accepts connections until the cluster is deleted. Then closes the listener and releases its port, in this order.
pub(crate) async fn serve(cluster: Arc<ClusterServer>, listener: TcpListener, lease: PortLease) {
    let tasks = &cluster.shared.tasks;
    let over = &cluster.over;
    let span = tracing::info_span!("listener", cluster = %cluster.id);
    let serve = |stream, peer: SocketAddr, place| {
        Connection {
            cluster: cluster.clone(),
            peer: Owner::peer(peer.ip()),
            place,
        }
        .run(stream)
    };
    let refuse = |stream, peer: SocketAddr| turn_away(cluster.clone(), stream, Owner::peer(peer.ip()));
    accept(&listener, &cluster.places, &LIMITS, tasks, over, serve, refuse)
        .instrument(span)
        .await;
    drop(listener);
    drop(lease);
}

/// Tells a connection that there are too many of them, if the cluster has an API server to say so.
async fn turn_away(cluster: Arc<ClusterServer>, stream: TcpStream, peer: Owner) {
    let state = cluster.frontend.subscribe().borrow().clone();
    if let Some(Backend::ApiServer(tls)) = cluster.frontend.next_backend(&state) {
        let http = Http::new(LIMITS, cluster.shared.tasks.clone());
        refuse(stream, Some(TlsAcceptor::from(tls.config.clone())), &http, peer).await;
    }
}

/// One accepted connection.
struct Connection {
    cluster: Arc<ClusterServer>,
    peer: Owner,
    place: Arc<Grant>,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        // Dropped in the middle of whatever it does.
        let broken = self.cluster.broken();
        tokio::select! {
            () = self.run_until_its_end(stream) => {}
            () = broken => {}
        }
    }

    async fn run_until_its_end(self, stream: TcpStream) {
        // The handshake has a box of its own, so that the connection does not keep its size.
        let greeted = tokio::select! {
            () = self.cluster.over.cancelled() => return,
            greeted = Box::pin(self.hold_and_greet(stream)) => greeted,
        };
        let Some(Greeted {
            stream,
            user,
            is_foreign,
            epoch,
        }) = greeted
        else {
            return;
        };
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
        if is_foreign {
            return serve_foreign_server(stream, &self.cluster, self.place, stop).await;
        }
        serve_http(
            stream,
            &self.cluster,
            Tunnel::of(&self.cluster),
            user,
            Some(self.place),
            stop,
        )
        .await;
    }

    /// Waits until the cluster can answer, then for the TLS handshake.
    async fn hold_and_greet(&self, stream: TcpStream) -> Option<Greeted> {
        let (backend, epoch) = self.wait_for_frontend().await?;
        let (tls, is_foreign) = match backend {
            Backend::None => {
                end(stream).await;
                return None;
            }
            Backend::ForeignServer(tls) => (tls, true),
            Backend::ApiServer(tls) => (tls, false),
        };
        let acceptor = TlsAcceptor::from(tls.config.clone());
        match handshake(stream, acceptor, LIMITS.handshake, self.peer).await {
            Ok(stream) => {
                let user = tls.user(
                    stream.get_ref().1.peer_certificates(),
                    (self.cluster.shared.clock)(),
                );
                Some(Greeted {
                    stream,
                    user,
                    is_foreign,
                    epoch,
                })
            }
            Err(error) => {
                tracing::debug!(cluster = %self.cluster.id, error = &error as &dyn Error, "Ended a connection");
                None
            }
        }
    }

    /// Waits, for a bounded time, until TLS is possible and, during an outage, until a backend is in service.
    async fn wait_for_frontend(&self) -> Option<(Backend, CancellationToken)> {
        let mut frontend = self.cluster.frontend.subscribe();
        let _held = Counted::new(&self.cluster.shared.metrics.connections_held);
        let ready = frontend.wait_for(FrontendState::is_open);
        let state = timeout(self.cluster.shared.hold, ready).await.ok()?.ok()?;
        Some((self.cluster.frontend.next_backend(&state)?, state.epoch.clone()))
    }
}

/// Ends a connection. Unread bytes would turn its end into a reset, so they are read, for a bounded time.
async fn end(mut stream: TcpStream) {
    let read_all = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(UNREAD_BYTES_MAX), &mut tokio::io::sink()).await
    };
    let _ = timeout(LIMITS.drain, read_all).await;
}

/// A connection after its handshake.
struct Greeted {
    stream: tokio_rustls::server::TlsStream<TcpStream>,
    /// The user that its certificate proves.
    user: Option<UserInfo>,
    /// Whether it reached a server of another cluster.
    is_foreign: bool,
    epoch: CancellationToken,
}
