//! A cache whose watch breaks, on paused time, with an API that serves one list after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    client::Body,
    runtime::{reflector::Store, watcher},
};
use nephele_controller::{
    Cache, Events, Gone, Metrics, Outcome, Readable, Readiness, ReconcileError, Reporter, Retry, Runner,
    Services, WatchFilter, wall_clock,
};
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The uids of objects by their names.
type Objects = BTreeMap<String, u32>;

/// An API that has one list after the other, and the last one for ever. Each watch but that of the last list ends as expired
/// after a second, as if its objects had been replaced by those of the next list in a gap of the watch.
fn api(lists: Vec<Objects>) -> Client {
    let last = lists.len() - 1;
    let next = Arc::new(AtomicUsize::new(0));
    let lists = Arc::new(lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let lists = Arc::clone(&lists);
        let next = Arc::clone(&next);
        async move {
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let answer = if is_watch {
                if next.load(Ordering::Relaxed) > last {
                    std::future::pending::<()>().await;
                }
                sleep(Duration::from_secs(1)).await;
                json!({ "type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "reason": "Expired", "message": "too old resource version", "code": 410,
                } })
            } else {
                let objects = &lists[next.fetch_add(1, Ordering::Relaxed).min(last)];
                let item = |(name, uid): (&String, &u32)| json!({ "metadata": { "name": name, "namespace": "default", "uid": uid.to_string() } });
                let items: Vec<_> = objects.iter().map(item).collect();
                let metadata = json!({ "resourceVersion": "1" });
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items })
            };
            Ok::<_, Infallible>(Response::new(Body::from(format!("{answer}\n").into_bytes())))
        }
    });
    Client::new(service, "default")
}

