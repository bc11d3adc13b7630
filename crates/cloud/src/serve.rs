//! HTTP on a connection whose TLS has been spoken.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use nephele_apiserver::{PortForward, UserInfo};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;
use crate::tunnel::Tunnel;

/// Time for requests in flight when a connection is asked to end. An answer takes microseconds; watches never end by
/// themselves and are cut.
const DRAIN: Duration = Duration::from_millis(100);

/// Time for a request's head. It counts while a connection is idle too, so that idle HTTP/1.1 connections go after it;
/// later than clients in Go let go of theirs, after 90 s, as a request that crosses our goodbye is lost.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);

/// Time that the health check `GET /` waits for the first backend before the load balancer answers it: a second less
/// than Cluster API's cluster cache gives it (`healthProbeConfig` in controllers/clustercache/cluster_accessor.go).
const PROBE_HOLD: Duration = Duration::from_secs(4);

/// Time that discovery waits for the first backend before it is answered without one, since it is the same whichever
/// backend answers: a second less than the cluster cache gives any request. It asks twice (`/api`, `/apis`) and then
/// for a Pod of its own, which only a backend answers, so that it connects when there is one and not before.
const DISCOVERY_HOLD: Duration = Duration::from_secs(9);

/// Streams of one HTTP/2 connection. A watch is one stream, and Go's client assumes 250 until it is told.
const STREAMS_MAX: u32 = 250;

/// What a client may send on one stream, and on one connection, before it is read: bodies are small objects.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;

/// Serves HTTP/2 or HTTP/1.1, as TLS negotiated, for the user that the connection proved, until the client goes or
/// `stop` is ready.
pub(crate) async fn serve_http<IO>(
    io: TlsStream<IO>,
    cluster: &Arc<Cluster>,
    user: Option<UserInfo>,
    stop: impl Future<Output = ()>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_http2 = io.get_ref().1.alpn_protocol() == Some(b"h2");
    let tunnel: Arc<dyn PortForward> = Arc::new(Tunnel { cluster: cluster.clone() });
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        let (cluster, tunnel) = (cluster.clone(), tunnel.clone());
        async move { Ok::<_, Infallible>(answer(&cluster, tunnel, request).await) }
    });
    let io = TokioIo::new(io);
    // An idle connection keeps its buffers; small ones make it cheap.
    let result = if is_http2 {
        let connection = http2::Builder::new(Tracked(cluster.shared.tasks.clone()))
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(64 * 1024)
            .max_header_list_size(32 * 1024)
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => result,
            () = stop => {
                connection.as_mut().graceful_shutdown();
                timeout(DRAIN, connection).await.unwrap_or(Ok(()))
            }
        }
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(32 * 1024)
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = pin!(connection);
        tokio::select! {
            result = connection.as_mut() => result,
            () = stop => {
                connection.as_mut().graceful_shutdown();
                timeout(DRAIN, connection).await.unwrap_or(Ok(()))
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(cluster = %cluster.spec.id, %error, "A connection ended early");
    }
}

/// Runs the streams of a connection as tasks that are counted.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// A request that waits for the first backend.
enum Waiting {
    Probe,
    Discovery,
    Other,
}

impl Waiting {
    fn of(path: &str) -> Self {
        match path {
            "/" => Self::Probe,
            "/api" | "/apis" => Self::Discovery,
            _ => Self::Other,
        }
    }

    fn hold(&self) -> Duration {
        match self {
            Self::Probe => PROBE_HOLD,
            Self::Discovery => DISCOVERY_HOLD,
            Self::Other => Duration::MAX,
        }
    }
}

/// Answers a request as the load balancer does: itself or, once there is one, by a backend.
pub(crate) async fn answer(
    cluster: &Cluster,
    tunnel: Arc<dyn PortForward>,
    request: Request<Body>,
) -> Response<Body> {
    if !cluster.front.is_up() {
        let kind = Waiting::of(request.uri().path());
        let hold = cluster.shared.hold.min(kind.hold());
        let mut front = cluster.front.subscribe();
        if !matches!(timeout(hold, front.wait_for(|state| state.backends > 0)).await, Ok(Ok(_))) {
            match kind {
                Waiting::Probe => return Response::new(Body::from("waiting for the control plane\n")),
                Waiting::Discovery => {}
                Waiting::Other => return unavailable("no API server of the control plane is up yet"),
            }
        }
    }
    cluster.front.api_server(&cluster.store, tunnel).handle(request).await
}

/// A refusal that asks to come again.
pub(crate) fn unavailable(message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "ServiceUnavailable",
        "code": 503, "message": message, "details": {"retryAfterSeconds": 1},
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
