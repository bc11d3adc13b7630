//! The events that watchers receive.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use futures::StreamExt as _;
use nephele_apiserver::{ApiServer, Authentication, Key, Object, Settings, StoreOptions};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::{JoinSet, yield_now};

use crate::support::{
    Call, Watch, brief, call, failure, get, now, patch, pod, post, send, server, server_with, settings,
};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn label(server: &ApiServer, name: &str, value: &str) {
    let body = json!({"metadata": {"labels": {"l": value}}});
    assert_eq!(
        patch(server, "merge", &format!("{PODS}/{name}"), &body).await.0,
        200
    );
}

async fn version(server: &ApiServer) -> String {
    let (_, list) = get(server, PODS).await;
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn list_and_watch_miss_nothing() {
    let server = server();
    post(&server, PODS, pod("a", json!({}))).await;
    let from = version(&server).await;
    post(&server, PODS, pod("b", json!({}))).await;
    let mut watch = Watch::open(&server, &format!("{PODS}?watch=true&resourceVersion={from}")).await;
    assert_eq!(watch.brief().await, "ADDED b");
    label(&server, "a", "v").await;
    send(&server, "DELETE", &format!("{PODS}/b"), &json!({})).await;
    assert_eq!(watch.brief().await, "MODIFIED a");
    let gone = watch.next().await.unwrap();
    assert_eq!(brief(&gone), "DELETED b");
    assert_eq!(
        gone["object"]["metadata"]["resourceVersion"],
        version(&server).await.as_str()
    );
}

#[tokio::test]
async fn watch_without_a_version_begins_with_what_is_there() {
    let server = server();
    post(&server, PODS, pod("a", json!({}))).await;
    for query in [
        "watch=true",
        "watch=1&resourceVersion=0",
        "watch&resourceVersion=",
    ] {
        let mut watch = Watch::open(&server, &format!("{PODS}?{query}")).await;
        assert_eq!(watch.brief().await, "ADDED a", "{query}");
    }
}

#[tokio::test]
async fn streaming_list_ends_with_its_bookmark() {
    let server = server();
    post(&server, PODS, pod("a", json!({}))).await;
    let query = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true";
    let mut watch = Watch::open(&server, &format!("/api/v1/pods?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let end = watch.next().await.unwrap();
    let expected = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {
        "resourceVersion": version(&server).await, "annotations": {"k8s.io/initial-events-end": "true"}}}});
    assert_eq!(end, expected);
    post(&server, PODS, pod("b", json!({}))).await;
    assert_eq!(watch.brief().await, "ADDED b");
    let wrong = "/api/v1/pods?watch=true&sendInitialEvents=true";
    let (code, reason, message) = failure(get(&server, wrong).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.contains("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        "{message}"
    );
}

#[tokio::test]
async fn object_enters_and_leaves_a_selector() {
    let server = server();
    post(&server, PODS, pod("a", json!({"l": "out"}))).await;
    let from = version(&server).await;
    let mut watch = Watch::open(
        &server,
        &format!("{PODS}?watch=true&resourceVersion={from}&labelSelector=l%3Din"),
    )
    .await;
    for value in ["other", "in", "out"] {
        label(&server, "a", value).await;
    }
    assert_eq!(watch.brief().await, "ADDED a");
    let left = watch.next().await.unwrap();
    // The event has the last state that the watcher had, with the version of the change that removed the object.
    assert_eq!(
        (brief(&left).as_str(), &left["object"]["metadata"]["labels"]["l"]),
        ("DELETED a", &json!("in"))
    );
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        version(&server).await.as_str()
    );
    // A watcher gets no deletion of an object that its selector excludes.
    send(&server, "DELETE", &format!("{PODS}/a"), &json!({})).await;
    post(&server, PODS, pod("b", json!({"l": "in"}))).await;
    assert_eq!(watch.brief().await, "ADDED b");
}

