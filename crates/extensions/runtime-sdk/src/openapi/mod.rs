//! The `OpenAPI` v3 document of a catalog: the contract for extensions and callers in any language.
//!
//! For Cluster API's own hooks it has the paths, operations and schema names of the document that Cluster API
//! releases (`hack/tools/runtime-openapi-gen`), so that clients generated from either document work. Kubernetes
//! objects have no detailed schema. Patch types and failure policies list their values.

mod compatibility;

use std::collections::{BTreeMap, BTreeSet};

pub use compatibility::breaking_changes;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    catalog::{Catalog, Entry},
    hooks::{GROUP, HookId, VERSION},
};

/// The prefix of the hooks' schemas in Cluster API's own document.
const CLUSTER_API_SCHEMAS: &str = "sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1";

/// The title and description of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub title: String,
    pub description: String,
    pub version: String,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            title: "Cluster API - Runtime SDK".to_owned(),
            description: "Hooks that a runtime extension of Cluster API may answer.".to_owned(),
            version: VERSION.to_owned(),
        }
    }
}

/// The document of several catalogs, each under the prefix of its paths; an empty prefix is the root.
#[must_use]
pub fn document(catalogs: &BTreeMap<String, Catalog>, info: &Info) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut generators: BTreeMap<(String, String), SchemaGenerator> = BTreeMap::new();
    for (prefix, catalog) in catalogs {
        for (id, entry) in catalog.entries() {
            let mut path = format!("{prefix}{}", id.path(None));
            if !entry.singleton {
                path.push_str("/{name}");
            }
            paths.insert(path, json!({ "post": operation(prefix, id, entry) }));
            let key = (id.group.to_string(), id.version.to_string());
            let generator = generators
                .entry(key)
                .or_insert_with(|| SchemaSettings::openapi3().for_serialize().into_generator());
            for (kind, schema) in [
                (request_kind(id), entry.request_schema(generator)),
                (response_kind(id), entry.response_schema(generator)),
            ] {
                let mut schema = schema.to_value();
                typed(&mut schema);
                generator.definitions_mut().insert(kind, schema);
            }
        }
    }
    for ((group, version), mut generator) in generators {
        let definitions = generator.take_definitions(true);
        let names: BTreeSet<String> = definitions.keys().cloned().collect();
        for (name, mut schema) in definitions {
            tidy(&mut schema);
            refer(&mut schema, &|local| {
                names
                    .contains(local)
                    .then(|| schema_name(&group, &version, local))
            });
            schemas.insert(schema_name(&group, &version, &name), schema);
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {
            "title": info.title, "description": info.description, "version": info.version,
            "license": { "name": "Apache 2.0", "url": "http://www.apache.org/licenses/LICENSE-2.0.html" },
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn operation(prefix: &str, id: &HookId, entry: &Entry) -> Value {
    let body = |kind: &str| {
        let name = schema_name(&id.group, &id.version, kind);
        json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } })
    };
    let mut operation = Map::new();
    let mut say = |key: &str, value: Value| operation.insert(key.to_owned(), value);
    if !entry.meta.tags.is_empty() {
        say("tags", json!(entry.meta.tags));
    }
    say("summary", json!(entry.meta.summary));
    if !entry.meta.description.is_empty() {
        say("description", json!(entry.meta.description));
    }
    if entry.meta.deprecated {
        say("deprecated", json!(true));
    }
    say("operationId", json!(operation_id(prefix, id)));
    if !entry.singleton {
        let schema = json!({ "type": "string" });
        let name = json!({
            "name": "name", "in": "path", "required": true, "schema": schema,
            "description": "The name of the handler, in lower case.",
        });
        say("parameters", json!([name]));
    }
    say("requestBody", json!({ "content": body(&request_kind(id)) }));
    let ok = json!({ "description": "The call was processed; its status says how it went.", "content": body(&response_kind(id)) });
    say("responses", json!({ "200": ok }));
    Value::Object(operation)
}

fn request_kind(id: &HookId) -> String {
    format!("{}Request", id.hook)
}

fn response_kind(id: &HookId) -> String {
    format!("{}Response", id.hook)
}

/// The group without Kubernetes' suffix, the version and the hook, in camel case.
fn operation_id(prefix: &str, id: &HookId) -> String {
    let group = id.group.strip_suffix(".x-k8s.io").unwrap_or(&id.group);
    let parts = prefix
        .split(['/', '-', '.'])
        .chain(group.split(['.', '-']))
        .filter(|part| !part.is_empty());
    let mut text = String::new();
    for part in parts.chain([&*id.version]) {
        if text.is_empty() {
            text.push_str(part);
        } else {
            text.push_str(&capital(part));
        }
    }
    text + &id.hook
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn schema_name(group: &str, version: &str, kind: &str) -> String {
    if group == GROUP && version == VERSION {
        format!("{CLUSTER_API_SCHEMAS}.{kind}")
    } else {
        format!("{group}.{version}.{kind}")
    }
}

/// Adds the optional fields for the type of a message.
fn typed(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(
            "apiVersion".to_owned(),
            json!({ "type": "string", "description": "Group and version." }),
        );
        properties.insert(
            "kind".to_owned(),
            json!({ "type": "string", "description": "The name of this schema." }),
        );
    }
}

/// Removes details of Rust: the defaults of absent fields, and `null` as a type of optional fields.
fn tidy(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("default");
    fields.remove("nullable");
    fields.remove("title");
    if let Some(Value::Array(texts)) = fields.get_mut("enum") {
        texts.retain(|text| !text.is_null());
    }
    // The schema of an optional field is `anyOf` with null, or `allOf` with one element.
    for key in ["anyOf", "allOf"] {
        let Some(Value::Array(branches)) = fields.get_mut(key) else {
            continue;
        };
        branches.retain(|branch| {
            branch.as_object().is_none_or(|branch| {
                branch.get("type") != Some(&json!("null")) && branch.keys().any(|key| key != "nullable")
            })
        });
        branches.retain(|branch| branch.get("enum") != Some(&json!([null])));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            fields.remove(key);
            fields.extend(only);
        }
    }
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(tidy),
            ("items" | "additionalProperties" | "not", value) => tidy(value),
            ("anyOf" | "allOf" | "oneOf", Value::Array(branches)) => branches.iter_mut().for_each(tidy),
            _ => {}
        }
    }
}

/// Renames references to the names in the document.
fn refer(schema: &mut Value, name: &dyn Fn(&str) -> Option<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(name) = reference.rsplit('/').next().and_then(name)
            {
                *reference = format!("#/components/schemas/{name}");
            }
            fields.values_mut().for_each(|value| refer(value, name));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| refer(value, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
