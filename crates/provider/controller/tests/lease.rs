//! Leader election on paused time, with an API that stores one lease.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::{Client, client::Body};
use nephele_controller::{Fence, Leadership, LeaseError, LeaseSettings, Metrics, acquire, wall_clock};
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// One lease with the rules of an API server: an existing name cannot be created, and a write needs the current
/// version.
#[derive(Clone, Default)]
struct LeaseApi {
    lease: Arc<Mutex<Option<Value>>>,
    down: Arc<AtomicBool>,
}

impl LeaseApi {
    fn client(&self) -> Client {
        let leases = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let leases = leases.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("in memory").to_bytes();
                let (status, answer) = leases.answer(&head.method, &body);
                let mut response = Response::new(Full::<Bytes>::from(answer.to_string()));
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        if self.down.load(Ordering::Relaxed) {
            return problem(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let mut lease = self.lease.lock();
        let version = lease
            .as_ref()
            .map(|lease| lease["metadata"]["resourceVersion"].clone());
        let next = match (method, version) {
            (&Method::GET, None) | (&Method::PUT, None) => return problem(StatusCode::NOT_FOUND),
            (&Method::GET, Some(_)) => return (StatusCode::OK, lease.clone().expect("there is one")),
            (&Method::POST, Some(_)) => return problem(StatusCode::CONFLICT),
            (&Method::POST, None) => 1,
            (_, Some(version)) => {
                let written: Value = serde_json::from_slice(body).expect("JSON");
                if written["metadata"]["resourceVersion"] != version {
                    return problem(StatusCode::CONFLICT);
                }
                version
                    .as_str()
                    .and_then(|version| version.parse::<u64>().ok())
                    .expect("a number")
                    + 1
            }
            (_, None) => return problem(StatusCode::METHOD_NOT_ALLOWED),
        };
        let mut written: Value = serde_json::from_slice(body).expect("JSON");
        written["metadata"]["resourceVersion"] = json!(next.to_string());
        *lease = Some(written.clone());
        (StatusCode::OK, written)
    }

    fn spec(&self, field: &str) -> Value {
        self.lease
            .lock()
            .as_ref()
            .map_or(Value::Null, |lease| lease["spec"][field].clone())
    }

    fn annotations(&self) -> Value {
        self.lease
            .lock()
            .as_ref()
            .map_or(Value::Null, |lease| lease["metadata"]["annotations"].clone())
    }

    /// Writes without checking the version.
    fn overwrite(&self, change: impl FnOnce(&mut Value)) {
        let mut lease = self.lease.lock();
        let lease = lease.as_mut().expect("there is one");
        change(lease);
        lease["metadata"]["resourceVersion"] = json!("1000");
    }
}

fn problem(status: StatusCode) -> (StatusCode, Value) {
    let reason = status.canonical_reason().unwrap_or_default().replace(' ', "");
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": status.to_string(), "code": status.as_u16(),
    });
    (status, body)
}

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings {
        namespace: "nephele-system".into(),
        name: "leader".into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        published: [("certificate".to_owned(), format!("of {identity}"))].into(),
    }
}

