//! An extension as an HTTP service: paths, methods, bodies and deadlines.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody as _},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use nephele_listen::{Budget, Held, Owner, Parse, PeerAddress, ReadError, Turns, parsed_size};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument as _, debug, debug_span, warn};

use super::{
    handler::{Answer, Call, Handler, Received},
    limits::Limits,
    metrics::{HandlerMetrics, Metrics, Outcome},
    record::{Recorded, Recorder},
};
use crate::{
    catalog::Catalog,
    hooks::discovery::{TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX},
    openapi,
};

/// The bytes that a call counts for before its first byte, to cover the state of the process for it.
const CALL_BYTES: usize = 16 << 10;

/// An extension that can be served. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    routes: BTreeMap<String, Route>,
    limits: Limits,
    calls: Budget,
    turns: Turns,
    metrics: Metrics,
    document: Value,
    openapi: Option<(String, Bytes)>,
    recorder: Option<Recorder>,
}

struct Route {
    handler: Handler,
    metrics: HandlerMetrics,
    timeout: Duration,
    /// The `Warning` header for callers of a deprecated hook, as Kubernetes' API server sends it.
    warning: Option<HeaderValue>,
}

impl Service {
    pub(super) fn new(
        routes: BTreeMap<String, Handler>,
        catalogs: &BTreeMap<String, Catalog>,
        limits: Limits,
        metrics: Metrics,
        openapi: Option<String>,
        recorder: Option<Recorder>,
    ) -> Self {
        let route = |handler: Handler| {
            let seconds = match handler.options.timeout_seconds {
                None | Some(0) => TIMEOUT_SECONDS_DEFAULT,
                Some(seconds) => seconds,
            };
            Route {
                metrics: metrics.of(&handler.hook.group, &handler.hook.hook, &handler.name),
                timeout: seconds_of(seconds),
                warning: handler.deprecated.then(|| {
                    HeaderValue::try_from(format!("299 - \"{} is deprecated\"", handler.hook))
                        .expect("groups, versions and names of hooks are ASCII")
                }),
                handler,
            }
        };
        let routes = routes
            .into_iter()
            .map(|(path, handler)| (path, route(handler)))
            .collect();
        let document = openapi::document(catalogs, &openapi::Info::default());
        let openapi = openapi.map(|path| (path, Bytes::from(document.to_string())));
        let calls = Budget::new(limits.calls_bytes_max, limits.calls_bytes_max);
        let turns = Turns::default();
        let inner = Inner {
            routes,
            limits,
            calls,
            turns,
            metrics,
            document,
            openapi,
            recorder,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The extension as a router for the caller's own HTTP server, with or without TLS. It answers every path.
    pub fn router(&self) -> Router {
        Router::new().fallback(call).with_state(self.clone())
    }

    /// The served paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.inner.routes.keys().map(String::as_str)
    }

    /// The `OpenAPI` document of all mounts.
    #[must_use]
    pub fn openapi(&self) -> &Value {
        &self.inner.document
    }

    pub(super) fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// The metrics of the extension.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.paths()).finish()
    }
}