fn services(client: &Client, shutdown: &CancellationToken) -> Services {
    let metrics = Metrics::register(&Registry::new()).expect("a new registry");
    let reporter = Reporter {
        controller: "test".into(),
        instance: "test-0".into(),
    };
    let (events, _publish) = Events::new(
        client.clone(),
        reporter,
        wall_clock(),
        metrics.clone(),
        shutdown.clone(),
    );
    Services {
        metrics,
        events,
        clock: wall_clock(),
        readiness: Readiness::default(),
        resync: None,
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_was_deleted_while_the_watch_was_broken_is_announced() {
    let lists = [[("kept", 1), ("deleted", 2)], [("kept", 1), ("new", 3)]];
    let lists = lists.map(|list| list.map(|(name, uid)| (name.to_owned(), uid)).into());
    let client = api(lists.into());
    let shutdown = CancellationToken::new();
    let services = services(&client, &shutdown);
    let (cache, follow) =
        Cache::<ConfigMap>::start(&services, Api::all(client), watcher::Config::default(), shutdown);
    let touched = cache.touched();
    tokio::spawn(follow);
    let touched = touched.take_until(Box::pin(sleep(Duration::from_secs(60))));
    let mut names: Vec<_> = touched.map(|object| object.name_any()).collect().await;
    names.sort();
    assert_eq!(names, ["deleted", "deleted", "kept", "kept", "new"]);
    assert!(cache.get("default", "deleted").is_none());
}

/// The object that is gone, too.
#[tokio::test(start_paused = true)]
async fn a_change_is_passed_on_before_the_cache_is_ready_and_before_it_is_announced() {
    let lists = [[("kept", 1), ("deleted", 2)], [("kept", 1), ("new", 3)]];
    let lists = lists.map(|list| list.map(|(name, uid)| (name.to_owned(), uid)).into());
    let client = api(lists.into());
    let shutdown = CancellationToken::new();
    let services = services(&client, &shutdown);
    let passed = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let writer = Arc::clone(&passed);
    let config = watcher::Config::default();
    let pass_on = move |store: &Store<ConfigMap>, touched: &[Arc<ConfigMap>]| {
        let is_there = |object: &ConfigMap| {
            store
                .find(|other| other.name_any() == object.name_any())
                .is_some()
        };
        writer.lock().push(
            touched
                .iter()
                .map(|object| (object.name_any(), is_there(object)))
                .collect(),
        );
    };
    let (cache, follow) =
        Cache::start_through(&services, Api::all(client), config, shutdown.clone(), pass_on);
    let mut touched = cache.touched().boxed();
    let follow = tokio::spawn(follow);
    assert!(cache.ready().await);
    let sorted = |mut list: Vec<(String, bool)>| {
        list.sort();
        list
    };
    let is_passed = |number: usize| passed.lock().get(number).cloned().map(sorted);
    let list = |objects: &[(&str, bool)]| {
        Some(
            objects
                .iter()
                .map(|(name, is_there)| ((*name).to_owned(), *is_there))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(is_passed(0), list(&[("deleted", true), ("kept", true)]));
    while touched
        .next()
        .await
        .is_some_and(|object| object.name_any() != "new")
    {}
    assert_eq!(
        is_passed(1),
        list(&[("deleted", false), ("kept", true), ("new", true)])
    );
    shutdown.cancel();
    follow.await.expect("no panic");
}

/// Others run after some objects of a list, and not after all of a page.
#[tokio::test(start_paused = true)]
async fn a_cache_lets_others_run_between_the_objects_of_a_list() {
    const OBJECTS: u32 = 4000;
    let list: Objects = (0..OBJECTS)
        .map(|number| (format!("o-{number}"), number))
        .collect();
    let client = api(vec![list]);
    let shutdown = CancellationToken::new();
    let services = services(&client, &shutdown);
    let config = watcher::Config::default();
    let (cache, follow) = Cache::<ConfigMap>::start(&services, Api::all(client), config, shutdown);
    tokio::spawn(follow);
    let mut rounds = 0;
    while cache.store().is_empty() {
        tokio::task::yield_now().await;
        rounds += 1;
    }
    assert!(rounds >= OBJECTS / 256, "{rounds} rounds");
}

/// Changes that arrive together are told a few at a time. Each of them is made of text first.
#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_lets_others_run_in_between() {
    const CHANGES: usize = 1000;
    let service = tower::service_fn(|request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default();
        let answer = if query.contains("watch=true") {
            let change = |number: usize| {
                let metadata =
                    json!({ "name": format!("o-{number}"), "namespace": "default", "resourceVersion": "2" });
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
                // An API server writes the type first.
                format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")
            };
            (0..CHANGES).map(change).collect()
        } else {
            let metadata = json!({ "resourceVersion": "1" });
            let list =
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": [] });
            format!("{list}\n")
        };
        Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes())))
    });
    let client = Client::new(service, "default");
    let shutdown = CancellationToken::new();
    let services = services(&client, &shutdown);
    let (cache, follow) =
        Cache::<ConfigMap>::start(&services, Api::all(client), watcher::Config::default(), shutdown);
    tokio::spawn(follow);
    assert!(cache.ready().await);
    let mut most = 0;
    let mut before = 0;
    for _ in 0..CHANGES {
        tokio::task::yield_now().await;
        let now = cache.store().len();
        most = most.max(now - before);
        before = now;
        if now == CHANGES {
            break;
        }
    }
    assert_eq!(before, CHANGES);
    assert!(most <= CHANGES / 3, "{most} at once");
}

/// The text of a page is taken apart all at once.
#[tokio::test(start_paused = true)]
async fn large_objects_are_listed_in_small_pages() {
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let shutdown = CancellationToken::new();
    let inner = api(vec![Objects::new()]);
    let known = Arc::clone(&asked);
    let client = Client::new(
        tower::service_fn(move |request: Request<Body>| {
            known
                .lock()
                .push(request.uri().query().unwrap_or_default().to_owned());
            let inner = inner.clone();
            async move { inner.send(request).await }
        }),
        "default",
    );
    let services = services(&client, &shutdown);
    let filter = WatchFilter::default();
    let of = Api::<Readable<ConfigMap>>::all(client);
    let runner = Runner::of_large("configmap", &services, of, &filter, NonZeroU16::MIN, 2);
    let listed = runner.listed();
    tokio::spawn(runner.run(|_| async { Ok::<_, Never>(Outcome::Done) }, shutdown));
    assert!(listed.wait().await);
    let first = asked.lock()[0].clone();
    assert!(first.contains("limit=2"), "{first}");
}

