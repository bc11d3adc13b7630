//! The TCP listener of a cluster, and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use nephele_apiserver::{ApiServer, UserInfo};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::front::FrontState;
use crate::metrics::Metrics;
use crate::tls::ApiServerTls;
use crate::tunnel::Tunnel;

/// Connections of one cluster at a time, held ones included. Three controllers open some four each, a busy test
/// suite some dozens; a held one costs a socket and about a kilobyte.
const CONNECTIONS_MAX: usize = 256;

/// A handshake takes milliseconds; whoever takes this long is not going to finish.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What serving a cluster needs beside the cluster.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Metrics,
    pub(crate) hold: Duration,
}

/// Opens the listener. The port is free again when the returned socket is dropped.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections until the cluster is over.
pub(crate) async fn serve(cluster: Arc<Cluster>, listener: TcpListener, shared: Shared) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let over = cluster.over.clone();
    loop {
        let accepted = tokio::select! {
            () = over.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // A client that is gone already, or a process out of descriptors: the next try may fare better.
                tracing::warn!(cluster = %cluster.spec.id, %error, "Failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(cluster = %cluster.spec.id, "Refused a connection: too many are open");
            continue;
        };
        // Small messages to and fro: waiting for more to send helps nobody.
        let _ = stream.set_nodelay(true);
        let connection = Connection { cluster: cluster.clone(), shared: shared.clone() };
        shared.tasks.spawn(async move {
            connection.run(stream).await;
            drop(place);
        });
    }
}

/// One accepted connection.
struct Connection {
    cluster: Arc<Cluster>,
    shared: Shared,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        let over = self.cluster.over.clone();
        tokio::select! {
            () = over.cancelled() => {}
            () = self.hold_and_serve(stream) => {}
        }
    }

    async fn hold_and_serve(&self, stream: TcpStream) {
        let mut front = self.cluster.front.subscribe();
        let Some((tls, epoch)) = self.wait_for_front(&mut front).await else { return };
        let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls.config.clone()).accept(stream)).await;
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(cluster = %self.cluster.spec.id, %error, "Failed a TLS handshake");
                return;
            }
            Err(_) => return,
        };
        let user = tls.user(stream.get_ref().1.peer_certificates());
        self.shared.metrics.connections.inc();
        tokio::select! {
            () = epoch.cancelled() => {}
            () = serve_http(stream, self.cluster.clone(), self.shared.clone(), user) => {}
        }
        self.shared.metrics.connections.dec();
    }

    /// Waits, for a bounded time, until TLS can be spoken and, after the first backend's time, until one is up.
    async fn wait_for_front(
        &self,
        front: &mut watch::Receiver<FrontState>,
    ) -> Option<(Arc<ApiServerTls>, CancellationToken)> {
        let ready = |state: &FrontState| state.tls.is_some() && (state.backends > 0 || !state.was_up);
        let held = &self.shared.metrics.connections_held;
        held.inc();
        let waited = timeout(self.shared.hold, front.wait_for(ready)).await;
        held.dec();
        let state = waited.ok()?.ok()?;
        Some((state.tls.clone()?, state.epoch.clone()))
    }
}

/// Serves HTTP/1.1 and HTTP/2 on a connection whose TLS has been spoken, for the user that it proved.
pub(crate) async fn serve_http<IO>(io: IO, cluster: Arc<Cluster>, shared: Shared, user: Option<UserInfo>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tunnel = Arc::new(Tunnel { cluster: cluster.clone(), shared: shared.clone() });
    let server = cluster.front.api_server(&cluster.store, tunnel);
    let front = cluster.front.subscribe();
    let hold = shared.hold;
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        let (server, front) = (server.clone(), front.clone());
        async move { Ok::<_, Infallible>(answer(server, front, hold, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Bodies are small: windows of 64 KiB and a few KiB of buffers keep an idle connection cheap. Go's clients open
    // up to 250 streams; one watch is one stream.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .max_buf_size(16 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(128 * 1024)
        .max_send_buf_size(64 * 1024)
        .max_header_list_size(32 * 1024);
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(io), service).await {
        tracing::debug!(cluster = %cluster.spec.id, %error, "A connection ended early");
    }
}

/// Answers a request as the load balancer does: itself or, once there is one, by a backend.
async fn answer(
    server: ApiServer,
    mut front: watch::Receiver<FrontState>,
    hold: Duration,
    request: Request<Body>,
) -> Response<Body> {
    let waiting = {
        let state = front.borrow();
        state.backends == 0
    };
    if waiting {
        if request.uri().path() == "/" {
            return Response::new(Body::from("waiting for the control plane\n"));
        }
        let up = timeout(hold, front.wait_for(|state| state.backends > 0)).await;
        if !matches!(up, Ok(Ok(_))) {
            return unavailable();
        }
    }
    server.handle(request).await
}

fn unavailable() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "ServiceUnavailable",
        "code": 503, "message": "no API server of the control plane is up yet", "details": {"retryAfterSeconds": 1},
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    response
}
