use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::*;
use crate::{
    hooks::{Hook, HookMeta},
    request, response,
};

/// Facts of the document of Cluster API.
fn upstream() -> Value {
    let path = Path::new("tests/fixtures/openapi-1.14.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn cluster_api() -> Value {
    document(
        &BTreeMap::from([(String::new(), Catalog::cluster_api())]),
        &Info::default(),
    )
}

fn sorted(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = value
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    texts
}

#[test]
fn paths_are_those_of_cluster_api() {
    let upstream = upstream();
    let ours = cluster_api();
    let expected = upstream["paths"].as_object().unwrap();
    assert_eq!(expected.len(), 17);
    let paths = ours["paths"].as_object().unwrap();
    assert_eq!(
        paths.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (path, expected) in expected {
        let post = &paths[path]["post"];
        assert_eq!(post["operationId"], expected["operationId"]);
        assert_eq!(post["tags"], expected["tags"]);
        for (body, kind) in [
            (&post["requestBody"], "request"),
            (&post["responses"]["200"], "response"),
        ] {
            let name = format!("{CLUSTER_API_SCHEMAS}.{}", expected[kind].as_str().unwrap());
            let reference = &body["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(*reference, json!(format!("#/components/schemas/{name}")));
        }
        assert_eq!(post["responses"].as_object().unwrap().len(), 1);
        assert_eq!(post["parameters"].is_array(), path.ends_with("/{name}"));
        assert_eq!(paths[path].as_object().unwrap().len(), 1);
    }
}

/// A type in the notation of the fixture.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return format!("#{}", reference.rsplit('.').next().unwrap());
    }
    let mut text = schema["type"].as_str().unwrap_or("anything").to_owned();
    if let Some(format) = schema["format"].as_str() {
        text += &format!(":{format}");
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            text += &format!(" of {}", kind(&schema[key]));
        }
    }
    text
}

#[test]
fn schemas_have_the_fields_of_cluster_apis() {
    let upstream = upstream();
    let ours = cluster_api();
    let schemas = ours["components"]["schemas"].as_object().unwrap();
    for (name, expected) in upstream["schemas"].as_object().unwrap() {
        let schema = &schemas[&format!("{CLUSTER_API_SCHEMAS}.{name}")];
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let kinds: BTreeMap<String, String> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), kind(schema)))
            .collect();
        let expected_kinds: BTreeMap<String, String> = expected["types"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, kind)| {
                // Our document does not describe Kubernetes objects and values in detail.
                let kind = match kind.as_str().unwrap() {
                    "#Cluster" | "#Machine" | "#MachineSet" | "#RawExtension" => "object",
                    "#JSON" => "anything",
                    kind => kind,
                };
                (name.clone(), kind.to_owned())
            })
            .collect();
        assert_eq!(kinds, expected_kinds, "{name}");
        assert_eq!(
            sorted(&schema["required"]),
            sorted(&expected["required"]),
            "{name}"
        );
        // Cluster API's document has enums only where its generator is told so. Ours has two more.
        for (property, schema) in &properties {
            if !["patchType", "failurePolicy"].contains(&property.as_str()) {
                assert_eq!(
                    sorted(&schema["enum"]),
                    sorted(&expected["enums"][property]),
                    "{name}.{property}"
                );
            }
        }
    }
    // The other schemas are of Cluster API's own objects. Our document describes one of them.
    let others: Vec<&str> = schemas
        .keys()
        .map(|name| name.rsplit('.').next().unwrap())
        .filter(|name| upstream["schemas"].get(*name).is_none())
        .collect();
    assert_eq!(
        others,
        [
            "ClusterClassVariable",
            "ClusterClassVariableMetadata",
            "VariableSchema"
        ]
    );
}

#[test]
fn patch_types_and_policies_say_which_there_are() {
    let ours = cluster_api();
    let schema = |name: &str| ours["components"]["schemas"][format!("{CLUSTER_API_SCHEMAS}.{name}")].clone();
    for name in ["Patch", "GeneratePatchesResponseItem"] {
        assert_eq!(
            schema(name)["properties"]["patchType"]["enum"],
            json!(["JSONPatch", "JSONMergePatch"])
        );
        assert_eq!(schema(name)["properties"]["patch"]["format"], json!("byte"));
    }
    let handler = schema("ExtensionHandler");
    assert_eq!(
        handler["properties"]["failurePolicy"]["enum"],
        json!(["Fail", "Ignore"])
    );
    assert_eq!(handler["properties"]["timeoutSeconds"]["type"], json!("integer"));
    assert_eq!(handler["properties"]["timeoutSeconds"]["format"], json!("int32"));
}

/// Every reference has a target, and no schema contains details of Rust.
#[test]
fn the_document_is_whole() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                for key in ["default", "nullable", "$schema", "$defs", "const"] {
                    assert!(!fields.contains_key(key), "{key} in {value}");
                }
                assert!(!matches!(fields.get("type"), Some(Value::Array(_))), "{value}");
                fields.values().for_each(|value| walk(value, document));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, document)),
            _ => {}
        }
    }
    let ours = cluster_api();
    walk(&ours, &ours);
}

request! {
    /// Asks.
    struct AskRequest {
        /// What.
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<crate::hooks::HolderReference>,
        sure: bool,
    }
}

response! {
    /// Answers.
    struct AskResponse: retry {}
}

struct Ask;

impl Hook for Ask {
    type Request = AskRequest;
    type Response = AskResponse;
    const GROUP: &'static str = "own-hooks.example.com";
    const VERSION: &'static str = "v1";
    const NAME: &'static str = "Ask";
    const META: HookMeta = HookMeta::new("Asks something").deprecated();
}

#[test]
fn own_hooks_are_described_in_the_same_way() {
    let mut catalog = Catalog::empty();
    catalog.add::<Ask>().unwrap();
    let ours = document(
        &BTreeMap::from([("/own".to_owned(), catalog)]),
        &Info {
            title: "Own".into(),
            description: String::new(),
            version: "v2".into(),
        },
    );
    let schema = |kind: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/own-hooks.example.com.v1.{kind}") } } });
    assert_eq!(ours["info"]["version"], json!("v2"));
    assert_eq!(
        ours["paths"],
        json!({
            "/own/own-hooks.example.com/v1/ask/{name}": { "post": {
                "operationId": "ownOwnHooksExampleComV1Ask",
                "summary": "Asks something",
                "deprecated": true,
                "parameters": [{
                    "name": "name", "in": "path", "required": true, "schema": { "type": "string" },
                    "description": "The name of the handler, in lower case.",
                }],
                "requestBody": { "content": schema("AskRequest") },
                "responses": { "200": {
                    "description": "The call was processed; its status says how it went.",
                    "content": schema("AskResponse"),
                } },
            } },
        })
    );
    let schemas = &ours["components"]["schemas"];
    let request = &schemas["own-hooks.example.com.v1.AskRequest"];
    assert_eq!(request["required"], json!(["sure"]));
    let reference = "#/components/schemas/own-hooks.example.com.v1.HolderReference";
    assert_eq!(
        request["properties"]["what"]["$ref"],
        json!(reference),
        "{request}"
    );
    assert_eq!(
        schemas["own-hooks.example.com.v1.AskResponse"]["required"],
        json!(["status", "retryAfterSeconds"])
    );
}
