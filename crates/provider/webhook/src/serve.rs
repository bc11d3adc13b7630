//! The HTTP server of the webhooks: methods, limits of sizes, and limits of concurrency.

use std::{
    io,
    net::{self, IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body as HttpBody,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use hyper_util::service::TowerToHyperService;
use nephele_listen::{Budget, Held, Limits, Owner, Peer, PeerAddress, ReadError, Session, Turns};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::ServedCertificate,
    metrics::{Metrics, Outcome},
    tls::TlsPolicy,
    webhook::{Body, Call, Reply, Webhook},
};

/// How long a client may take to send the body of its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests at a time on one connection. An API server sends all of its reviews over one.
const STREAMS_MAX: u32 = 100;
/// The most bytes of all reviews at a time: their bodies as they arrive, and what is made of them.
const REVIEWS_BYTES_MAX: usize = 160 << 20;
/// The most bytes of the reviews of one peer at a time: a conversion of 32 MiB, its answer, and an object.
const PEER_BYTES_MAX: usize = 96 << 20;
/// The bytes that a request counts for before its first byte, to cover the state of the process for it. So at most
/// 8,192 requests are being read.
const REQUEST_BYTES: usize = 16 << 10;

struct Server {
    webhook: Webhook,
    metrics: Metrics,
    reviews: Budget,
    turns: Turns,
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
    let reviews = Budget::new(REVIEWS_BYTES_MAX, REVIEWS_BYTES_MAX);
    let server = Arc::new(Server {
        webhook,
        metrics,
        reviews,
        turns: Turns::default(),
    });
    let service = TowerToHyperService::new(Router::new().fallback(call).with_state(server));
    let session = move |_: Peer<'_>| Session::unauthenticated(service.clone());
    let limits = Limits {
        body: PATIENCE,
        streams_max: STREAMS_MAX,
        ..Limits::default()
    };
    nephele_listen::serve(listener, move || Some(tls.clone()), limits, session, shutdown).await
}

async fn call(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some(route) = server.webhook.at(&path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let _calling = server.metrics.calling(&path);
    let started = Instant::now();
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0.ip());
    let peer = Owner::peer(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    let reviews = server.reviews.share(peer, PEER_BYTES_MAX);
    let reply = match read(&reviews, request.into_body(), route.bytes_max).await {
        Ok(review) => {
            let bytes = review.bytes.clone();
            let kind = route.made;
            let made = server
                .turns
                .work(peer, bytes.len(), move || kind.of(&bytes))
                .await;
            if made > PEER_BYTES_MAX - REQUEST_BYTES {
                too_many_values()
            } else if !review.grow(made) || !review.keep() {
                no_room()
            } else {
                route
                    .call(Call {
                        body: review.bytes.clone(),
                        peer,
                        turns: server.turns.clone(),
                    })
                    .await
            }
        }
        Err(reply) => reply,
    };
    server
        .metrics
        .called(&path, reply.code.as_u16(), reply.outcome, started.elapsed());
    response(reply)
}

/// Reads a body of at most `max` bytes. The error is the refusal.
async fn read(reviews: &Budget, body: HttpBody, max: usize) -> Result<Held, Reply> {
    let reading = timeout(PATIENCE, Held::read(body, max, reviews, REQUEST_BYTES));
    let read = reading.await.map_err(|_elapsed| {
        Reply::text(
            StatusCode::REQUEST_TIMEOUT,
            Outcome::TimedOut,
            "the review did not arrive",
        )
    })?;
    read.map_err(|error| match error {
        ReadError::NoRoom => no_room(),
        ReadError::TooLarge => {
            let text = format!("expected a review of at most {max} bytes");
            Reply::text(StatusCode::PAYLOAD_TOO_LARGE, Outcome::TooLarge, text)
        }
        ReadError::Failed(error) => {
            Reply::text(StatusCode::BAD_REQUEST, Outcome::Malformed, error.to_string())
        }
    })
}

fn too_many_values() -> Reply {
    Reply::text(
        StatusCode::PAYLOAD_TOO_LARGE,
        Outcome::TooLarge,
        "expected a review of fewer values",
    )
}

fn no_room() -> Reply {
    Reply::text(
        StatusCode::SERVICE_UNAVAILABLE,
        Outcome::Refused,
        "too many reviews at once",
    )
}

fn response(reply: Reply) -> Response {
    let (kind, body) = match reply.body {
        Body::Review(review) => (
            "application/json",
            serde_json::to_vec(&review).expect("a review is JSON"),
        ),
        Body::Written(review) => ("application/json", review),
        Body::Text(text) => ("text/plain; charset=utf-8", text.into_bytes()),
    };
    (reply.code, [(header::CONTENT_TYPE, kind)], HttpBody::from(body)).into_response()
}
