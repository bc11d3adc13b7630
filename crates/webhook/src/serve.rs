//! The webhooks behind HTTP: methods, sizes, and how many at a time.

use std::{io, net, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body as HttpBody, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use http_body_util::LengthLimitError;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::ServedCertificate,
    metrics::{Metrics, Outcome},
    server::serve_router,
    tls::TlsPolicy,
    webhook::{ADMISSION_BYTES_MAX, Body, Reply, Webhook},
};

/// Connections served at a time; further ones wait in the listener's backlog. An API server has a few.
const CONNECTIONS_MAX: usize = 256;
/// Requests read and decided at a time, in units of an admission review: 16 of 8 MiB are 128 MiB at most.
const REVIEWS_MAX: usize = 16;
/// A client that has not sent the body of its request by then is not served.
const PATIENCE: Duration = Duration::from_secs(10);

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
    tls: TlsPolicy,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let tls = TlsAcceptor::from(certificate.server_config(&tls));
    let server = Arc::new(Server { webhook, metrics, reviews: Semaphore::new(REVIEWS_MAX) });
    let router = Router::new().fallback(call).with_state(server);
    serve_router(listener, Some(tls), router, CONNECTIONS_MAX, shutdown).await
}

async fn call(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some(route) = server.webhook.at(&path) else { return StatusCode::NOT_FOUND.into_response() };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let _calling = server.metrics.calling(&path);
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
