//! The server of a router, with bounds on connections and on patience. It knows nothing of webhooks.

use std::{io, net, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// A client that has not finished its handshake by then is not served; nor one that does not answer when it is asked
/// whether it is still there.
const PATIENCE: Duration = Duration::from_secs(10);
/// The head of a connection's next request has to be there by then. Idle time counts, and Go's clients keep a connection
/// idle for 90 s (kubernetes, staging/src/k8s.io/apimachinery/pkg/util/net/http.go, `SetTransportDefaults`): whoever closes
/// first has to be the client, since a request that crosses the other's goodbye is lost, and with it a user's write.
const HEAD_MAX: Duration = Duration::from_secs(120);
/// The pause after an accept that failed, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on the listener until `shutdown`, by TLS or without, then lets requests in flight finish. At most
/// `connections_max` connections are served at a time; further ones wait in the listener's backlog.
///
/// # Errors
/// When the listener cannot be handed to tokio.
pub async fn serve_router(
    listener: net::TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    connections_max: usize,
    shutdown: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(connections_max));
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
        let (tls, router, shutdown) = (tls.clone(), router.clone(), shutdown.clone());
        connections.spawn(async move {
            connection(stream, tls, router, shutdown).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    shutdown: CancellationToken,
) {
    let Some(tls) = tls else { return requests(stream, router, shutdown).await };
    match timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, router, shutdown).await,
        Ok(Err(error)) => debug!(%error, "Handshake failed"),
        Err(_elapsed) => debug!("Handshake took too long"),
    }
}

async fn requests<IO>(io: IO, router: Router, shutdown: CancellationToken)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PATIENCE).keep_alive_timeout(PATIENCE);
    let connection = builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_outlasts_the_idle_time_of_clients_in_go() {
        let (mut client, server) = duplex(4096);
        let router = Router::new().route("/", get(|| async { "here" }));
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(requests(server, router, shutdown.clone()));
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it is open");
            let mut answer = Vec::new();
            while !answer.ends_with(b"here") {
                assert_ne!(client.read_buf(&mut answer).await.expect("it is open"), 0, "closed");
            }
            sleep(Duration::from_secs(91)).await;
        }
        shutdown.cancel();
        serving.await.expect("no panic");
    }
}