async fn lead(leases: &LeaseApi, identity: &str) -> Leadership {
    let metrics = Metrics::register(&Registry::new()).expect("a new registry");
    let never = CancellationToken::new();
    let acquired = acquire(leases.client(), settings(identity), wall_clock(), metrics, &never);
    timeout(Duration::from_hours(1), acquired)
        .await
        .expect("a lease in time")
        .expect("not shut down")
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_renewed_and_given_back() {
    let leases = LeaseApi::default();
    let leadership = lead(&leases, "a").await;
    assert_eq!(
        (leases.spec("holderIdentity"), leases.spec("leaseDurationSeconds")),
        (json!("a"), json!(15))
    );
    let shutdown = CancellationToken::new();
    let holding = tokio::spawn(leadership.hold(Fence::default(), shutdown.clone()));
    sleep(Duration::from_mins(5)).await;
    assert!(!holding.is_finished(), "renewing keeps it");
    shutdown.cancel();
    holding.await.expect("no panic").expect("an orderly end");
    assert_eq!(
        (leases.spec("holderIdentity"), leases.spec("leaseTransitions")),
        (Value::Null, json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_shows_what_its_holder_publishes_and_nothing_of_the_one_before() {
    let leases = LeaseApi::default();
    drop(lead(&leases, "a").await);
    assert_eq!(leases.annotations(), json!({ "certificate": "of a" }));
    drop(lead(&leases, "b").await);
    assert_eq!(leases.annotations(), json!({ "certificate": "of b" }));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_is_taken_at_once() {
    let leases = LeaseApi::default();
    let shutdown = CancellationToken::new();
    let holding = tokio::spawn(lead(&leases, "a").await.hold(Fence::default(), shutdown.clone()));
    let waiting = tokio::spawn({
        let leases = leases.clone();
        async move { lead(&leases, "b").await }
    });
    sleep(Duration::from_mins(1)).await;
    assert!(!waiting.is_finished(), "a holds it");
    shutdown.cancel();
    holding.await.expect("no panic").expect("an orderly end");
    timeout(Duration::from_millis(501), waiting)
        .await
        .expect("at the next look")
        .expect("no panic");
    assert_eq!(
        (leases.spec("holderIdentity"), leases.spec("leaseTransitions")),
        (json!("b"), json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_followed_when_its_lease_has_run_out() {
    let leases = LeaseApi::default();
    drop(lead(&leases, "a").await);
    let asked = Instant::now();
    lead(&leases, "b").await;
    let waited = asked.elapsed().as_millis();
    assert!((15_000..=15_501).contains(&waited), "{waited} ms");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_returns_under_its_name_need_not_wait() {
    let leases = LeaseApi::default();
    drop(lead(&leases, "a").await);
    let asked = Instant::now();
    lead(&leases, "a").await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_gives_up_before_another_may_follow() {
    let leases = LeaseApi::default();
    let leadership = lead(&leases, "a").await;
    leases.down.store(true, Ordering::Relaxed);
    let cut_off = Instant::now();
    let fence = Fence::default();
    let error = leadership
        .hold(fence.clone(), CancellationToken::new())
        .await
        .expect_err("it cannot renew");
    assert!(matches!(error, LeaseError::NotRenewed { .. }), "{error}");
    let lasted = cut_off.elapsed();
    assert_eq!((lasted.as_secs(), fence.is_open()), (10, false));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_cost_the_lease() {
    let leases = LeaseApi::default();
    let shutdown = CancellationToken::new();
    let holding = tokio::spawn(lead(&leases, "a").await.hold(Fence::default(), shutdown.clone()));
    leases.down.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(7)).await;
    leases.down.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(1)).await;
    assert!(!holding.is_finished());
    shutdown.cancel();
    holding.await.expect("no panic").expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_was_taken_learns_by_whom() {
    let leases = LeaseApi::default();
    let leadership = lead(&leases, "a").await;
    leases.overwrite(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    let fence = Fence::default();
    let error = leadership
        .hold(fence.clone(), CancellationToken::new())
        .await
        .expect_err("it is b's");
    assert_eq!(error.to_string(), "lost the lease nephele-system/leader to b");
    assert!(!fence.is_open());
    assert_eq!(leases.spec("holderIdentity"), json!("b"), "it is not taken back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_foreign_annotations_is_kept() {
    let leases = LeaseApi::default();
    let shutdown = CancellationToken::new();
    let holding = tokio::spawn(lead(&leases, "a").await.hold(Fence::default(), shutdown.clone()));
    leases.overwrite(|lease| lease["metadata"]["annotations"] = json!({ "note": "mine" }));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        leases.annotations(),
        json!({ "note": "mine", "certificate": "of a" })
    );
    shutdown.cancel();
    holding.await.expect("no panic").expect("an orderly end");
    assert_eq!(leases.spec("holderIdentity"), Value::Null);
}
