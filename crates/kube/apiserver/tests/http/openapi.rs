//! What `kubectl explain` and `kubectl apply` read.

use serde_json::{Value, json};

use crate::support::{get, post, server};

fn definition(description: &str) -> Value {
    let color = json!({"type": "string", "description": description});
    let spec = json!({"type": "object", "description": "What it shall be.", "properties": {"color": color}});
    let schema = json!({"type": "object", "description": "A thing.", "properties": {"spec": spec}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "things.x.io"},
           "spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                    "versions": [version("v1", true), {"name": "v2", "served": true, "storage": false}]}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn custom_kinds_are_explained_by_their_definition() {
    let server = server();
    post(&server, DEFINITIONS, definition("Its color.")).await;
    let (_, document) = get(&server, "/openapi/v3/apis/x.io/v1").await;
    let thing = &document["components"]["schemas"]["io.x.v1.Thing"];
    assert_eq!(
        thing,
        &json!({
            "type": "object", "description": "A thing.",
            "x-kubernetes-group-version-kind": [{"group": "x.io", "version": "v1", "kind": "Thing"}],
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"$ref": "#/components/schemas/ObjectMeta"},
                "spec": {"type": "object", "description": "What it shall be.",
                         "properties": {"color": {"type": "string", "description": "Its color."}}},
            },
        })
    );
    assert!(document["components"]["schemas"]["ObjectMeta"]["properties"]["labels"].is_object());
    let (_, document) = get(&server, "/openapi/v3/apis/x.io/v2").await;
    let thing = &document["components"]["schemas"]["io.x.v2.Thing"];
    assert_eq!(
        (&thing["type"], &thing["properties"]["spec"]),
        (&json!("object"), &Value::Null)
    );
}

#[tokio::test]
async fn a_document_describes_a_bounded_number_of_bytes() {
    let server = server();
    let long = "a".repeat(1024 * 1024);
    for plural in ["things", "others", "more", "most", "last"] {
        let mut definition = definition(&long);
        definition["metadata"]["name"] = format!("{plural}.x.io").into();
        definition["spec"]["names"] = json!({"plural": plural, "kind": plural});
        post(&server, DEFINITIONS, definition).await;
    }
    let (code, document) = get(&server, "/openapi/v3/apis/x.io/v1").await;
    assert_eq!((code, &document["components"]["schemas"]), (200, &json!({})));
    assert!(document["paths"]["/apis/x.io/v1/things/{name}"]["patch"].is_object());
}

#[tokio::test]
async fn a_document_describes_no_definitions_whose_parse_takes_too_much() {
    let server = server();
    // Each property takes some 20 times the memory of its 8 bytes of text.
    let dense: serde_json::Map<_, _> = (0..70_000).map(|index| (format!("{index}"), json!({}))).collect();
    for plural in ["things", "others"] {
        let mut definition = definition("");
        definition["metadata"]["name"] = format!("{plural}.x.io").into();
        definition["spec"]["names"] = json!({"plural": plural, "kind": plural});
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!(dense);
        post(&server, DEFINITIONS, definition).await;
    }
    let (code, document) = get(&server, "/openapi/v3/apis/x.io/v1").await;
    let described = document["components"]["schemas"].as_object().unwrap().len();
    assert_eq!((code, described), (200, 0));
}

#[tokio::test]
async fn all_references_of_a_document_lead_somewhere() {
    let server = server();
    post(&server, DEFINITIONS, definition("Its color.")).await;
    let (_, root) = get(&server, "/openapi/v3").await;
    for path in root["paths"].as_object().unwrap().keys() {
        let (_, document) = get(&server, &format!("/openapi/v3/{path}")).await;
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} in {path}");
        }
        let kinds = schemas
            .values()
            .filter(|schema| schema["x-kubernetes-group-version-kind"].is_array());
        assert_eq!(
            kinds.count(),
            document["paths"].as_object().unwrap().len(),
            "{path}"
        );
    }
}

#[tokio::test]
async fn built_in_fields_say_how_clients_merge_them() {
    let (_, document) = get(&server(), "/openapi/v3/apis/apps/v1").await;
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        schemas["DeploymentSpec"]["properties"]["strategy"],
        json!({"allOf": [{"$ref": "#/components/schemas/DeploymentStrategy"}],
               "x-kubernetes-patch-strategy": "retainKeys"})
    );
    assert_eq!(
        schemas["PodSpec"]["properties"]["volumes"],
        json!({"type": "array", "items": {"$ref": "#/components/schemas/Volume"},
               "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name",
               "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})
    );
}