async fn call(State(service): State<Service>, request: Request) -> Response {
    let service = &service.inner;
    let path = request.uri().path();
    let Some(route) = service.routes.get(path) else {
        return match &service.openapi {
            Some((at, document)) if at == path && request.method() == Method::GET => {
                json(Body::from(document.clone()))
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        };
    };
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    let started = Instant::now();
    let deadline = started + patience(request.uri().query(), route.timeout);
    let _in_flight = route.metrics.begin();
    let span = debug_span!("hook", hook = %route.handler.hook.hook, handler = &*route.handler.name);
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0.ip());
    let peer = Owner::peer(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    let (head, body) = request.into_parts();
    let mut recorded = service
        .recorder
        .as_ref()
        .and_then(|recorder| Recorded::begin(recorder, &head, &route.handler.name, &route.handler.hook));
    let answered = timeout_at(
        deadline,
        answer(service, route, body, peer, deadline, recorded.as_mut()),
    )
    .instrument(span);
    let answered = answered.await;
    let said = recorded
        .as_ref()
        .and_then(|_| answered.as_ref().ok()?.body.clone());
    let (mut response, outcome) = match answered {
        Ok(Answer {
            body: Some(body),
            outcome,
        }) => (json(Body::from(body)), outcome),
        Ok(Answer {
            body: None,
            outcome: Outcome::Unread,
        }) => (StatusCode::BAD_REQUEST.into_response(), Outcome::Unread),
        Ok(Answer {
            body: None,
            outcome: Outcome::Slow,
        }) => (
            (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time").into_response(),
            Outcome::Slow,
        ),
        Ok(Answer {
            body: None,
            outcome: Outcome::Refused,
        }) => (
            (StatusCode::SERVICE_UNAVAILABLE, "too many calls at once").into_response(),
            Outcome::Refused,
        ),
        Ok(Answer { body: None, outcome }) => (StatusCode::INTERNAL_SERVER_ERROR.into_response(), outcome),
        Err(_elapsed) => {
            warn!(hook = %route.handler.hook, handler = &*route.handler.name, "Call did not end in time");
            (
                (StatusCode::GATEWAY_TIMEOUT, "the handler did not answer in time").into_response(),
                Outcome::TimedOut,
            )
        }
    };
    route.metrics.ended(outcome, started.elapsed());
    if let Some(recorded) = recorded {
        recorded.end(response.status(), said);
    }
    if let Some(warning) = &route.warning {
        response.headers_mut().insert(header::WARNING, warning.clone());
    }
    response
}

async fn answer(
    service: &Inner,
    route: &Route,
    body: Body,
    peer: Owner,
    deadline: Instant,
    recorded: Option<&mut Recorded>,
) -> Answer {
    let Limits {
        body_bytes_max: max,
        body_time_max,
        parsed_bytes_max,
        peer_bytes_max,
        ..
    } = service.limits;
    let too_large = || {
        let message = format!("error reading request: the body has more than {max} bytes");
        (route.handler.fail)(message, Outcome::TooLarge)
    };
    let declared = body
        .size_hint()
        .exact()
        .map_or(max, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if declared > max {
        // Reads the body up to the limit: a client that is still writing might not see the response otherwise.
        let _late = timeout(body_time_max, discard(body, max)).await;
        return too_large();
    }
    let calls = service.calls.share(peer, peer_bytes_max);
    let held = match timeout(body_time_max, Held::read(body, max, &calls, CALL_BYTES)).await {
        Ok(Ok(held)) => held,
        Ok(Err(ReadError::TooLarge)) => return too_large(),
        Ok(Err(ReadError::NoRoom)) => {
            return Answer {
                body: None,
                outcome: Outcome::Refused,
            };
        }
        Ok(Err(ReadError::Failed(error))) => {
            debug!(%error, "Body did not arrive completely");
            return Answer {
                body: None,
                outcome: Outcome::Unread,
            };
        }
        Err(_elapsed) => {
            return Answer {
                body: None,
                outcome: Outcome::Slow,
            };
        }
    };
    let bytes = held.bytes.clone();
    let parsed = service
        .turns
        .work(peer, bytes.len(), move || parsed_size(&bytes, Parse::Types))
        .await;
    if parsed > parsed_bytes_max {
        let message = format!("error reading request: its values take more than {parsed_bytes_max} bytes");
        return (route.handler.fail)(message, Outcome::TooLarge);
    }
    if !held.grow(parsed) || !held.keep() {
        return Answer {
            body: None,
            outcome: Outcome::Refused,
        };
    }
    let bytes = held.bytes.clone();
    if let Some(recorded) = recorded {
        recorded.body = Some(bytes.clone());
    }
    let handler = &route.handler;
    let call = Call {
        hook: Arc::clone(&handler.hook),
        handler: Arc::clone(&handler.name),
        deadline,
    };
    (handler.run)(
        Received {
            bytes,
            peer,
            turns: service.turns.clone(),
        },
        call,
    )
    .await
}

async fn discard(mut body: Body, max: usize) {
    let mut read = 0;
    while read <= max {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

/// How long the caller waits: the timeout in the query, or else the timeout of the handler in discovery.
fn patience(query: Option<&str>, timeout: Duration) -> Duration {
    let said = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(|text| nephele_go_duration::parse(text).ok())
        .filter(|said| !said.is_zero());
    said.unwrap_or(timeout).min(seconds_of(TIMEOUT_SECONDS_MAX))
}

fn seconds_of(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn json(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_says_how_long_it_waits_up_to_thirty_seconds() {
        let ten = Duration::from_secs(10);
        for (query, milliseconds) in [
            (None, 10_000),
            (Some("timeout=1s"), 1_000),
            (Some("a=b&timeout=250ms"), 250),
            (Some("timeout=30s"), 30_000),
            (Some("timeout=1h"), 30_000),
            (Some("timeout=0s"), 10_000),
            (Some("timeout=soon"), 10_000),
            (Some("timeout="), 10_000),
        ] {
            assert_eq!(
                patience(query, ten),
                Duration::from_millis(milliseconds),
                "{query:?}"
            );
        }
    }
}
