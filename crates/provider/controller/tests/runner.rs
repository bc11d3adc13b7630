//! The loop around a reconcile function, on paused time, with an API that serves a fixed list of ConfigMaps.

use std::{
    convert::Infallible,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt,
    client::Body,
    runtime::{reflector::ObjectRef, watcher},
};
use nephele_controller::{
    Cache, Outcome, Readable, ReconcileError, Retry, Runner, Services, WatchFilter, wall_clock,
};
use nephele_testkit::Backstage;
use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
#[error("the test says no")]
struct Refused(Retry);

impl ReconcileError for Refused {
    fn category(&self) -> &'static str {
        "refused"
    }

    fn retry(&self) -> Retry {
        self.0
    }
}

/// The environment of a runner of ConfigMaps.
struct World {
    client: Client,
    registry: Registry,
    services: Services,
    shutdown: CancellationToken,
    /// The published Events.
    published: mpsc::UnboundedReceiver<Value>,
    /// Events for the watch of Secrets.
    secrets: mpsc::UnboundedSender<Value>,
}

impl World {
    /// An API with ConfigMaps of these names in the namespace `default`.
    fn new(names: &[&str]) -> Self {
        let (client, published, secrets) = api(names);
        let Backstage {
            client,
            registry,
            services,
            shutdown,
        } = Backstage::of(client, wall_clock());
        Self {
            client,
            registry,
            services,
            shutdown,
            published,
            secrets,
        }
    }

    fn runner(&self, concurrency: u16) -> Runner<ConfigMap> {
        let concurrency = NonZeroU16::new(concurrency).expect("at least one");
        let api = Api::all(self.client.clone());
        Runner::new(
            "configmap",
            &self.services,
            api,
            &WatchFilter::default(),
            concurrency,
        )
    }

    /// The samples of one metric, in order.
    fn metric(&self, name: &str) -> Vec<String> {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("printable");
        text.lines()
            .filter(|line| line.starts_with(name))
            .map(str::to_owned)
            .collect()
    }
}

/// An API server that lists the same objects for every kind and accepts Events. Watches of Secrets get events from a
/// channel, other watches get none.
fn api(
    names: &[&str],
) -> (
    Client,
    mpsc::UnboundedReceiver<Value>,
    mpsc::UnboundedSender<Value>,
) {
    let items: Vec<Value> = names
        .iter()
        .map(|name| json!({ "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") } }))
        .collect();
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "1" }, "items": items,
    });
    let (made, published) = mpsc::unbounded_channel();
    let (secrets, shown) = mpsc::unbounded_channel::<Value>();
    let shown = Arc::new(Mutex::new(Some(shown)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let list = list.clone();
        let made = made.clone();
        let shown = Arc::clone(&shown);
        async move {
            let watching = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let body = match (request.method(), watching) {
                (&Method::GET, true) if request.uri().path().ends_with("/secrets") => {
                    let shown = shown.lock().take().expect("one watch of secrets");
                    let lines = UnboundedReceiverStream::new(shown)
                        .map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(line(&event)))));
                    StreamBody::new(lines).boxed_unsync()
                }
                (&Method::GET, true) => {
                    StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync()
                }
                (&Method::GET, false) => Full::from(list.to_string()).boxed_unsync(),
                _ => {
                    let event = request.into_body().collect().await.expect("in memory").to_bytes();
                    made.send(serde_json::from_slice(&event).expect("JSON"))
                        .expect("the test listens");
                    Full::from(event).boxed_unsync()
                }
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    (Client::new(service, "default"), published, secrets)
}