/// Lists of few names, so that names are deleted, created and used again. Each object that is created has a uid of its own.
fn lists() -> impl Strategy<Value = Vec<Objects>> {
    let step = proptest::collection::btree_map(0..4_u8, 0..3_u8, 0..5);
    proptest::collection::vec(step, 1..6).prop_map(|steps| {
        let mut objects = Objects::new();
        let mut uid = 0;
        let lists = steps.into_iter().map(|step| {
            for (name, change) in step {
                let name = format!("o-{name}");
                uid += 1;
                match change {
                    0 => drop(objects.remove(&name)),
                    // Created, or deleted and created again.
                    _ => drop(objects.insert(name, uid)),
                }
            }
            objects.clone()
        });
        lists.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens while no watch is there, each object that is gone is told to those who clean up, by itself if another
    /// one has its name.
    #[test]
    fn an_object_that_was_replaced_in_a_gap_of_the_watch_is_gone(lists in lists()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let Told { touched, gone, stores } = runtime.expect("a runtime").block_on(told(&lists));
        let last = lists.last().cloned().unwrap_or_default();
        prop_assert_eq!(stores, [last.clone(), last]);
        let mut expected = (BTreeMap::<u32, usize>::new(), BTreeSet::new());
        for (number, list) in lists.iter().enumerate() {
            let next = lists.get(number + 1);
            for (name, uid) in list {
                let after = next.map(|next| next.get(name));
                let is_gone = after.is_some_and(|after| after != Some(uid));
                *expected.0.entry(*uid).or_default() += 1 + usize::from(is_gone);
                if is_gone && after.flatten().is_some() {
                    expected.1.insert(*uid);
                }
            }
        }
        prop_assert_eq!((touched, gone), expected);
    }
}

/// What a cache and a controller tell while they read some lists, and have in the end.
struct Told {
    /// How often each object is touched.
    touched: BTreeMap<u32, usize>,
    /// The objects that are gone by themselves.
    gone: BTreeSet<u32>,
    stores: [Objects; 2],
}

async fn told(lists: &[Objects]) -> Told {
    let shutdown = CancellationToken::new();
    let clients = [api(lists.to_vec()), api(lists.to_vec())];
    let services = services(&clients[0], &shutdown);
    let [of_cache, of_runner] = clients.map(Api::<Readable<ConfigMap>>::all);
    let (cache, follow) = Cache::start(&services, of_cache, watcher::Config::default(), shutdown.clone());
    let runner = Runner::new(
        "configmap",
        &services,
        of_runner,
        &WatchFilter::default(),
        NonZeroU16::MIN,
    );
    let stores = [cache.store().clone(), runner.store()];
    let by_namespace = [cache.by_namespace().clone(), runner.by_namespace()];
    let uid = |object: Arc<ConfigMap>| {
        object
            .uid()
            .expect("it has one")
            .parse::<u32>()
            .expect("a number")
    };
    let until = || Box::pin(sleep(Duration::from_secs(3600)));
    let touched = cache.touched().take_until(until()).map(uid);
    let gone = runner.gone().take_until(until()).filter_map(move |gone| {
        std::future::ready(match gone {
            Gone::Object(object) => Some(uid(object)),
            Gone::Any => None,
        })
    });
    tokio::spawn(follow);
    tokio::spawn(runner.run(|_| async { Ok::<_, Never>(Outcome::Done) }, shutdown.clone()));
    let touched = touched.fold(BTreeMap::new(), |mut counts: BTreeMap<u32, usize>, uid| {
        *counts.entry(uid).or_default() += 1;
        std::future::ready(counts)
    });
    let (touched, gone) = futures::future::join(touched, gone.collect()).await;
    shutdown.cancel();
    for (store, by_namespace) in stores.iter().zip(by_namespace) {
        let mut stored = store.state();
        stored.sort_by_key(|object| object.name_any());
        let named = by_namespace.refs_of("default");
        assert_eq!(
            named.iter().map(|named| &named.name).collect::<Vec<_>>(),
            stored
                .iter()
                .filter_map(|object| object.metadata.name.as_ref())
                .collect::<Vec<_>>()
        );
    }
    let in_store = |object: Arc<ConfigMap>| (object.name_any(), uid(object));
    Told {
        touched,
        gone,
        stores: stores.map(|store| store.state().into_iter().map(in_store).collect()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it does not happen")]
struct Never;

impl ReconcileError for Never {
    fn category(&self) -> &'static str {
        "never"
    }

    fn retry(&self) -> Retry {
        Retry::BackOff
    }
}
