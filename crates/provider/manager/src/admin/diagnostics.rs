use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use nephele_listen::{Owner, Turns};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tracing::warn;

use super::{
    checkpoint,
    journal::{self, RunningCloud},
    namespace::Namespace,
    reviews::{AccessRequest, Judgement, Permission, ReviewError, Reviews, Verdict},
    serve::CallerAddress,
};

/// Sets the log verbosity, from 0 up, while the process runs.
pub type Verbosity = Arc<dyn Fn(u8) + Send + Sync>;

/// `/metrics` in the Prometheus text format.
pub(crate) fn router(registry: Registry) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state((registry, Turns::default()))
}

/// `/debug/flags/v`, as in Cluster API's managers: PUT a number to log more or less.
pub(crate) fn debug_router(verbosity: Verbosity) -> Router {
    Router::new()
        .route("/debug/flags/v", put(set_verbosity))
        .with_state(verbosity)
}

/// The only namespace that a GET concerns, or the answer to one that asks for what there is not.
pub(crate) type NamespaceOf = fn(&Uri) -> Result<Option<Namespace>, String>;

/// Who may use a router.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) reviews: Reviews,
    /// The audience that tokens have to be for; the API server itself if there is none.
    pub(crate) audience: Option<&'static str>,
    /// For a router of which whoever may get the InMemoryClusters of a namespace may get what concerns that namespace. It
    /// has to answer with nothing else.
    pub(crate) namespace_of: Option<NamespaceOf>,
}

/// A router that requires a bearer token the API server knows (else 401), of a user who may use the verb on the
/// path, or with the namespace (else 403).
pub(crate) fn authorized(router: Router, gate: Gate) -> Router {
    router.layer(middleware::from_fn_with_state(gate, authorize))
}

/// `/journal`, by its router, and `/checkpoint`. Whoever may read a namespace reads its part of the journal, and no checkpoint: that has
/// Secrets.
pub(crate) fn of_cloud(journal: Router, cloud: RunningCloud, gate: Gate) -> Router {
    let of_journal = Gate {
        namespace_of: Some(journal::namespace_of),
        ..gate.clone()
    };
    let journal = authorized(journal, of_journal);
    journal.merge(authorized(checkpoint::router(cloud), gate))
}

