//! What faults do to the API servers of a cluster: they fail requests, answer late, and cut watches.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::body::{Body, BodyDataStream};
use futures::{
    StreamExt as _,
    future::{Either, select},
};
use http::{HeaderValue, Response, StatusCode, header};
use nephele_apiserver::{RequestInfo, Store};
use nephele_engine::Seed;
use nephele_model::{ApiServerRequestEffect, ApiServerRequestEffectKind, ClusterId};
use serde_json::json;

use crate::etcd_delay::Lateness;

/// What is wrong with the API servers of a cluster, by the name of the fault.
pub(crate) type RequestEffects = BTreeMap<String, Arc<RequestEffect>>;

/// What one fault does to requests, and how many it has selected.
#[derive(Debug)]
pub(crate) struct RequestEffect {
    pub(crate) spec: ApiServerRequestEffect,
    requests: AtomicU64,
    /// The objects as they were when the effect began, if reads are answered from them.
    pub(crate) past: Option<Arc<Store>>,
}

/// What the effects decided about a request when it arrived.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// The request waits for one time after the other, each imposed by the fault of this name.
    pub(crate) waits: Vec<(String, Duration)>,
    /// The request is answered with this code, because of the fault of this name.
    pub(crate) error: Option<(u16, String)>,
    /// The answer ends after the first of these times, each imposed by the fault of this name.
    pub(crate) cuts: Vec<(String, Duration)>,
    /// The request reads the objects as they were when the fault of this name began.
    pub(crate) past_of: Option<String>,
}

impl RequestEffect {
    /// An effect that begins now, with API servers that serve `store`.
    pub(crate) fn new(spec: ApiServerRequestEffect, store: &Store) -> Self {
        let past = (spec.kind == ApiServerRequestEffectKind::Stale).then(|| store.copy());
        Self {
            spec,
            requests: AtomicU64::new(0),
            past,
        }
    }

    fn concerns(&self, request: &RequestInfo) -> bool {
        let ApiServerRequestEffect { verbs, resources, .. } = &self.spec;
        (verbs.is_empty() || verbs.iter().any(|verb| verb == request.verb))
            && (resources.is_empty() || resources.contains(&request.resource))
    }
}

/// Whether a fault has neither gone nor changed since it had this effect.
pub(crate) fn stays(now: &RequestEffects, fault: &str, before: Option<&Arc<RequestEffect>>) -> bool {
    now.get(fault).map(Arc::as_ptr) == before.map(Arc::as_ptr)
}

/// What happens to a request. Of several errors or pasts, the first one by the name of its fault decides. Draws are keyed
/// by the cluster, the fault and the number of the request among those that the fault selects.
pub(crate) fn treat(
    request_effects: &RequestEffects,
    request: &RequestInfo,
    cluster: &ClusterId,
    seed: &Seed,
) -> Treatment {
    let mut treatment = Treatment::default();
    for (fault, request_effect) in request_effects
        .iter()
        .filter(|(_, request_effect)| request_effect.concerns(request))
    {
        let number = request_effect.requests.fetch_add(1, Ordering::Relaxed);
        let draw = || seed.fraction(&["api-server", &cluster.namespace, &cluster.name, fault], number);
        match request_effect.spec.kind {
            ApiServerRequestEffectKind::Down => {}
            ApiServerRequestEffectKind::Error { code, per_million } => {
                if treatment.error.is_none() && draw() * 1e6 < f64::from(per_million) {
                    treatment.error = Some((code, fault.clone()));
                }
            }
            ApiServerRequestEffectKind::Latency {
                base,
                jitter_per_million,
            } => {
                let lateness = Lateness {
                    base,
                    jitter_per_million,
                };
                treatment.waits.push((fault.clone(), lateness.after(draw())));
            }
            ApiServerRequestEffectKind::Cut { after } => treatment.cuts.push((fault.clone(), after)),
            ApiServerRequestEffectKind::Stale => drop(treatment.past_of.get_or_insert_with(|| fault.clone())),
        }
    }
    treatment
}

