//! Server-side apply of lists, by the schemas of built-in and custom kinds.

use nephele_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{apply, failure, managers, post, server};

const POD: &str = "/api/v1/namespaces/default/pods/p";
const SERVICE: &str = "/api/v1/namespaces/default/services/s";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THING: &str = "/apis/x.io/v1/things/t";

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

async fn applied(server: &ApiServer, path: &str, manager: &str, body: Value) -> Value {
    let (code, answer) = apply(server, path, manager, body).await;
    assert!(code == 200 || code == 201, "{answer}");
    answer
}

#[tokio::test]
async fn elements_of_lists_of_maps_are_merged_by_their_keys() {
    let server = server();
    let first = pod(json!({"containers": [
        {"name": "a", "image": "i:1", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]}));
    applied(&server, POD, "one", first.clone()).await;
    let second = pod(json!({"containers": [
        {"name": "b", "image": "i:2"}, {"name": "a", "env": [{"name": "E", "value": "v"}]}]}));
    let merged = applied(&server, POD, "two", second).await;
    let expected = json!([
        {"name": "b", "image": "i:2"},
        {"name": "a", "image": "i:1", "env": [{"name": "E", "value": "v"}],
         "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]},
    ]);
    assert_eq!(merged["spec"]["containers"], expected);
    let fields = &merged["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"];
    let ports = json!({
        r#"k:{"containerPort":53,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}},
        r#"k:{"containerPort":53,"protocol":"UDP"}"#: {".": {}, "f:containerPort": {}, "f:protocol": {}},
    });
    let owned = json!({r#"k:{"name":"a"}"#: {".": {}, "f:name": {}, "f:image": {}, "f:ports": ports}});
    assert_eq!(*fields, owned);
    let image = pod(json!({"containers": [{"name": "a", "image": "i:3"}]}));
    let (_, _, message) = failure(apply(&server, POD, "three", image).await);
    let expected = "Apply failed with 1 conflict: conflict with \"one\": .spec.containers[name=\"a\"].image";
    assert_eq!(message, expected);
    // The container stays because the other applier has fields in it, and its key with it.
    let without = applied(&server, POD, "one", pod(json!({}))).await;
    let expected =
        json!([{"name": "b", "image": "i:2"}, {"name": "a", "env": [{"name": "E", "value": "v"}]}]);
    assert_eq!(without["spec"]["containers"], expected);
}

#[tokio::test]
async fn ports_of_a_service_differ_by_port_and_protocol() {
    let server = server();
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    applied(
        &server,
        SERVICE,
        "one",
        service(json!([{"port": 53, "name": "tcp"}])),
    )
    .await;
    let udp = service(json!([{"port": 53, "protocol": "UDP", "name": "udp"}]));
    let both = applied(&server, SERVICE, "two", udp).await;
    assert_eq!(both["spec"]["ports"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn atomic_lists_and_maps_are_one_value() {
    let server = server();
    let tolerations = |key: &str| pod(json!({"tolerations": [{"key": key}], "nodeSelector": {"a": key}}));
    let object = applied(&server, POD, "one", tolerations("a")).await;
    assert_eq!(
        managers(&object),
        [r#"one Apply {"f:spec":{"f:nodeSelector":{},"f:tolerations":{}}}"#]
    );
    let (_, _, message) = failure(apply(&server, POD, "two", tolerations("b")).await);
    let expected =
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.nodeSelector\n- .spec.tolerations";
    assert_eq!(message, expected);
    let forced = applied(&server, POD, "two&force=true", tolerations("b")).await;
    for field in ["nodeSelector", "tolerations"] {
        assert_eq!(forced["spec"][field], tolerations("b")["spec"][field]);
    }
}

#[tokio::test]
async fn sets_and_owners_of_the_metadata_are_merged() {
    let server = server();
    let with = |finalizer: &str, uid: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "p", "finalizers": [finalizer], "ownerReferences": [owner]}})
    };
    let node = post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let uid = node["metadata"]["uid"].as_str().unwrap();
    applied(&server, POD, "one", with("x.io/a", uid)).await;
    let both = applied(&server, POD, "two", with("x.io/b", uid)).await;
    assert_eq!(both["metadata"]["finalizers"], json!(["x.io/a", "x.io/b"]));
    assert_eq!(
        both["metadata"]["ownerReferences"].as_array().map(Vec::len),
        Some(1)
    );
    let owner = format!(r#""k:{{\"uid\":\"{uid}\"}}":{{}}"#);
    assert_eq!(
        managers(&both)[1],
        format!(
            r#"two Apply {{"f:metadata":{{"f:finalizers":{{"v:\"x.io/b\"":{{}}}},"f:ownerReferences":{{{owner}}}}}}}"#
        )
    );
    let one = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let left = applied(&server, POD, "one", one).await;
    assert_eq!(left["metadata"]["finalizers"], json!(["x.io/b"]));
}

#[tokio::test]
async fn list_whose_elements_cannot_be_told_apart_is_refused() {
    let server = server();
    for (spec, message) in [
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"containers": [{"image": "i"}]}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"containers": ["a"]}),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
    ] {
        let (code, _, answer) = failure(apply(&server, POD, "one", pod(spec)).await);
        assert_eq!(
            (code, answer),
            (422, format!("failed to create typed patch object: {message}"))
        );
    }
    // What is stored already is merged as well as it can be.
    let stored = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "a"}, {"image": "i"}]}});
    post(&server, "/api/v1/namespaces/default/pods", stored).await;
    let merged = applied(&server, POD, "one", pod(json!({"containers": [{"name": "b"}]}))).await;
    assert_eq!(
        merged["spec"]["containers"],
        json!([{"name": "a"}, {"name": "a"}, {"image": "i"}, {"name": "b"}])
    );
}

fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}});
    json!({
        "metadata": {"name": "things.x.io"},
        "spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                               "schema": {"openAPIV3Schema": schema}}]},
    })
}

fn thing(spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

#[tokio::test]
async fn definition_decides_how_its_objects_are_merged() {
    let server = server();
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {}, "b": {}}},
        "zones": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    post(&server, DEFINITIONS, definition(&spec)).await;
    let first = json!({"set": ["a"], "plain": ["a"], "one": {"a": 1}, "zones": [{"name": "z1", "size": 1}],
                       "free": {"x": {"y": 1}}});
    let object = applied(&server, THING, "one", thing(first)).await;
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"],
        json!({"f:set": {"v:\"a\"": {}}, "f:plain": {}, "f:one": {}, "f:free": {"f:x": {".": {}, "f:y": {}}},
               "f:zones": {"k:{\"name\":\"z1\"}": {".": {}, "f:name": {}, "f:size": {}}}})
    );
    let second = json!({"set": ["b"], "zones": [{"name": "z2"}], "free": {"x": {"z": 2}}});
    let merged = applied(&server, THING, "two", thing(second)).await;
    assert_eq!(merged["spec"]["set"], json!(["a", "b"]));
    assert_eq!(
        merged["spec"]["zones"],
        json!([{"name": "z1", "size": 1}, {"name": "z2"}])
    );
    assert_eq!(merged["spec"]["free"], json!({"x": {"y": 1, "z": 2}}));
    for (spec, path) in [
        (json!({"plain": ["b"]}), ".spec.plain"),
        (json!({"one": {"b": 1}}), ".spec.one"),
    ] {
        let message = failure(apply(&server, THING, "two", thing(spec)).await).2;
        assert_eq!(
            message,
            format!("Apply failed with 1 conflict: conflict with \"one\": {path}")
        );
    }
    let duplicates = thing(json!({"set": ["a", "a"]}));
    assert_eq!(apply(&server, THING, "two", duplicates).await.0, 422);
}

#[tokio::test]
async fn changed_definition_changes_how_its_objects_are_merged() {
    let server = server();
    let list = |kind: &str| {
        definition(&json!({"properties": {"list": {"type": "array", "x-kubernetes-list-type": kind}}}))
    };
    post(&server, DEFINITIONS, list("atomic")).await;
    applied(&server, THING, "one", thing(json!({"list": ["a"]}))).await;
    assert_eq!(
        apply(&server, THING, "two", thing(json!({"list": ["b"]})))
            .await
            .0,
        409
    );
    let mut as_set = list("set");
    as_set["apiVersion"] = "apiextensions.k8s.io/v1".into();
    as_set["kind"] = "CustomResourceDefinition".into();
    let path = format!("{DEFINITIONS}/things.x.io");
    applied(&server, &path, "one&force=true", as_set).await;
    let merged = applied(&server, THING, "two", thing(json!({"list": ["b"]}))).await;
    assert_eq!(merged["spec"]["list"], json!(["a", "b"]));
}
