//! Kinds are added and removed with their definitions.

use serde_json::{Value, json};

use crate::support::{Watch, failure, get, patch, post, send, server};

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
    assert_eq!(
        patch(&server, "merge", &format!("{THINGS}/a"), &others).await.0,
        422
    );
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
        (
            "spec.names.singular",
            json!({"plural": "things", "kind": "Thing", "singular": "Thing"}),
        ),
        (
            "spec.names.shortNames",
            json!({"plural": "things", "kind": "Thing", "shortNames": ["a b"]}),
        ),
        (
            "spec.names.categories",
            json!({"plural": "things", "kind": "Thing", "categories": [7]}),
        ),
    ];
    for (field, names) in refused {
        let (code, status) = send(&server, "POST", DEFINITIONS, &definition(&names)).await;
        assert_eq!(
            (code, &status["details"]["causes"][0]["field"]),
            (422, &json!(field)),
            "{status}"
        );
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
    for change in [
        json!({"spec": {"scope": "Namespaced"}}),
        json!({"spec": {"names": {"kind": "Other"}}}),
    ] {
        let (code, _, message) = failure(patch(&server, "merge", DEFINITION, &change).await);
        assert_eq!(code, 422);
        assert!(message.ends_with("field is immutable"), "{message}");
    }
}

fn colored(fields: &[&str]) -> Value {
    let properties = json!({
        "color": {"type": "string"}, "size": {"type": "integer"}, "hostNetwork": {"type": "boolean"},
        "parts": {"type": "array", "items": {"type": "object"}},
    });
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties},
                                                         "metadata": {"type": "object"}}});
    let fields: Vec<_> = fields.iter().map(|path| json!({"jsonPath": path})).collect();
    let mut things = things();
    things["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": schema});
    things["spec"]["versions"][0]["selectableFields"] = json!(fields);
    things
}

#[tokio::test]
async fn custom_objects_are_selected_by_the_fields_of_their_definition() {
    let server = server();
    post(
        &server,
        DEFINITIONS,
        colored(&[".spec.color", ".spec.size", ".spec.hostNetwork"]),
    )
    .await;
    for (name, spec) in [
        ("a", json!({"color": "blue", "size": 3, "hostNetwork": true})),
        ("b", json!({"color": "red"})),
        ("c", json!({})),
    ] {
        post(&server, THINGS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let names = |selector: &'static str| {
        let server = server.clone();
        async move {
            let (code, list) = get(&server, &format!("{THINGS}?fieldSelector={selector}")).await;
            assert_eq!(code, 200, "{list}");
            let items = list["items"].as_array().unwrap().clone();
            items
                .iter()
                .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
                .collect::<String>()
        }
    };
    for (selector, expected) in [
        ("spec.color%3Dblue", "a"),
        ("spec.color%21%3Dblue", "bc"),
        ("spec.color%3D", "c"),
        ("spec.size%3D3", "a"),
        ("spec.hostNetwork%3Dtrue", "a"),
        // Upstream has no defaults of Go's types for custom kinds.
        ("spec.hostNetwork%3Dfalse", ""),
        ("spec.hostNetwork%3D,metadata.name%3Db", "b"),
    ] {
        assert_eq!(names(selector).await, expected, "{selector}");
    }
    let unknown = failure(get(&server, &format!("{THINGS}?fieldSelector=spec.parts%3Da")).await);
    assert_eq!(
        unknown,
        (
            400,
            "BadRequest".into(),
            "field label not supported: spec.parts".into()
        )
    );
    let watch = format!("{THINGS}?watch=true&resourceVersion=0&fieldSelector=spec.color%3Dblue");
    let mut watch = Watch::open(&server, &watch).await;
    assert_eq!(watch.brief().await, "ADDED a");
    patch(
        &server,
        "merge",
        &format!("{THINGS}/b"),
        &json!({"spec": {"color": "blue"}}),
    )
    .await;
    assert_eq!(watch.brief().await, "ADDED b");
    patch(
        &server,
        "merge",
        &format!("{THINGS}/a"),
        &json!({"spec": {"color": "green"}}),
    )
    .await;
    assert_eq!(watch.brief().await, "DELETED a");
    let blue = format!("{THINGS}?fieldSelector=spec.color%3Dblue");
    assert_eq!(send(&server, "DELETE", &blue, &json!({})).await.0, 200);
    assert_eq!(names("").await, "ac");
}

#[tokio::test]
async fn selectable_fields_are_those_of_the_requested_version() {
    let server = server();
    let mut things = colored(&[".spec.color"]);
    let mut second = things["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["selectableFields"] = json!([{"jsonPath": ".spec.size"}]);
    things["spec"]["versions"].as_array_mut().unwrap().push(second);
    post(&server, DEFINITIONS, things).await;
    for (version, field, code) in [
        ("v1", "color", 200),
        ("v2", "color", 400),
        ("v1", "size", 400),
        ("v2", "size", 200),
    ] {
        let path = format!("/apis/x.io/{version}/things?fieldSelector=spec.{field}%3Da");
        assert_eq!(get(&server, &path).await.0, code, "{path}");
    }
}

#[tokio::test]
async fn selectable_fields_of_a_definition_are_checked() {
    let server = server();
    let scalar = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
    let invalid = |path: &str, detail: &str| {
        format!("spec.selectableFields[0].jsonPath: Invalid value: \"{path}\": {detail}")
    };
    for (fields, expected) in [
        (
            &[".spec.color", ".spec.color"][..],
            "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.color\"".to_owned(),
        ),
        (
            &[".spec.nope"],
            invalid(
                ".spec.nope",
                "is an invalid path: does not refer to a valid field",
            ),
        ),
        (&[".spec.parts"], invalid(".spec.parts", scalar)),
        (&[".spec"], invalid(".spec", scalar)),
        (
            &[".spec.parts[0].a"],
            invalid(
                ".spec.parts[0].a",
                "is an invalid path: array notation is not allowed",
            ),
        ),
        (
            &["spec.color"],
            invalid("spec.color", "is an invalid path: expected [ or . but got: spec"),
        ),
        (
            &[""],
            "spec.selectableFields[0].jsonPath: Required value".to_owned(),
        ),
        (
            &[".metadata"],
            invalid(".metadata", "must not point to fields in metadata"),
        ),
    ] {
        let (code, _, message) = failure(send(&server, "POST", DEFINITIONS, &colored(fields)).await);
        let expected =
            format!("CustomResourceDefinition.apiextensions.k8s.io \"things.x.io\" is invalid: {expected}");
        assert_eq!((code, message), (422, expected), "{fields:?}");
    }
    let mut without = colored(&[".spec.color"]);
    without["spec"]["versions"][0]
        .as_object_mut()
        .unwrap()
        .remove("schema");
    assert_eq!(failure(send(&server, "POST", DEFINITIONS, &without).await).0, 422);
}