/// An event of a watch as API servers write it: the type comes first.
fn line(event: &Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_waits_twice_as_long_each_time() {
    let world = World::new(&["a"]);
    let (attempt, mut attempts) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        attempt.send(Instant::now()).expect("the test listens");
        async { Err(Refused(Retry::BackOff)) }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    let mut last = attempts.recv().await.expect("a first attempt");
    for expected_ms in [200, 400, 800, 1600] {
        let next = attempts.recv().await.expect("another attempt");
        let waited_ms = (next - last).as_millis();
        // The queue of the controller counts in milliseconds.
        assert!(
            (expected_ms..expected_ms + 5).contains(&waited_ms),
            "{waited_ms} instead of {expected_ms}"
        );
        last = next;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_time_cannot_mend_is_tried_once_and_told() {
    let mut world = World::new(&["a"]);
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let reconcile = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Err(Refused(Retry::WaitForChange)) }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    let event = world.published.recv().await.expect("an Event");
    sleep(Duration::from_hours(1)).await;
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
    assert_eq!(
        (
            &event["note"],
            &event["reason"],
            &event["type"],
            &event["regarding"]["name"]
        ),
        (
            &json!("the test says no"),
            &json!("ReconcileFailed"),
            &json!("Warning"),
            &json!("a")
        )
    );
    assert_eq!(
        world.metric("nephele_reconcile_errors_total"),
        [r#"nephele_reconcile_errors_total{category="refused",controller="configmap"} 1"#]
    );
    assert_eq!(
        world.metric("controller_runtime_terminal_reconcile_errors_total"),
        [r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 1"#]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expected_wait_is_not_told() {
    let mut world = World::new(&["a"]);
    let (attempt, mut attempts) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        attempt.send(()).expect("the test listens");
        async { Err(Refused(Retry::After(Duration::from_secs(5)))) }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    for _ in 0..3 {
        attempts.recv().await.expect("an attempt");
    }
    assert!(world.published.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_does_not_end_is_given_up_and_tried_again() {
    let mut world = World::new(&["a"]);
    let (attempt, mut attempts) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        attempt.send(()).expect("the test listens");
        std::future::pending::<Result<Outcome, Refused>>()
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    for _ in 0..2 {
        attempts.recv().await.expect("an attempt");
    }
    let event = world.published.recv().await.expect("an Event");
    assert_eq!(event["note"], "the reconcile did not end within 600s");
    assert_eq!(
        world.metric("nephele_reconcile_errors_total"),
        [r#"nephele_reconcile_errors_total{category="timeout",controller="configmap"} 1"#]
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_counted_and_tried_again() {
    let mut world = World::new(&["a"]);
    let attempts = Arc::new(AtomicUsize::new(0));
    let (done, mut succeeded) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        let first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
        let done = done.clone();
        async move {
            assert!(!first, "something does not hold");
            done.send(()).expect("the test listens");
            Ok::<_, Refused>(Outcome::Done)
        }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    succeeded.recv().await.expect("a second attempt");
    let event = world.published.recv().await.expect("an Event");
    assert_eq!(event["note"], json!("internal error: something does not hold"));
    assert_eq!(
        world.metric("controller_runtime_reconcile_panics_total"),
        [r#"controller_runtime_reconcile_panics_total{controller="configmap"} 1"#]
    );
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_counted_and_timed_under_the_names_that_dashboards_know() {
    let world = World::new(&["done", "fails", "later"]);
    let (looked, mut looks) = mpsc::unbounded_channel();
    let reconcile = move |object: Arc<ConfigMap>| {
        looked.send(()).expect("the test listens");
        let outcome = match object.name_any().as_str() {
            "done" => Ok(Outcome::Done),
            "later" => Ok(Outcome::After(Duration::from_hours(1))),
            _ => Err(Refused(Retry::WaitForChange)),
        };
        async { outcome }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    for _ in 0..3 {
        looks.recv().await.expect("three objects");
    }
    // Paused time only advances when all tasks wait, so all due work is done after this sleep.
    sleep(Duration::from_secs(1)).await;
    for name in ["controller_runtime_reconcile_total", "capi_reconcile_total"] {
        let counted = |result: &str| format!("{name}{{controller=\"configmap\",result=\"{result}\"}} 1");
        assert_eq!(
            world.metric(name),
            ["error", "requeue_after", "success"].map(counted)
        );
    }
    assert_eq!(
        world.metric("controller_runtime_reconcile_errors_total"),
        [r#"controller_runtime_reconcile_errors_total{controller="configmap"} 1"#]
    );
    assert_eq!(
        world.metric("controller_runtime_reconcile_time_seconds_count"),
        [r#"controller_runtime_reconcile_time_seconds_count{controller="configmap"} 3"#]
    );
    assert_eq!(
        world.metric("controller_runtime_max_concurrent_reconciles"),
        [r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 1"#]
    );
    assert_eq!(
        world.metric("controller_runtime_active_workers"),
        [r#"controller_runtime_active_workers{controller="configmap"} 0"#]
    );
}

#[tokio::test(start_paused = true)]
async fn the_work_queue_tells_what_waits_what_is_at_work_and_what_is_tried_again() {
    let world = World::new(&["a", "b", "c"]);
    let (entered, mut entries) = mpsc::unbounded_channel();
    let leave = Arc::new(Notify::new());
    let reconcile = {
        let leave = Arc::clone(&leave);
        move |object: Arc<ConfigMap>| {
            let entered = entered.clone();
            let leave = Arc::clone(&leave);
            async move {
                entered.send(()).expect("the test listens");
                leave.notified().await;
                match object.name_any().as_str() {
                    "a" => Err(Refused(Retry::BackOff)),
                    _ => Ok(Outcome::After(Duration::from_hours(1))),
                }
            }
        }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    let labels = r#"controller="configmap",name="configmap""#;
    let sample = |name: &str, value: &str| {
        assert_eq!(
            world.metric(&format!("{name}{{")),
            [format!("{name}{{{labels}}} {value}")]
        );
    };
    let depth = |value: u8| {
        let expected = format!(r#"workqueue_depth{{{labels},priority=""}} {value}"#);
        assert_eq!(world.metric("workqueue_depth{"), [expected]);
    };
    entries.recv().await.expect("a first object");
    sleep(Duration::from_secs(2)).await;
    sample("workqueue_adds_total", "3");
    depth(2);
    for name in [
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
    ] {
        let [line] = &world.metric(&format!("{name}{{"))[..] else {
            panic!("no {name}")
        };
        let seconds: f64 = line
            .rsplit(' ')
            .next()
            .expect("a value")
            .parse()
            .expect("a number");
        assert!((2.0..2.1).contains(&seconds), "{line}");
    }
    for _ in 0..2 {
        leave.notify_one();
        entries.recv().await.expect("another object");
    }
    // Each object waits for the earlier ones; the third is being reconciled.
    depth(0);
    sample("workqueue_queue_duration_seconds_count", "3");
    sample("workqueue_work_duration_seconds_count", "2");
    leave.notify_one();
    // A failed object is back in the queue after the backoff, one that is due in an hour is not.
    entries.recv().await.expect("the first object again");
    sample("workqueue_retries_total", "1");
    sample("workqueue_adds_total", "4");
    depth(0);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_looked_at_again_when_the_sync_period_is_over() {
    let mut world = World::new(&["a"]);
    world.services.resync = Some(Duration::from_mins(10));
    let (looked, mut looks) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        looked.send(Instant::now()).expect("the test listens");
        async { Ok::<_, Refused>(Outcome::Done) }
    };
    tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    let first = looks.recv().await.expect("a first look");
    let second = looks.recv().await.expect("a second look");
    let waited = second - first;
    assert!(
        waited > Duration::from_mins(5) && waited <= Duration::from_mins(15),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_look_at_all_objects_lets_others_run_in_between() {
    const OBJECTS: usize = 1000;
    let names: Vec<_> = (0..OBJECTS).map(|number| format!("o-{number}")).collect();
    let world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (all, asked) = mpsc::unbounded_channel();
    let runner = world
        .runner(1)
        .reconcile_all_on(UnboundedReceiverStream::new(asked));
    let reconcile = |_| async { Ok::<_, Refused>(Outcome::Done) };
    tokio::spawn(runner.run(reconcile, world.shutdown.clone()));
    let added = || {
        let samples = world.metric("workqueue_adds_total");
        let value = samples.first().and_then(|sample| sample.rsplit(' ').next());
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    sleep(Duration::from_secs(1)).await;
    assert_eq!(added(), OBJECTS);
    all.send(()).expect("the controller listens");
    let mut most = 0;
    let mut before = OBJECTS;
    for _ in 0..OBJECTS {
        tokio::task::yield_now().await;
        let now = added();
        most = most.max(now - before);
        before = now;
    }
    assert_eq!(before, 2 * OBJECTS);
    assert!(most <= OBJECTS / 3, "{most} at once");
}

#[tokio::test(start_paused = true)]
async fn no_more_objects_are_reconciled_at_a_time_than_allowed() {
    let world = World::new(&["a", "b", "c", "d", "e"]);
    let running = Arc::new(AtomicUsize::new(0));
    let (peak, mut peaks) = mpsc::unbounded_channel();
    let reconcile = move |_| {
        let running = Arc::clone(&running);
        let peak = peak.clone();
        async move {
            peak.send(running.fetch_add(1, Ordering::Relaxed) + 1)
                .expect("the test listens");
            sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, Refused>(Outcome::Done)
        }
    };
    tokio::spawn(world.runner(2).run(reconcile, world.shutdown.clone()));
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(peaks.recv().await.expect("five objects"));
    }
    assert_eq!(seen.iter().max(), Some(&2), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_reconcile_in_flight() {
    let world = World::new(&["a"]);
    let started = Arc::new(Notify::new());
    let finish = Arc::new(Notify::new());
    let finished = Arc::new(AtomicUsize::new(0));
    let reconcile = {
        let started = Arc::clone(&started);
        let finish = Arc::clone(&finish);
        let finished = Arc::clone(&finished);
        move |_| {
            let started = Arc::clone(&started);
            let finish = Arc::clone(&finish);
            let finished = Arc::clone(&finished);
            async move {
                started.notify_one();
                finish.notified().await;
                finished.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Refused>(Outcome::Done)
            }
        }
    };
    let running = tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    started.notified().await;
    world.shutdown.cancel();
    sleep(Duration::from_secs(1)).await;
    assert!(!running.is_finished(), "it waits for the reconcile in flight");
    finish.notify_one();
    running.await.expect("no panic").expect("an orderly end");
    assert_eq!(finished.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_what_is_due_later() {
    let world = World::new(&["a"]);
    let looked = Arc::new(Notify::new());
    let reconcile = {
        let looked = Arc::clone(&looked);
        move |_| {
            looked.notify_one();
            async { Ok::<_, Refused>(Outcome::After(Duration::from_hours(1))) }
        }
    };
    let running = tokio::spawn(world.runner(1).run(reconcile, world.shutdown.clone()));
    looked.notified().await;
    sleep(Duration::from_secs(1)).await;
    let asked = Instant::now();
    world.shutdown.cancel();
    running.await.expect("no panic").expect("an orderly end");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ready_once_the_objects_are_known() {
    let world = World::new(&["a"]);
    let (seen, mut objects) = mpsc::unbounded_channel();
    let runner = world.runner(1);
    assert_eq!(world.services.readiness.waiting(), ["configmap"]);
    let reconcile = move |object: Arc<ConfigMap>| {
        seen.send(object.name_any()).expect("the test listens");
        async { Ok::<_, Refused>(Outcome::Done) }
    };
    tokio::spawn(runner.run(reconcile, world.shutdown.clone()));
    assert_eq!(objects.recv().await.as_deref(), Some("a"));
    assert_eq!(world.services.readiness.waiting(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn touched_objects_of_a_cache_and_ids_from_elsewhere_wake_the_objects_they_name() {
    let world = World::new(&["a", "b"]);
    let api = Api::all(world.client.clone());
    let (secrets, follow) = Cache::<Secret>::start(
        &world.services,
        api,
        watcher::Config::default(),
        world.shutdown.clone(),
    );
    let (wake, ids) = mpsc::unbounded_channel();
    let (seen, mut looks) = mpsc::unbounded_channel();
    let reconcile = {
        let secrets = secrets.clone();
        move |object: Arc<ConfigMap>| {
            assert!(
                secrets.get("default", "a").is_some(),
                "a cache is ready before the first reconcile"
            );
            seen.send(object.name_any()).expect("the test listens");
            async { Ok::<_, Refused>(Outcome::Done) }
        }
    };
    // Only the Secret that is created later refers to an object.
    let same_name = |secret: &Secret| {
        let name = secret.name_any();
        name.strip_prefix("for-")
            .map(|object| ObjectRef::new(object).within("default"))
    };
    let runner = world
        .runner(1)
        .watches(&secrets, same_name)
        .reconcile_on(UnboundedReceiverStream::new(ids));
    tokio::spawn(runner.run(reconcile, world.shutdown.clone()));
    tokio::spawn(follow);
    let mut first = [looks.recv().await, looks.recv().await];
    first.sort();
    assert_eq!(first, [Some("a".to_owned()), Some("b".to_owned())]);
    wake.send(ObjectRef::new("b").within("default"))
        .expect("the runner listens");
    assert_eq!(looks.recv().await.as_deref(), Some("b"));
    world
        .secrets
        .send(json!({
            "type": "ADDED",
            "object": {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "for-a", "namespace": "default", "resourceVersion": "2" },
            },
        }))
        .expect("the watch listens");
    assert_eq!(looks.recv().await.as_deref(), Some("a"));
    assert!(
        secrets.get("default", "for-a").is_some(),
        "the cache took note before it told"
    );
}

#[tokio::test(start_paused = true)]
async fn a_runner_ends_when_it_is_asked_to_before_the_first_list() {
    let world = World::new(&[]);
    let asked = Arc::new(Notify::new());
    let listing = Arc::clone(&asked);
    let silent = tower::service_fn(move |_: Request<Body>| {
        listing.notify_one();
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let api = Api::<Readable<ConfigMap>>::all(Client::new(silent, "default"));
    let runner = Runner::new(
        "configmap",
        &world.services,
        api,
        &WatchFilter::default(),
        NonZeroU16::MIN,
    );
    let reconcile = |_| async { Ok::<_, Refused>(Outcome::Done) };
    let running = tokio::spawn(runner.run(reconcile, world.shutdown.clone()));
    asked.notified().await;
    world.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_hours(1), running)
        .await
        .expect("it ends");
    assert!(ended.expect("no panic").is_ok());
}
