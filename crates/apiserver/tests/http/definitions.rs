//! Kinds are added and removed with their definitions.

use serde_json::{Value, json};

use crate::support::{failure, get, patch, post, send, server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.io";
const THINGS: &str = "/apis/x.io/v1/things";

fn definition(names: &Value) -> Value {
    let name = format!("{}.x.io", names["plural"].as_str().unwrap());
    json!({"metadata": {"name": name},
           "spec": {"group": "x.io", "scope": "Cluster", "names": names,
                    "versions": [{"name": "v1", "served": true, "storage": true}]}})
}

fn things() -> Value {
    definition(&json!({"plural": "things", "kind": "Thing"}))
}

#[tokio::test]
async fn kind_whose_versions_are_all_unserved_is_not_served_and_keeps_its_objects() {
    let server = server();
    post(&server, DEFINITIONS, things()).await;
    post(&server, THINGS, json!({"metadata": {"name": "a"}})).await;
    let serve =
        |served: bool| json!({"spec": {"versions": [{"name": "v1", "served": served, "storage": true}]}});
    assert_eq!(patch(&server, "merge", DEFINITION, &serve(false)).await.0, 200);
    assert_eq!(get(&server, THINGS).await.0, 404);
    assert_eq!(get(&server, "/apis/x.io/v1").await.0, 404);
    assert_eq!(patch(&server, "merge", DEFINITION, &serve(true)).await.0, 200);
    assert_eq!(get(&server, &format!("{THINGS}/a")).await.0, 200);
}

#[tokio::test]
async fn a_patch_of_the_status_of_a_custom_resource_ignores_the_uid() {
    let server = server();
    let mut things = things();
    things["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    post(&server, DEFINITIONS, things).await;
    let made = post(&server, THINGS, json!({"metadata": {"name": "a"}})).await;
    let others = json!({"metadata": {"uid": "other"}, "status": {"phase": "Running"}});
    assert_eq!(patch(&server, "merge", &format!("{THINGS}/a"), &others).await.0, 422);
    let (code, patched) = patch(&server, "merge", &format!("{THINGS}/a/status"), &others).await;
    assert_eq!(
        (code, &patched["metadata"]["uid"], &patched["status"]),
        (200, &made["metadata"]["uid"], &others["status"])
    );
}

#[tokio::test]
async fn definition_whose_versions_are_all_unserved_takes_its_objects_along() {
    let server = server();
    post(&server, DEFINITIONS, things()).await;
    post(&server, THINGS, json!({"metadata": {"name": "a"}})).await;
    let unserved = json!({"spec": {"versions": [{"name": "v1", "served": false, "storage": true}]}});
    assert_eq!(patch(&server, "merge", DEFINITION, &unserved).await.0, 200);
    assert_eq!(send(&server, "DELETE", DEFINITION, &json!({})).await.0, 200);
    assert_eq!(get(&server, DEFINITION).await.0, 404);
    post(&server, DEFINITIONS, things()).await;
    assert_eq!(get(&server, THINGS).await.1["items"], json!([]));
}

#[tokio::test]
async fn names_of_a_kind_are_dns_labels() {
    let server = server();
    let refused = [
        ("spec.names.plural", json!({"plural": "thin.gs", "kind": "Thing"})),
        ("spec.names.plural", json!({"plural": "1things", "kind": "Thing"})),
        ("spec.names.kind", json!({"plural": "things", "kind": "Th/ing"})),
        ("spec.names.singular", json!({"plural": "things", "kind": "Thing", "singular": "Thing"})),
        ("spec.names.shortNames", json!({"plural": "things", "kind": "Thing", "shortNames": ["a b"]})),
        ("spec.names.categories", json!({"plural": "things", "kind": "Thing", "categories": [7]})),
    ];
    for (field, names) in refused {
        let (code, status) = send(&server, "POST", DEFINITIONS, &definition(&names)).await;
        assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!(field)), "{status}");
    }
    post(
        &server,
        DEFINITIONS,
        definition(&json!({"plural": "things", "kind": "Thing", "shortNames": ["th"]})),
    )
    .await;
}

#[tokio::test]
async fn scope_and_kind_of_a_definition_do_not_change() {
    let server = server();
    post(&server, DEFINITIONS, things()).await;
    for change in [json!({"spec": {"scope": "Namespaced"}}), json!({"spec": {"names": {"kind": "Other"}}})] {
        let (code, _, message) = failure(patch(&server, "merge", DEFINITION, &change).await);
        assert_eq!(code, 422);
        assert!(message.ends_with("field is immutable"), "{message}");
    }
}