/// The answer to a request that fails, as an API server writes it.
pub(crate) fn failure(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "code": code, "message": message,
    });
    let retry = matches!(code, 429 | 503 | 504);
    if retry {
        status["details"] = json!({"retryAfterSeconds": 1});
    }
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if retry {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Ends the body of a response with an error when `end` is ready, as when a connection breaks.
pub(crate) fn cut(
    response: Response<Body>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Response<Body> {
    let end = Box::pin(end);
    response.map(|body| {
        let parts = futures::stream::unfold(Some((body.into_data_stream(), end)), |state| async move {
            let (mut body, end): (BodyDataStream, _) = state?;
            match select(end, body.next()).await {
                Either::Left(_) => {
                    let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    Some((Err(axum::Error::new(broken)), None))
                }
                Either::Right((part, end)) => Some((part?, Some((body, end)))),
            }
        });
        Body::from_stream(parts)
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use nephele_apiserver::StoreOptions;

    use super::*;

    fn request_effects(list: &[(&str, ApiServerRequestEffect)]) -> RequestEffects {
        let store = Store::new(StoreOptions::default());
        let request_effect =
            |spec: &ApiServerRequestEffect| Arc::new(RequestEffect::new(spec.clone(), &store));
        list.iter()
            .map(|(fault, spec)| ((*fault).to_owned(), request_effect(spec)))
            .collect()
    }

    fn about(verbs: &[&str], resources: &[&str], kind: ApiServerRequestEffectKind) -> ApiServerRequestEffect {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        ApiServerRequestEffect {
            verbs: owned(verbs),
            resources: owned(resources),
            kind,
        }
    }

    fn treated(request_effects: &RequestEffects, method: &Method, path: &str) -> Treatment {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .body(())
            .expect("a request");
        treat(
            request_effects,
            &RequestInfo::of(&request),
            &cluster,
            &Seed::new("amber-otter-lamp"),
        )
    }

    #[test]
    fn an_effect_selects_its_verbs_and_resources() {
        let always = ApiServerRequestEffectKind::Error {
            code: 500,
            per_million: 1_000_000,
        };
        let request_effects = request_effects(&[("f", about(&["list", "watch"], &["nodes"], always))]);
        let fails = |method, path| treated(&request_effects, &method, path).error.is_some();
        assert!(fails(Method::GET, "/api/v1/nodes"));
        assert!(fails(Method::GET, "/api/v1/nodes?watch"));
        assert!(!fails(Method::GET, "/api/v1/nodes/a"));
        assert!(!fails(Method::GET, "/api/v1/pods"));
        assert!(!fails(Method::GET, "/version"));
    }

    #[test]
    fn each_latency_counts_and_the_first_error_decides() {
        let late = |seconds| {
            let base = Duration::from_secs(seconds);
            about(
                &[],
                &[],
                ApiServerRequestEffectKind::Latency {
                    base,
                    jitter_per_million: 0,
                },
            )
        };
        let error = |code| {
            about(
                &[],
                &[],
                ApiServerRequestEffectKind::Error {
                    code,
                    per_million: 1_000_000,
                },
            )
        };
        let cut = about(
            &["watch"],
            &[],
            ApiServerRequestEffectKind::Cut {
                after: Duration::from_secs(9),
            },
        );
        let request_effects = request_effects(&[
            ("a", late(1)),
            ("b", error(503)),
            ("c", error(500)),
            ("d", late(2)),
            ("e", cut),
        ]);
        let seconds = Duration::from_secs;
        let waits = vec![("a".to_owned(), seconds(1)), ("d".to_owned(), seconds(2))];
        let error = Some((503, "b".to_owned()));
        assert_eq!(
            treated(&request_effects, &Method::GET, "/version"),
            Treatment {
                waits: waits.clone(),
                error: error.clone(),
                ..Treatment::default()
            }
        );
        assert_eq!(
            treated(&request_effects, &Method::GET, "/api/v1/pods?watch"),
            Treatment {
                waits,
                error,
                cuts: vec![("e".to_owned(), seconds(9))],
                past_of: None
            }
        );
    }

    #[test]
    fn as_many_requests_fail_as_the_fault_says_and_the_same_ones_each_time() {
        let kind = ApiServerRequestEffectKind::Error {
            code: 500,
            per_million: 300_000,
        };
        let run = || {
            let request_effects = request_effects(&[("f", about(&[], &[], kind.clone()))]);
            let fails = |_| {
                treated(&request_effects, &Method::GET, "/api/v1/nodes")
                    .error
                    .is_some()
            };
            (0..1000).map(fails).collect::<Vec<_>>()
        };
        let first = run();
        let failed = first.iter().filter(|failed| **failed).count();
        assert!((250..350).contains(&failed), "{failed}");
        assert_eq!(first, run());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_cut_ends_with_an_error() {
        let forever = futures::stream::once(async { Ok::<_, axum::Error>("one".into()) })
            .chain(futures::stream::pending::<Result<bytes::Bytes, axum::Error>>());
        let response = cut(
            Response::new(Body::from_stream(forever)),
            tokio::time::sleep(Duration::from_secs(5)),
        );
        let parts: Vec<_> = response
            .into_body()
            .into_data_stream()
            .map(|part| part.is_ok())
            .collect()
            .await;
        assert_eq!(parts, [true, false]);
        let short = cut(
            Response::new(Body::from("all")),
            tokio::time::sleep(Duration::from_secs(5)),
        );
        let parts: Vec<_> = short
            .into_body()
            .into_data_stream()
            .map(|part| part.is_ok())
            .collect()
            .await;
        assert_eq!(parts, [true]);
    }
}
