use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams},
    core::GroupVersionKind,
};
use nephele_controller::wall_clock;
use serde_json::json;

use super::{
    super::management::{in_process, server},
    *,
};

const OLD: &str = "/apis/cluster.x-k8s.io/v1beta1/namespaces/default/clusters";
const NEW: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters";

fn client() -> Client {
    in_process(server("conversion", &wall_clock()).expect("it starts"))
}

async fn send(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value, u16> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    match client.request(request.body(body).expect("a request")).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

async fn get(client: &Client, path: &str) -> Value {
    send(client, "GET", path, "", &Value::Null)
        .await
        .unwrap_or_else(|code| panic!("{path}: {code}"))
}

async fn post(client: &Client, path: &str, object: &Value) -> Value {
    send(client, "POST", path, "application/json", object)
        .await
        .expect("created")
}

async fn merge(client: &Client, path: &str, patch: &Value) -> Value {
    send(client, "PATCH", path, "application/merge-patch+json", patch)
        .await
        .expect("patched")
}

fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {
            "topology": {
                "class": "in-memory", "version": "v1.36.3",
                "controlPlane": {"replicas": 1, "nodeDrainTimeout": "90s"},
            },
            "infrastructureRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "InMemoryCluster", "name": "i",
            },
        },
    })
}

#[tokio::test]
async fn an_object_of_the_older_version_is_stored_and_shown_in_the_newer_one() {
    let client = client();
    let created = post(&client, OLD, &cluster()).await;
    let new = get(&client, &format!("{NEW}/c")).await;
    let spec = json!({
        "topology": {
            "classRef": {"name": "in-memory"}, "version": "v1.36.3",
            "controlPlane": {"replicas": 1, "deletion": {"nodeDrainTimeoutSeconds": 90}},
        },
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": "i",
        },
    });
    assert_eq!(
        (&new["apiVersion"], &new["spec"]),
        (&json!("cluster.x-k8s.io/v1beta2"), &spec)
    );
    let spec = json!({
        "topology": {
            "class": "in-memory", "version": "v1.36.3",
            "controlPlane": {"replicas": 1, "nodeDrainTimeout": "1m30s"},
        },
        "infrastructureRef": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "InMemoryCluster", "name": "i",
            "namespace": "default",
        },
    });
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("cluster.x-k8s.io/v1beta1"), &spec)
    );
    let list = get(&client, OLD).await;
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]),
        (&created["apiVersion"], &created)
    );

    // A client that reads and writes changes nothing, and no version.
    let written = send(&client, "PUT", &format!("{OLD}/c"), "application/json", &created)
        .await
        .expect("written");
    assert_eq!(written, created);
}

