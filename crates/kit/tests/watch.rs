//! A cache whose watch breaks, on paused time, with an API that serves one list after the other.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use nephele_kit::{Cache, Events, Metrics, Readiness, Reporter, Services, wall_clock};
use prometheus::Registry;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The names in the first list, and in every later one.
const LISTS: [&[&str]; 2] = [&["kept", "deleted"], &["kept", "new"]];

/// An API whose first watch ends as expired, and whose other watches report nothing.
fn api() -> Client {
    let (lists, watches) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let counts = Arc::new((lists, watches));
    let service = tower::service_fn(move |request: Request<Body>| {
        let counts = Arc::clone(&counts);
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let answer = if is_watch {
                if counts.1.fetch_add(1, Ordering::Relaxed) > 0 {
                    std::future::pending::<()>().await;
                }
                json!({ "type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "reason": "Expired", "message": "too old resource version", "code": 410,
                } })
            } else {
                let names = LISTS[counts.0.fetch_add(1, Ordering::Relaxed).min(1)];
                let item = |name: &&str| json!({ "metadata": { "name": name, "namespace": "default" } });
                let items: Vec<_> = names.iter().map(item).collect();
                let metadata = json!({ "resourceVersion": "1" });
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items })
            };
            Ok::<_, Infallible>(Response::new(Body::from(format!("{answer}\n").into_bytes())))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn object_that_was_deleted_while_the_watch_was_broken_is_announced() {
    let (client, shutdown) = (api(), CancellationToken::new());
    let metrics = Metrics::register(&Registry::new()).expect("a new registry");
    let reporter = Reporter { controller: "test".into(), instance: "test-0".into() };
    let (events, _publish) =
        Events::new(client.clone(), reporter, wall_clock(), metrics.clone(), shutdown.clone());
    let readiness = Readiness::default();
    let services = Services { metrics, events, clock: wall_clock(), readiness, resync: None };
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
