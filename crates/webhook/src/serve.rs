//! The HTTP server of the webhooks: methods, limits of sizes, and limits of concurrency.

use std::{io, net, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body as HttpBody,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper_util::service::TowerToHyperService;
use nephele_listen::{Budget, Grant, Limits, Peer, Session};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::ServedCertificate,
    metrics::{Metrics, Outcome},
    tls::TlsPolicy,
    webhook::{ADMISSION_BYTES_MAX, Body, Reply, Webhook},
};

/// How long a client may take to send the body of its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests at a time on one connection. An API server sends all of its reviews over one.
const STREAMS_MAX: u32 = 100;
/// The most bytes of all bodies at a time: 16 admission reviews of 8 MiB, or 4 conversions of 32 MiB.
const BODIES_BYTES_MAX: usize = 128 << 20;
/// The bytes that a request counts for before its first byte, to cover the state of the process for it. So at most
/// 8,192 requests are being read.
const REQUEST_BYTES: usize = 16 << 10;
/// Reviews at a time, in units of an admission review, because parsing takes several times the size of the body.
const REVIEWS_MAX: usize = 16;

struct Server {
    webhook: Webhook,
    metrics: Metrics,
    /// Memory for bodies. A request takes as much as it has sent, not as much as it announces. When memory is short,
    /// the request that has been silent for longest is dropped, so a slow client cannot block others.
    bodies: Budget,
    reviews: Semaphore,
}

/// Serves the webhooks on the listener until `shutdown`, then lets calls in flight finish. Handshakes fail until
/// there is a certificate. [`ServedCertificate::until_set`] returns when the webhooks can be called.
///
/// # Errors
/// When tokio refuses the listener.
pub async fn serve(
    webhook: Webhook,
    listener: net::TcpListener,
    certificate: ServedCertificate,
    tls: TlsPolicy,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let tls = TlsAcceptor::from(certificate.server_config(&tls));
    let bodies = Budget::new(BODIES_BYTES_MAX, BODIES_BYTES_MAX);
    let server = Arc::new(Server { webhook, metrics, bodies, reviews: Semaphore::new(REVIEWS_MAX) });
    let service = TowerToHyperService::new(Router::new().fallback(call).with_state(server));
    let session = move |_: Peer<'_>| Session::unauthenticated(service.clone());
    let limits = Limits { body: PATIENCE, streams_max: STREAMS_MAX, ..Limits::default() };
    nephele_listen::serve(listener, move || Some(tls.clone()), limits, session, shutdown).await
}

async fn call(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some(route) = server.webhook.at(&path) else { return StatusCode::NOT_FOUND.into_response() };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let _calling = server.metrics.calling(&path);
    let started = Instant::now();
    let reply = match read(&server.bodies, request.into_body(), route.bytes_max).await {
        Ok((body, _memory)) => {
            let units = route.bytes_max.div_ceil(ADMISSION_BYTES_MAX);
            let units = u32::try_from(units).expect("a bound of some megabytes");
            let _permit = server.reviews.acquire_many(units).await.expect("nobody closes the semaphore");
            route.call(body).await
        }
        Err(reply) => reply,
    };
    server.metrics.called(&path, reply.code.as_u16(), reply.outcome, started.elapsed());
    response(reply)
}

/// Reads a body of at most `max` bytes, and returns it with the grant for its memory. The error is the refusal.
async fn read(bodies: &Budget, body: HttpBody, max: usize) -> Result<(Vec<u8>, Grant), Reply> {
    let memory = bodies.take(REQUEST_BYTES).ok_or_else(no_room)?;
    let collected = tokio::select! {
        () = memory.revoked() => Err(no_room()),
        collected = timeout(PATIENCE, collect(body, max, &memory)) => collected.unwrap_or_else(|_elapsed| {
            Err(Reply::text(StatusCode::REQUEST_TIMEOUT, Outcome::TimedOut, "the review did not arrive"))
        }),
    };
    let body = collected?;
    if memory.pin() { Ok((body, memory)) } else { Err(no_room()) }
}

async fn collect(mut body: HttpBody, max: usize, memory: &Grant) -> Result<Vec<u8>, Reply> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Reply::text(StatusCode::BAD_REQUEST, Outcome::Malformed, error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > max {
            let text = format!("expected a review of at most {max} bytes");
            return Err(Reply::text(StatusCode::PAYLOAD_TOO_LARGE, Outcome::TooLarge, text));
        }
        if !memory.grow(data.len()) {
            return Err(no_room());
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected)
}

fn no_room() -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, Outcome::Refused, "too many reviews at once")
}

fn response(reply: Reply) -> Response {
    let (kind, body) = match reply.body {
        Body::Review(review) => ("application/json", serde_json::to_vec(&review).expect("a review is JSON")),
        Body::Text(text) => ("text/plain; charset=utf-8", text.into_bytes()),
    };
    (reply.code, [(header::CONTENT_TYPE, kind)], HttpBody::from(body)).into_response()
}
