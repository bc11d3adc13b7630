//! Connections: accepted, encrypted, served, ended.

use std::{io, net, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{service::Service, tls::Tls};

/// A client that has not finished its handshake by then is not served.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// The head of the next request has to be there by then. Idle time counts, and clients in Go keep a connection idle for
/// 90 s: the client has to close first, since a call that crosses the other's goodbye is lost.
const HEAD_MAX: Duration = Duration::from_secs(120);
/// How often a quiet HTTP/2 connection is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Calls at a time in an HTTP/2 connection; Go's server has as many.
const STREAMS_MAX: u32 = 250;
/// The pause after an accept that failed, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long calls may go on after `shutdown`; no call is allowed more.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Serves an extension on the listener until `shutdown`, then lets calls in flight end, for 30 s at most. HTTP/2 and
/// HTTP/1.1 are spoken. While it runs, files of [`Tls::load`] are followed.
///
/// # Errors
/// When the listener cannot be handed to tokio.
pub async fn serve(
    service: Service,
    listener: net::TcpListener,
    tls: Tls,
    shutdown: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(service.limits().connections_max));
    let follower = tokio::spawn(tls.clone().follow(service.metrics().clone(), shutdown.clone()));
    let router = service.router();
    let mut connections = JoinSet::new();
    loop {
        let Some(place) = shutdown.run_until_cancelled(Arc::clone(&places).acquire_owned()).await else {
            break;
        };
        let place = place.expect("nobody closes the semaphore");
        let stream = match shutdown.run_until_cancelled(listener.accept()).await {
            None => break,
            Some(Ok((stream, _))) => stream,
            Some(Err(error)) => {
                warn!(%error, "Failed to accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The configuration of now: connections that are there keep the certificate that they began with.
        let (acceptor, router, shutdown) = (tls.acceptor(), router.clone(), shutdown.clone());
        connections.spawn(async move {
            connection(stream, acceptor, router, shutdown).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let drained = timeout(DRAIN_MAX, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        warn!(connections = connections.len(), "Calls did not end in time");
    }
    follower.abort();
    Ok(())
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, shutdown: CancellationToken) {
    // Answers are short: waiting for more to send only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "Failed to switch delays off");
    }
    let stream = match timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "Handshake failed"),
        Err(_elapsed) => return debug!("Handshake took too long"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(HANDSHAKE_MAX)
        .max_concurrent_streams(STREAMS_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        debug!(%error, "Connection ended with an error");
    }
}
