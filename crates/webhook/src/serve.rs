//! The server: TLS, HTTP, and the bounds of both.

use std::{io, net, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body as HttpBody, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use http_body_util::LengthLimitError;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    certificate::ServedCertificate,
    metrics::{Metrics, Outcome},
    webhook::{ADMISSION_BYTES_MAX, Body, Reply, Webhook},
};

/// Connections served at a time; further ones wait in the listener's backlog. An API server has a few.
const CONNECTIONS_MAX: usize = 256;
/// Requests read and decided at a time, in units of an admission review: 16 of 8 MiB are 128 MiB at most.
const REVIEWS_MAX: usize = 16;
/// A client that has not finished its handshake, the head of its request or the body by then is not served.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after an accept that failed, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Server {
    webhook: Webhook,
    metrics: Metrics,
    reviews: Semaphore,
}

/// Serves the webhooks on the listener until `shutdown`, then lets calls in flight finish. A handshake fails as long as
/// there is no certificate: [`ServedCertificate::until_set`] tells when the webhooks can be called.
///
/// # Errors
/// When the listener cannot be handed to tokio.
pub async fn serve(
    webhook: Webhook,
    listener: net::TcpListener,
    certificate: ServedCertificate,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let tls = TlsAcceptor::from(certificate.server_config());
    let server = Arc::new(Server { webhook, metrics, reviews: Semaphore::new(REVIEWS_MAX) });
    let router = Router::new().fallback(call).with_state(server);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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

async fn connection(stream: TcpStream, tls: TlsAcceptor, router: Router, shutdown: CancellationToken) {
    let stream = match timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "Handshake failed"),
        Err(_elapsed) => return debug!("Handshake took too long"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PATIENCE).keep_alive_timeout(PATIENCE);
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

async fn call(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some(route) = server.webhook.at(&path) else { return StatusCode::NOT_FOUND.into_response() };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let started = Instant::now();
    let units = route.bytes_max.div_ceil(ADMISSION_BYTES_MAX);
    let units = u32::try_from(units).expect("a bound of some megabytes");
    let _permit = server.reviews.acquire_many(units).await.expect("nobody closes the semaphore");
    let reply = match timeout(PATIENCE, to_bytes(request.into_body(), route.bytes_max)).await {
        Ok(Ok(body)) => route.call(body.into()).await,
        Ok(Err(error)) if is_too_long(&error) => {
            let text = format!("expected a review of at most {} bytes", route.bytes_max);
            Reply::text(StatusCode::PAYLOAD_TOO_LARGE, Outcome::TooLarge, text)
        }
        Ok(Err(error)) => Reply::text(StatusCode::BAD_REQUEST, Outcome::Malformed, error.to_string()),
        Err(_elapsed) => {
            Reply::text(StatusCode::REQUEST_TIMEOUT, Outcome::TimedOut, "the review did not arrive")
        }
    };
    server.metrics.called(&path, reply.code.as_u16(), reply.outcome, started.elapsed());
    response(reply)
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn response(reply: Reply) -> Response {
    let (kind, body) = match reply.body {
        Body::Review(review) => ("application/json", serde_json::to_vec(&review).expect("a review is JSON")),
        Body::Text(text) => ("text/plain; charset=utf-8", text.into_bytes()),
    };
    (reply.code, [(header::CONTENT_TYPE, kind)], HttpBody::from(body)).into_response()
}