#[tokio::test]
async fn a_watch_of_the_older_version_tells_changes_of_the_newer_one() {
    let client = client();
    post(&client, OLD, &cluster()).await;
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "Cluster");
    let clusters =
        Api::<DynamicObject>::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let mut events = clusters
        .watch(&WatchParams::default(), "0")
        .await
        .expect("a watch")
        .boxed();
    let mut next = async || match events.try_next().await.expect("an event") {
        Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object.data,
        other => panic!("{other:?}"),
    };
    assert_eq!(next().await["spec"]["topology"]["class"], "in-memory");
    let status = json!({"status": {
        "initialization": {"infrastructureProvisioned": true}, "failureDomains": [{"name": "a", "controlPlane": true}],
        "conditions": [{"type": "Available", "status": "True", "reason": "Available", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    merge(&client, &format!("{NEW}/c/status"), &status).await;
    let expected = json!({
        "infrastructureReady": true, "failureDomains": {"a": {"controlPlane": true}},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "v1beta2": {"conditions": status["status"]["conditions"]},
    });
    assert_eq!(next().await["status"], expected);
}

#[tokio::test]
async fn patches_name_fields_of_their_version() {
    let client = client();
    post(&client, OLD, &cluster()).await;
    let path = format!("{OLD}/c");
    let patch = json!({"spec": {"topology": {"class": "other", "controlPlane": {"nodeDrainTimeout": null}}}});
    let patched = merge(&client, &path, &patch).await;
    assert_eq!(patched["metadata"]["generation"], 2);
    let json_patch = json!([
        {"op": "test", "path": "/spec/topology/class", "value": "other"},
        {"op": "replace", "path": "/spec/topology/class", "value": "third"},
    ]);
    send(
        &client,
        "PATCH",
        &path,
        "application/json-patch+json",
        &json_patch,
    )
    .await
    .expect("patched");
    let new = get(&client, &format!("{NEW}/c")).await;
    let topology = json!({
        "classRef": {"name": "third"}, "version": "v1.36.3", "controlPlane": {"replicas": 1},
    });
    assert_eq!(
        (&new["spec"]["topology"], &new["metadata"]["generation"]),
        (&topology, &json!(3))
    );

    // A status is written in the older version, too.
    let status = json!({"status": {
        "infrastructureReady": true,
        "conditions": [{"type": "Mine", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    let patched = merge(&client, &format!("{path}/status"), &status).await;
    assert_eq!(patched["status"], status["status"]);
    let new = get(&client, &format!("{NEW}/c")).await;
    assert_eq!(
        new["status"]["initialization"],
        json!({"infrastructureProvisioned": true})
    );
    assert_eq!(
        new["status"]["deprecated"]["v1beta1"]["conditions"],
        status["status"]["conditions"]
    );
}

async fn apply(client: &Client, path: &str, manager: &str, object: &Value) -> Result<Value, u16> {
    let path = format!("{path}/c?fieldManager={manager}");
    send(client, "PATCH", &path, "application/apply-patch+yaml", object).await
}

#[tokio::test]
async fn what_is_applied_in_one_version_is_owned_in_both() {
    let client = client();
    let old = |topology: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "c"},
               "spec": {"topology": topology}})
    };
    let new = |topology: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
               "spec": {"topology": topology}})
    };
    let drain = json!({"class": "a", "controlPlane": {"nodeDrainTimeout": "90s"}});
    let applied = apply(&client, OLD, "one", &old(drain.clone()))
        .await
        .expect("applied");
    // The same again is no change.
    let again = apply(&client, OLD, "one", &old(drain)).await.expect("applied");
    assert_eq!(again["metadata"], applied["metadata"]);
    // Another one may say the same, and may not say anything else.
    let same = json!({"classRef": {"name": "a"}});
    assert_eq!(
        apply(&client, NEW, "two", &new(json!({"classRef": {"name": "b"}})))
            .await
            .unwrap_err(),
        409
    );
    apply(&client, NEW, "two", &new(same)).await.expect("applied");
    let version = json!({"version": "v1.36.3"});
    apply(&client, NEW, "three", &new(version))
        .await
        .expect("applied");
    // What the first one leaves out goes, but for what the second one says, too.
    apply(&client, OLD, "one", &old(json!({"version": "v1.36.3"})))
        .await
        .expect("applied");
    let left = get(&client, &format!("{NEW}/c")).await;
    assert_eq!(
        left["spec"]["topology"],
        json!({"classRef": {"name": "a"}, "version": "v1.36.3"})
    );
    // The first one changes to the newer version, and applies nothing any more. An update takes what it changes.
    let nothing =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"}});
    apply(&client, NEW, "one", &nothing).await.expect("applied");
    merge(
        &client,
        &format!("{OLD}/c"),
        &json!({"spec": {"topology": {"class": "c"}}}),
    )
    .await;
    let left = get(&client, &format!("{NEW}/c")).await;
    assert_eq!(
        left["spec"]["topology"],
        json!({"classRef": {"name": "c"}, "version": "v1.36.3"})
    );
    let owners = |manager: &str| {
        let all = left["metadata"]["managedFields"].as_array().expect("a list");
        all.iter()
            .find(|entry| entry["manager"] == manager)
            .map(|entry| entry["fieldsV1"].clone())
    };
    assert_eq!(owners("one"), None);
    assert!(
        !owners("two").is_some_and(|fields| fields.to_string().contains("f:name")),
        "{left}"
    );
    let version = owners("three").expect("an owner");
    assert!(version.to_string().contains("f:version"), "{version}");
}

#[tokio::test]
async fn the_kinds_of_the_providers_have_their_older_versions_too() {
    let client = client();
    let path = |group: &str, version: &str, plural: &str| {
        format!("/apis/{group}/{version}/namespaces/default/{plural}")
    };
    let group = infrastructure::GROUP;
    let old = json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": "InMemoryCluster", "metadata": {"name": "i"},
        "spec": {"controlPlaneEndpoint": {"host": "", "port": 0}},
    });
    let created = post(&client, &path(group, "v1beta1", "inmemoryclusters"), &old).await;
    assert_eq!(
        created["spec"]["controlPlaneEndpoint"],
        json!({"host": "", "port": 0})
    );
    let new = get(
        &client,
        &format!("{}/i", path(group, "v1beta2", "inmemoryclusters")),
    )
    .await;
    assert_eq!(new["spec"], json!({}));
    let odd = json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": "InMemoryCluster", "metadata": {"name": "odd"}, "spec": 5,
    });
    let refused = send(
        &client,
        "POST",
        &path(group, "v1beta1", "inmemoryclusters"),
        "application/json",
        &odd,
    )
    .await;
    assert_eq!(refused, Err(400));

    let pool = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha1", "kind": "InClusterIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "10.0.0.0/24", "gateway": "10.0.0.1"},
    });
    post(&client, &path(ipam::GROUP, "v1alpha1", "inclusterippools"), &pool).await;
    let new = get(
        &client,
        &format!("{}/p", path(ipam::GROUP, "v1alpha2", "inclusterippools")),
    )
    .await;
    assert_eq!(
        (&new["spec"]["prefix"], &new["spec"]["gateway"]),
        (&json!(24), &json!("10.0.0.1"))
    );
    let claims = get(&client, &path(ipam::GROUP, "v1beta1", "ipaddressclaims")).await;
    assert_eq!(claims["items"], json!([]));
}