/// There are series for each namespace, so users choose how many there are.
async fn metrics(
    State((registry, turns)): State<(Registry, Turns)>,
    caller: Option<Extension<CallerAddress>>,
) -> Response {
    let owner = caller.map_or_else(Owner::unique, |Extension(CallerAddress(address))| {
        Owner::peer(address)
    });
    let write = move || TextEncoder::new().encode_to_string(&registry.gather());
    match turns.work(owner, usize::MAX, write).await {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            warn!(%error, "Failed to write the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn set_verbosity(State(verbosity): State<Verbosity>, body: String) -> (StatusCode, String) {
    match body.trim().parse() {
        Ok(level) => {
            verbosity(level);
            (StatusCode::OK, format!("verbosity set to {level}\n"))
        }
        Err(_) => (
            StatusCode::BAD_REQUEST,
            "expected a number from 0 to 255\n".to_owned(),
        ),
    }
}

async fn authorize(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let access = match access(&gate, &request) {
        Ok(access) => access,
        Err(refusal) => return refusal.into_response(),
    };
    let caller = request.extensions().get::<CallerAddress>().copied();
    match gate.reviews.judge(&access, caller).await {
        Ok(Judgement {
            verdict: Verdict::Allowed(allowed),
            until,
        }) => {
            request.extensions_mut().insert(Permission {
                reviews: gate.reviews,
                access,
                allowed,
                until,
            });
            next.run(request).await
        }
        Ok(Judgement {
            verdict: Verdict::Unauthenticated,
            ..
        }) => StatusCode::UNAUTHORIZED.into_response(),
        Ok(Judgement {
            verdict: Verdict::Forbidden,
            ..
        }) => StatusCode::FORBIDDEN.into_response(),
        // Not logged, because callers could fill the log.
        Err(error @ ReviewError::Busy) => {
            let why = format!("{error}\n");
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], why).into_response()
        }
        Err(error) => {
            warn!(error = %nephele_controller::chain(&error), "Failed to review the caller of the diagnostics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// What a request asks for, or the answer to one that needs no review.
fn access(gate: &Gate, request: &Request) -> Result<AccessRequest, (StatusCode, String)> {
    let token = bearer_token(request.headers());
    let token = token.ok_or_else(|| (StatusCode::UNAUTHORIZED, String::new()))?;
    let namespace = match gate.namespace_of {
        Some(namespace_of) if request.method() == Method::GET => {
            namespace_of(request.uri()).map_err(|why| (StatusCode::BAD_REQUEST, format!("{why}\n")))?
        }
        _ => None,
    };
    Ok(AccessRequest {
        token: token.to_owned(),
        audience: gate.audience,
        path: request.uri().path().to_owned(),
        verb: request.method().as_str().to_ascii_lowercase(),
        namespace,
    })
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::body::{Body, to_bytes};
    use kube::Client;
    use prometheus::IntCounter;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;
    use crate::admin::reviews::{Allowed, Scope, User, tests::reviewer};

    /// An API server that knows the tokens `reader` and `stranger`, allows only the former to get `/metrics`, and
    /// counts its requests. The token `bound` is that of the reader for the audience `ours`.
    fn reviewing() -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let client = reviewer(move |spec| {
            counted.fetch_add(1, Ordering::Relaxed);
            match spec["token"].as_str() {
                Some(token @ ("reader" | "stranger")) if spec["audiences"].is_null() => {
                    json!({ "authenticated": true, "user": { "username": token, "groups": ["people"] } })
                }
                Some("bound") if spec["audiences"] == json!(["ours"]) => json!({
                    "authenticated": true, "audiences": ["ours"],
                    "user": { "username": "reader", "groups": ["people"] },
                }),
                // An authenticator that knows nothing of audiences.
                Some("unaware") => json!({
                    "authenticated": true, "user": { "username": "reader", "groups": ["people"] },
                }),
                Some(_) => json!({ "authenticated": false }),
                None => {
                    let wanted = json!({ "path": "/metrics", "verb": "get" });
                    let may = spec["user"] == "reader" && spec["nonResourceAttributes"] == wanted;
                    json!({ "allowed": may && spec["groups"] == json!(["people"]) })
                }
            }
        });
        (client, asked)
    }

    fn by_path(client: Client, audience: Option<&'static str>) -> Gate {
        Gate {
            reviews: Reviews::new(client),
            audience,
            namespace_of: None,
        }
    }

    fn registry() -> Registry {
        let registry = Registry::new();
        let counter = IntCounter::new("things_total", "Things.").expect("a valid name");
        registry.register(Box::new(counter)).expect("a new registry");
        registry
    }

    async fn ask(router: &Router, authorization: Option<&str>) -> (StatusCode, String) {
        ask_from(router, authorization, 1).await
    }

    async fn ask_from(router: &Router, authorization: Option<&str>, host: u8) -> (StatusCode, String) {
        let mut request = http::Request::get("/metrics").extension(CallerAddress([10, 0, 0, host].into()));
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("in memory");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn the_verbosity_can_be_changed_to_a_number() {
        let level = Arc::new(AtomicUsize::new(2));
        let set = Arc::clone(&level);
        let router = debug_router(Arc::new(move |level| set.store(level.into(), Ordering::Relaxed)));
        let put = |body: &'static str| {
            let request = http::Request::put("/debug/flags/v")
                .body(Body::from(body))
                .expect("a request");
            let answer = router.clone().oneshot(request);
            async move { answer.await.expect("infallible").status() }
        };
        assert_eq!(put("loud").await, StatusCode::BAD_REQUEST);
        assert_eq!(level.load(Ordering::Relaxed), 2);
        assert_eq!(put("5\n").await, StatusCode::OK);
        assert_eq!(level.load(Ordering::Relaxed), 5);
    }

    #[tokio::test]
    async fn the_rules_of_the_cluster_decide_who_reads() {
        let (client, _) = reviewing();
        let router = authorized(router(registry()), by_path(client, None));
        assert_eq!(ask(&router, None).await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(
            ask(&router, Some("Bearer unknown")).await.0,
            StatusCode::UNAUTHORIZED
        );
        assert_eq!(
            ask(&router, Some("Bearer stranger")).await.0,
            StatusCode::FORBIDDEN
        );
        let (status, text) = ask(&router, Some("Bearer reader")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            text,
            "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 0\n"
        );
    }

    #[tokio::test]
    async fn a_token_for_another_audience_is_none() {
        for (audience, expected) in [(None, [200, 401, 200]), (Some("ours"), [401, 200, 401])] {
            let (client, _) = reviewing();
            let router = authorized(router(registry()), by_path(client, audience));
            let mut answers = Vec::new();
            for token in ["Bearer reader", "Bearer bound", "Bearer unaware"] {
                answers.push(ask(&router, Some(token)).await.0.as_u16());
            }
            assert_eq!(answers, expected, "{audience:?}");
        }
    }

    /// The token is taken away after two minutes, and for a minute the API server does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_permission_ends_with_the_verdict_and_outlasts_a_short_outage() {
        let since = tokio::time::Instant::now();
        let (client, _) = reviewing();
        let taken_away = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let client = client.clone();
            let elapsed = since.elapsed().as_secs();
            async move {
                let refused = |code: u16| http::Response::builder().status(code).body(Body::empty());
                match elapsed {
                    0..90 => client.send(request).await.map(|answer| answer.map(Body::new)),
                    90..150 => Ok(refused(503).expect("an answer")),
                    _ => Ok(http::Response::new(Body::from(
                        json!({ "spec": {}, "status": { "authenticated": false } }).to_string(),
                    ))),
                }
            }
        });
        let reviews = Reviews::new(Client::new(taken_away, "default"));
        let access = AccessRequest {
            token: "reader".to_owned(),
            audience: None,
            path: "/metrics".to_owned(),
            verb: "get".to_owned(),
            namespace: None,
        };
        let judgement = reviews.judge(&access, None).await.expect("a judgement");
        let allowed = Allowed {
            user: User::named("reader"),
            scope: Scope::Path,
        };
        assert_eq!(judgement.verdict, Verdict::Allowed(allowed));
        let permission = Permission {
            reviews,
            access,
            allowed,
            until: judgement.until,
        };
        permission.ended().await;
        assert_eq!(since.elapsed().as_secs(), 150);
    }

    /// All came through port-forwards, so they have one address.
    #[tokio::test(start_paused = true)]
    async fn permissions_of_many_answers_that_expire_at_once_are_all_asked_for_again() {
        let (client, asked) = reviewing();
        let slow = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let client = client.clone();
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                client.send(request).await
            }
        });
        let reviews = Reviews::new(Client::new(slow, "default"));
        let permission = |number: usize| Permission {
            reviews: reviews.clone(),
            access: AccessRequest {
                token: "reader".to_owned(),
                audience: None,
                path: "/metrics".to_owned(),
                verb: "get".to_owned(),
                // Whether it is given makes no difference to this caller, but the answers are remembered apart.
                namespace: Some(Namespace::try_from(format!("n{number}")).expect("a name")),
            },
            allowed: Allowed {
                user: User::named("reader"),
                scope: Scope::Path,
            },
            until: tokio::time::Instant::now(),
        };
        let ended = (0..64).map(|number| Box::pin(permission(number).ended()));
        let first = futures::future::select_all(ended);
        let three_verdicts = std::time::Duration::from_secs(150);
        assert!(tokio::time::timeout(three_verdicts, first).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 64 * 2 * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_remembered_for_a_minute_and_a_no_for_ten_seconds() {
        let (client, asked) = reviewing();
        let router = authorized(router(registry()), by_path(client, None));
        let mut counts = Vec::new();
        for (token, pause_seconds) in [
            ("Bearer reader", 0),
            ("Bearer reader", 59),
            ("Bearer reader", 2),
            ("Bearer unknown", 0),
            ("Bearer unknown", 9),
            ("Bearer unknown", 2),
            ("Bearer stranger", 0),
            ("Bearer stranger", 9),
        ] {
            tokio::time::advance(std::time::Duration::from_secs(pause_seconds)).await;
            ask(&router, Some(token)).await;
            counts.push(asked.load(Ordering::Relaxed));
        }
        // A known token takes two requests, an unknown one takes one.
        assert_eq!(counts, [2, 2, 4, 5, 5, 6, 8, 8]);
    }

    #[tokio::test]
    async fn unknown_callers_cause_few_reviews_at_a_time_and_leave_room_for_other_addresses() {
        let (client, asked) = reviewing();
        let answering = Arc::new(tokio::sync::Semaphore::new(2));
        let gate = Arc::clone(&answering);
        let gated = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let client = client.clone();
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.expect("it stays open").forget();
                client.send(request).await
            }
        });
        let router = authorized(router(registry()), by_path(Client::new(gated, "default"), None));
        assert_eq!(ask(&router, Some("Bearer reader")).await.0, StatusCode::OK);
        let strangers = (0..100).map(|number| {
            let router = router.clone();
            // Three addresses.
            let host = 2 + number % 3;
            tokio::spawn(async move { ask_from(&router, Some(&format!("Bearer {number}")), host).await.0 })
        });
        let mut strangers: Vec<_> = strangers.collect();
        let mut refused = 0;
        // Two reviews of each address wait for the API server. The other callers are refused at once.
        while refused < 94 {
            let (status, _, rest) = futures::future::select_all(strangers).await;
            assert_eq!(status.expect("no panic"), StatusCode::SERVICE_UNAVAILABLE);
            (strangers, refused) = (rest, refused + 1);
        }
        assert_eq!(ask(&router, Some("Bearer reader")).await.0, StatusCode::OK);
        let other = tokio::spawn({
            let router = router.clone();
            async move { ask_from(&router, Some("Bearer stranger"), 9).await.0 }
        });
        answering.add_permits(100);
        assert_eq!(other.await.expect("no panic"), StatusCode::FORBIDDEN);
        for stranger in strangers {
            assert_eq!(stranger.await.expect("no panic"), StatusCode::UNAUTHORIZED);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2 + 6 + 2);
    }

    #[test]
    fn only_a_bearer_token_counts() {
        let token = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header value"));
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc"), Some("abc".into()));
        assert_eq!(token("bearer abc"), Some("abc".into()));
        assert_eq!(token("Bearer "), None);
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("abc"), None);
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }
}