#[tokio::test]
async fn watches_keep_to_their_namespace_and_fields() {
    let server = server();
    let mut fields = Watch::open(&server, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dn").await;
    let mut namespace = Watch::open(&server, &format!("{PODS}?watch=true")).await;
    post(
        &server,
        "/api/v1/namespaces/kube-system/pods",
        pod("elsewhere", json!({})),
    )
    .await;
    post(&server, PODS, pod("a", json!({}))).await;
    let binding = json!({"target": {"kind": "Node", "name": "n"}});
    post(&server, &format!("{PODS}/a/binding"), binding).await;
    assert_eq!(fields.brief().await, "ADDED a");
    assert_eq!(namespace.brief().await, "ADDED a");
    assert_eq!(namespace.brief().await, "MODIFIED a");
}

#[tokio::test]
async fn watcher_behind_the_log_lists_again() {
    let server = server_with(StoreOptions {
        event_log_capacity: 2,
        ..StoreOptions::default()
    });
    let from = version(&server).await;
    let mut slow = Watch::open(&server, &format!("{PODS}?watch=true&resourceVersion={from}")).await;
    for name in ["a", "b", "c"] {
        post(&server, PODS, pod(name, json!({}))).await;
    }
    let error = slow.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!(
        (&error["object"]["code"], &error["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(slow.next().await, None);
    let mut late = Watch::open(&server, &format!("{PODS}?watch=true&resourceVersion={from}")).await;
    assert_eq!(late.next().await.unwrap()["object"]["code"], 410);
    // A version from a past that this server has lost.
    let (code, reason, _) = failure(get(&server, &format!("{PODS}?watch=true&resourceVersion=999")).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn other_shapes_are_watched_too() {
    let server = server();
    post(&server, PODS, pod("a", json!({}))).await;
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let query =
        "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::open_as(&server, &format!("{PODS}?{query}"), metadata).await;
    for expected in ["ADDED a", "BOOKMARK @end"] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (brief(&event).as_str(), &event["object"]["kind"]),
            (expected, &json!("PartialObjectMetadata"))
        );
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut watch = Watch::open_as(&server, &format!("{PODS}?watch=true"), table).await;
    assert_eq!(watch.next().await.unwrap()["object"]["rows"][0]["cells"][0], "a");
}

#[tokio::test(start_paused = true)]
async fn idle_watcher_gets_bookmarks_and_an_end() {
    let server = server();
    let path = format!("{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=150");
    let mut watch = Watch::open(&server, &path).await;
    let started = tokio::time::Instant::now();
    post(
        &server,
        "/api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "other"}}),
    )
    .await;
    for minute in 1..=2 {
        let bookmark = watch.next().await.unwrap();
        // Changes of other kinds advance the version of the bookmark.
        assert_eq!(
            bookmark["object"]["metadata"]["resourceVersion"],
            version(&server).await.as_str()
        );
        assert_eq!(
            (brief(&bookmark).as_str(), started.elapsed()),
            ("BOOKMARK", Duration::from_secs(60 * minute))
        );
    }
    assert_eq!(watch.next().await, None);
    assert_eq!(started.elapsed(), Duration::from_secs(150));
}

#[tokio::test(start_paused = true)]
async fn watch_ends_by_itself_between_half_an_hour_and_an_hour() {
    let server = server();
    for timeout in ["", "&timeoutSeconds=0"] {
        let started = tokio::time::Instant::now();
        let mut watch = Watch::open(&server, &format!("{PODS}?watch=true{timeout}")).await;
        assert_eq!(watch.next().await, None);
        let lived = started.elapsed();
        assert!((1800..=3600).contains(&lived.as_secs()), "{lived:?}");
    }
    let huge = format!("{PODS}?watch=true&timeoutSeconds=18446744073709551615");
    assert_eq!(Watch::open(&server, &huge).await.next().await, None);
}

/// A step of a random history of pods.
#[derive(Clone, Debug)]
enum Step {
    Put { name: u8, label: u8 },
    Delete { name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6u8, 0..3u8).prop_map(|(name, label)| Step::Put { name, label }),
        1 => (0..6u8).prop_map(|name| Step::Delete { name }),
    ]
}

fn run(server: &ApiServer, step: &Step) {
    let key = |name: &u8| Key::new("", "pods", "default", &format!("p{name}"));
    match step {
        Step::Put { name, label } => {
            let labels = json!({"l": label.to_string()});
            let changed = server.store().modify(now(), &key(name), |value| {
                value["metadata"]["labels"] = labels.clone();
            });
            if changed.is_err() {
                let value = json!({"metadata": {"labels": labels}});
                server.store().create(now(), &key(name), value).unwrap();
            }
        }
        Step::Delete { name } => {
            // The pod may not exist.
            let _ = server
                .store()
                .delete(now(), &key(name), &nephele_apiserver::DeleteOptions::default());
        }
    }
}

proptest! {
    /// A client that lists and then watches with a selector sees the same as a later list with that selector.
    #[test]
    fn selected_list_and_watch_give_the_later_list(
        before in prop::collection::vec(step(), 0..20),
        after in prop::collection::vec(step(), 0..40),
        streaming in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let server = server();
            before.iter().for_each(|step| run(&server, step));
            let selector = "labelSelector=l%20in%20(0,1)";
            let path = format!("/api/v1/pods?{selector}");
            let mut known = std::collections::BTreeMap::new();
            let mut watch = if streaming {
                let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                Watch::open(&server, &format!("{path}&{query}")).await
            } else {
                let (_, list) = get(&server, &path).await;
                for item in list["items"].as_array().unwrap() {
                    known.insert(item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone());
                }
                let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                Watch::open(&server, &format!("{path}&watch=true&resourceVersion={version}")).await
            };
            after.iter().for_each(|step| run(&server, step));
            // A last object that matches marks the end.
            let last = json!({"metadata": {"labels": {"l": "0"}}});
            server.store().create(now(), &Key::new("", "pods", "default", "last"), last).unwrap();
            loop {
                let event = watch.next().await.unwrap();
                let object = event["object"].clone();
                let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else { continue };
                match event["type"].as_str().unwrap() {
                    "ADDED" => assert_eq!(known.insert(name.clone(), object), None),
                    "MODIFIED" => assert!(known.insert(name.clone(), object).is_some()),
                    "DELETED" => assert!(known.remove(&name).is_some()),
                    other => panic!("{other}"),
                }
                if name == "last" {
                    break;
                }
            }
            let (_, list) = get(&server, &path).await;
            let listed: Vec<Value> = list["items"].as_array().unwrap().clone();
            assert_eq!(known.into_values().collect::<Vec<_>>(), listed);
        });
    }
}

/// A client that stops reading keeps no object in memory: neither the initial objects nor later changes.
#[tokio::test]
async fn watcher_that_does_not_read_holds_no_objects() {
    let server = server_with(StoreOptions {
        event_log_capacity: 4,
        ..StoreOptions::default()
    });
    let store = server.store();
    let key = |index: usize| Key::new("", "configmaps", "default", &format!("m{index:03}"));
    // More than is written at once.
    for index in 0..100 {
        let map = json!({"data": {"text": "x".repeat(2000)}});
        store.create(now(), &key(index), map).unwrap();
    }
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    let mut from_the_beginning = Watch::open(&server, path).await;
    let version = store.resource_version();
    let mut from_now_on = Watch::open(&server, &format!("{path}&resourceVersion={version}")).await;
    assert_eq!(from_the_beginning.brief().await, "ADDED m000");
    let mut first = Vec::new();
    let mut second = Vec::new();
    for index in 0..100 {
        first.push(Arc::downgrade(&store.get(&key(index)).unwrap()));
        store
            .modify(now(), &key(index), |map| map["data"]["text"] = "y".into())
            .unwrap();
        second.push(Arc::downgrade(&store.get(&key(index)).unwrap()));
        if index == 0 {
            assert_eq!(from_now_on.brief().await, "MODIFIED m000");
        }
        store
            .modify(now(), &key(index), |map| map["data"]["text"] = "z".into())
            .unwrap();
    }
    // The log contains the changes of the latest two objects.
    let alive = |objects: &[Weak<Object>]| objects.iter().filter(|object| object.strong_count() > 0).count();
    assert!(alive(&first) <= 2, "{} objects of the beginning", alive(&first));
    assert!(alive(&second) <= 4, "{} objects of changes", alive(&second));
    // A client that reads again has to list again.
    for watch in [&mut from_the_beginning, &mut from_now_on] {
        let last = loop {
            let event = watch.next().await.unwrap();
            if event["type"] != "ADDED" {
                break event;
            }
        };
        assert_eq!(
            (&last["type"], &last["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        assert_eq!(watch.next().await, None);
    }
}

/// Reads watches in tasks of their own, as connections do, and counts the parts that arrive.
async fn read_all(server: &ApiServer, watches: usize, query: &str) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let parts = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    for _ in 0..watches {
        let path = format!("{PODS}?{query}");
        let response = call(
            server,
            Call {
                path: &path,
                ..Call::default()
            },
        )
        .await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body().into_data_stream();
        let parts = parts.clone();
        reading.spawn(async move {
            while body.next().await.is_some() {
                parts.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    (reading, parts)
}

/// Between two turns of another task, one watcher of a cluster tells something, however many there are.
#[tokio::test]
async fn many_watchers_let_others_go_first() {
    const WATCHES: usize = 300;
    let server = server_with(StoreOptions {
        takes_turns: true,
        ..StoreOptions::default()
    });
    post(&server, PODS, pod("a", json!({}))).await;
    let (_reading, parts) = read_all(&server, WATCHES, "watch=true").await;
    for round in 1..=2 {
        let mut most = 0;
        while parts.load(Ordering::Relaxed) < round * WATCHES {
            let before = parts.load(Ordering::Relaxed);
            yield_now().await;
            most = most.max(parts.load(Ordering::Relaxed) - before);
        }
        assert!(most <= 2, "{most} parts at once");
        // Now all of them have the same change to tell.
        label(&server, "a", "changed").await;
    }
}

/// A watch that passes over many objects lets others run in between.
#[tokio::test]
async fn a_watch_is_told_in_small_parts() {
    const OBJECTS: usize = 640;
    let server = server();
    for number in 0..OBJECTS {
        post(&server, PODS, pod(&format!("p{number}"), json!({}))).await;
    }
    let query = "watch=true&labelSelector=none&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let (_reading, parts) = read_all(&server, 1, query).await;
    let mut rounds = 0;
    while parts.load(Ordering::Relaxed) == 0 {
        yield_now().await;
        rounds += 1;
    }
    assert!(rounds >= OBJECTS / 64, "{rounds} rounds");
}

/// Large objects are not parsed by the threads of tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_objects_are_shown_by_another_thread() {
    let worker = tokio::spawn(async { thread::current().id() }).await.unwrap();
    for (bytes, is_elsewhere) in [(1024, false), (200 * 1024, true)] {
        let shown_by = Arc::new(Mutex::new(None));
        let known = shown_by.clone();
        let clock = move || {
            *known.lock().unwrap() = Some(thread::current().id());
            now()
        };
        let server = server();
        let clock = Arc::new(clock);
        let mut large = pod("a", json!({}));
        large["metadata"]["annotations"] = json!({ "a": "x".repeat(bytes) });
        post(&server, PODS, large).await;
        let settings = Settings {
            clock,
            ..(*settings(Authentication::AllowAll)).clone()
        };
        let server = ApiServer::new(server.store().clone(), Arc::new(settings));
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let first = tokio::spawn(async move {
            let path = format!("{PODS}?watch=true");
            let response = call(
                &server,
                Call {
                    path: &path,
                    accept,
                    ..Call::default()
                },
            )
            .await;
            response.into_body().into_data_stream().next().await
        });
        assert!(first.await.unwrap().is_some());
        assert_eq!(
            *shown_by.lock().unwrap() != Some(worker),
            is_elsewhere,
            "{bytes} bytes"
        );
    }
}
