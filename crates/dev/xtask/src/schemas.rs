//! JSON Schemas of our kinds, for editors and for CI.
//!
//! ```text
//!  definitions ─▶ without what only an API server knows ─▶ config/schemas/GROUP/KIND_VERSION.json
//!                 with what it takes for granted
//! ```
//!
//! An API server drops fields that it does not know, and a schema of an editor has to refuse them. Rules in CEL have no form
//! in JSON Schema and are left out.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use crate::definitions::definitions;

/// The folder of the files, which lie as kubeconform and catalogs of schemas have them.
const FOLDER: &str = "config/schemas";

/// The schemas by path, each on one line: indented, they would be twice as large.
pub(crate) fn generated() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for definition in definitions() {
        let folder = PathBuf::from(FOLDER).join(&definition.spec.group);
        let kind = definition.spec.names.kind.to_lowercase();
        for (version, schema) in schemas(&definition)? {
            let text = serde_json::to_string(&schema).context("failed to write a schema")?;
            files.insert(folder.join(format!("{kind}_{version}.json")), text + "\n");
        }
    }
    Ok(files)
}

/// The folders of the files, one for each group.
pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    definitions().map(|definition| PathBuf::from(FOLDER).join(definition.spec.group))
}

/// The schema of each version of a kind.
fn schemas(definition: &CustomResourceDefinition) -> anyhow::Result<Vec<(String, Value)>> {
    let spec = &definition.spec;
    let versions = spec.versions.iter().map(|version| {
        let schema = version.schema.as_ref();
        let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = schema.with_context(|| format!("{} has no schema", spec.names.kind))?;
        let schema = serde_json::to_value(schema).context("failed to write a schema")?;
        let api_version = format!("{}/{}", spec.group, version.name);
        Ok((
            version.name.clone(),
            root(closed(schema), &api_version, &spec.names.kind),
        ))
    });
    versions.collect()
}

/// The schema of an object, with what every object has.
fn root(mut schema: Value, api_version: &str, kind: &str) -> Value {
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["properties"]["apiVersion"] = json!({"type": "string", "enum": [api_version]});
    schema["properties"]["kind"] = json!({"type": "string", "enum": [kind]});
    schema["properties"]["metadata"] = json!({"type": "object"});
    let own = schema["required"].as_array().cloned().unwrap_or_default();
    let of_all = ["apiVersion", "kind", "metadata"].map(Value::from);
    schema["required"] = of_all.into_iter().chain(own).collect();
    schema
}

/// The schema without Kubernetes' own keywords, in which an object has no field beside those that are listed.
fn closed(schema: Value) -> Value {
    let Value::Object(schema) = schema else {
        return schema;
    };
    let is_open = schema.contains_key("x-kubernetes-preserve-unknown-fields");
    let mut closed = Map::new();
    for (keyword, value) in schema {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                if !is_open {
                    closed.insert("additionalProperties".to_owned(), false.into());
                }
                properties
                    .into_iter()
                    .map(|(name, schema)| (name, self::closed(schema)))
                    .collect()
            }
            ("items" | "additionalProperties", schema) => self::closed(schema),
            (own, _) if own.starts_with("x-kubernetes-") => continue,
            (_, value) => value,
        };
        closed.insert(keyword, value);
    }
    closed.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize as _;

    use super::*;
    use crate::{files, paths};

    /// The keywords that [`mistakes`] reads. Others bound values, or are for people.
    const READ: [&str; 6] = [
        "type",
        "enum",
        "required",
        "properties",
        "additionalProperties",
        "items",
    ];
    const NOT_READ: [&str; 15] = [
        "$schema",
        "title",
        "description",
        "default",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "uniqueItems",
    ];

    /// What a schema finds in a value, as far as these tests read it.
    fn mistakes(schema: &Value, value: &Value, path: &str) -> Vec<String> {
        let unknown = schema.as_object().into_iter().flat_map(Map::keys);
        let unknown = unknown.filter(|keyword| !READ.iter().chain(&NOT_READ).any(|known| known == keyword));
        let mut mistakes: Vec<_> = unknown
            .map(|keyword| format!("{path}: {keyword} is no keyword"))
            .collect();
        let is_of_type = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64(),
            Some("number") => value.is_number(),
            _ => true,
        };
        let is_listed = schema["enum"].as_array().is_none_or(|list| list.contains(value));
        if !is_of_type || !is_listed {
            mistakes.push(format!("{path}: {value}"));
        }
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if value.get(name).is_none() {
                mistakes.push(format!("{path}: no {name}"));
            }
        }
        for (name, part) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(schema), _) | (None, schema @ Value::Object(_)) => {
                    mistakes.extend(self::mistakes(schema, part, &path));
                }
                (None, Value::Bool(false)) => mistakes.push(format!("{path}: no such field")),
                (None, _) => {}
            }
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            mistakes.extend(self::mistakes(&schema["items"], item, &format!("{path}/{index}")));
        }
        mistakes
    }

    /// The schema in the repository for an object.
    fn schema_of(object: &Value) -> Value {
        let (group, version) = object["apiVersion"]
            .as_str()
            .expect("text")
            .split_once('/')
            .expect("a group");
        let kind = object["kind"].as_str().expect("text").to_lowercase();
        let path = PathBuf::from(FOLDER)
            .join(group)
            .join(format!("{kind}_{version}.json"));
        let files = generated().expect("generated");
        serde_json::from_str(&files[&path]).expect("JSON")
    }

    fn documents(text: &str) -> Vec<Value> {
        let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
        documents.collect::<Result<_, _>>().expect("YAML")
    }

    #[test]
    fn schemas_accept_the_samples() {
        let folder = paths::repository().join("config/samples");
        let mut kinds = BTreeSet::new();
        for name in files::names(&folder)
            .expect("readable")
            .iter()
            .filter(|name| name.ends_with(".yaml"))
        {
            for object in documents(&files::read(&folder.join(name)).expect("readable")) {
                assert_eq!(mistakes(&schema_of(&object), &object, ""), [""; 0], "{name}");
                kinds.insert(object["kind"].to_string());
            }
        }
        assert!(kinds.len() > 7, "{kinds:?}");
    }

    #[test]
    fn a_schema_refuses_what_an_api_server_would_drop_or_refuse() {
        let fault = documents(
            "{apiVersion: cloud.nephele.dev/v1alpha1, kind: Fault, metadata: {name: f}, spec: {match: {zone: a}, \
             effect: {notReady: {}}, budget: {count: one}}, more: 1}",
        );
        let [fault] = &fault[..] else { panic!("{fault:?}") };
        let expected = [
            "/more: no such field",
            "/spec/budget/count: \"one\"",
            "/spec/match/zone: no such field",
        ];
        let mut found = mistakes(&schema_of(fault), fault, "");
        found.sort();
        assert_eq!(found, expected);
    }

    /// All kinds and versions, in less than what a checkout would notice.
    #[test]
    fn there_is_a_schema_for_each_version_and_all_are_small() {
        let files = generated().expect("generated");
        let versions: usize = definitions()
            .map(|definition| definition.spec.versions.len())
            .sum();
        let bytes: usize = files.values().map(String::len).sum();
        assert_eq!(files.len(), versions);
        assert!(bytes < 500_000, "{bytes} bytes: make the schemas at release only");
    }
}
