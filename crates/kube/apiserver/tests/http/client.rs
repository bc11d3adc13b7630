//! `kube::Client` on top of the server.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::{
    Client, ResourceExt as _,
    api::{
        Api, DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
};
use serde_json::json;

use crate::support::server;

fn client() -> Client {
    Client::new(server().router(), "default")
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn reason(error: &kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn objects_live_through_the_client() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client());
    let created = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let conflict = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert_eq!(reason(&conflict), (409, "AlreadyExists".into()));
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.as_ref().unwrap()["k"], "v");
    let stale = maps
        .replace("a", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert_eq!(reason(&stale), (409, "Conflict".into()));
    let replaced = maps.replace("a", &PostParams::default(), &patched).await.unwrap();
    assert_eq!(replaced.resource_version(), patched.resource_version());
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items, [replaced]);
    assert!(
        maps.delete("a", &DeleteParams::default())
            .await
            .unwrap()
            .is_right()
    );
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert_eq!(
        reason(&maps.get("a").await.unwrap_err()),
        (404, "NotFound".into())
    );
}

#[tokio::test]
async fn watch_tells_what_happens() {
    let client = client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let params = WatchParams::default().labels("l=v");
    let mut events = maps.watch(&params, "0").await.unwrap().boxed();
    let mut labelled = map("a");
    labelled.labels_mut().insert("l".into(), "v".into());
    maps.create(&PostParams::default(), &map("unseen")).await.unwrap();
    maps.create(&PostParams::default(), &labelled).await.unwrap();
    let unlabel = Patch::Merge(json!({"metadata": {"labels": null}}));
    maps.patch("a", &PatchParams::default(), &unlabel).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.push(match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(object) => format!("added {}", object.name_any()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added a", "deleted a"]);
}

#[tokio::test]
async fn streaming_list_is_understood() {
    let client = client();
    let nodes: Api<Node> = Api::all(client);
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let params = WatchParams::default().initial_events();
    let mut events = nodes.watch(&params, "").await.unwrap().boxed();
    assert!(matches!(
        events.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    let Some(WatchEvent::Bookmark(bookmark)) = events.try_next().await.unwrap() else {
        panic!("the end")
    };
    assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn status_eviction_and_metadata_work() {
    let client = client();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let running = pods
        .patch_status("p", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(running.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(pods.get_metadata("p").await.unwrap().name_any(), "p");
    assert_eq!(
        pods.list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test]
async fn discovery_finds_the_kinds() {
    let client = client();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.3");
    for discovery in [
        kube::Discovery::new(client.clone()).run().await.unwrap(),
        kube::Discovery::new(client).run_aggregated().await.unwrap(),
    ] {
        let apps = discovery.get("apps").unwrap();
        let (resource, capabilities) = apps.recommended_kind("Deployment").unwrap();
        assert_eq!(resource.plural, "deployments");
        assert!(
            capabilities
                .subresources
                .iter()
                .any(|(subresource, _)| subresource.plural == "scale")
        );
    }
}

#[tokio::test]
async fn objects_are_applied() {
    let maps: Api<ConfigMap> = Api::default_namespaced(client());
    let with = |value: &str| {
        let mut map = map("a");
        map.data = Some([("k".to_owned(), value.to_owned())].into());
        Patch::Apply(map)
    };
    let created = maps
        .patch("a", &PatchParams::apply("one"), &with("1"))
        .await
        .unwrap();
    let entry = &created.metadata.managed_fields.as_ref().unwrap()[0];
    assert_eq!(
        (entry.manager.as_deref(), entry.operation.as_deref()),
        (Some("one"), Some("Apply"))
    );
    let conflict = maps
        .patch("a", &PatchParams::apply("two"), &with("2"))
        .await
        .unwrap_err();
    assert_eq!(reason(&conflict), (409, "Conflict".into()));
    let forced = maps
        .patch("a", &PatchParams::apply("two").force(), &with("2"))
        .await
        .unwrap();
    assert_eq!(forced.data.as_ref().unwrap()["k"], "2");
}
