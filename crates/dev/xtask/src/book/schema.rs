//! Checks objects against the schemas of our kinds: types, required and unknown fields, enumerations and bounds.
//! Patterns and CEL rules need an API server; `e2e/tests/input` tests them.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The schemas of our kinds.
pub(super) struct Schemas {
    schemas: BTreeMap<(String, String), Value>,
    groups: Vec<String>,
}

impl Schemas {
    pub(super) fn new(definitions: impl Iterator<Item = CustomResourceDefinition>) -> anyhow::Result<Self> {
        let mut schemas = BTreeMap::new();
        let mut groups = Vec::new();
        for definition in definitions {
            let group = definition.spec.group;
            let kind = definition.spec.names.kind;
            for version in definition.spec.versions {
                let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
                let schema = serde_json::to_value(schema).context("failed to write a schema")?;
                schemas.insert((format!("{group}/{}", version.name), kind.clone()), schema);
            }
            groups.push(group);
        }
        Ok(Self { schemas, groups })
    }

    /// What is wrong with an object. Objects of other kinds and parts of objects are not checked.
    pub(super) fn problems(&self, object: &Value) -> Vec<String> {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let version = text("apiVersion");
        let kind = text("kind");
        let Some(schema) = self.schemas.get(&(version.clone(), kind.clone())) else {
            let group = version.split('/').next().unwrap_or_default();
            // Claims and addresses are Cluster API's own.
            let is_ours = self.groups.iter().any(|ours| ours == group)
                && !matches!(kind.as_str(), "IPAddressClaim" | "IPAddress");
            return if is_ours {
                vec![format!("{version} has no kind {kind}")]
            } else {
                Vec::new()
            };
        };
        let mut problems = Vec::new();
        // The schema names no fields of the type and the metadata.
        let mut parts = object.clone();
        if let Some(fields) = parts.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        check(schema, &parts, "", &mut problems);
        problems
            .into_iter()
            .map(|problem| format!("{kind}{problem}"))
            .collect()
    }
}

fn check(schema: &Value, value: &Value, at: &str, problems: &mut Vec<String>) {
    if let Some(expected) = schema["type"].as_str()
        && !is_of(value, expected)
    {
        problems.push(format!("{at} is not of type {expected}: {value}"));
        return;
    }
    if let Some(known) = schema["enum"].as_array()
        && !known.contains(value)
    {
        problems.push(format!("{at} is {value}, which is not among the known values"));
    }
    check_bounds(schema, value, at, problems);
    match value {
        Value::Object(fields) => {
            let required = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let missing = required.filter(|name| !fields.contains_key(*name));
            problems.extend(missing.map(|name| format!("{at}.{name} is missing")));
            let properties = schema["properties"].as_object();
            let others = &schema["additionalProperties"];
            let is_open = (properties.is_none() && others.is_null())
                || schema["x-kubernetes-preserve-unknown-fields"] == true;
            for (name, value) in fields {
                let field = format!("{at}.{name}");
                match properties.and_then(|properties| properties.get(name)) {
                    Some(schema) => check(schema, value, &field, problems),
                    None if others.is_object() => check(others, value, &field, problems),
                    None if is_open => {}
                    None => problems.push(format!("{field} is not a field")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{at}[{index}]"), problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_of(value: &Value, expected: &str) -> bool {
    match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => true,
    }
}

fn check_bounds(schema: &Value, value: &Value, at: &str, problems: &mut Vec<String>) {
    let size = match value {
        Value::Number(number) => number.as_f64().map(|number| (number, "minimum", "maximum")),
        Value::String(text) => Some((text.chars().count() as f64, "minLength", "maxLength")),
        Value::Array(items) => Some((items.len() as f64, "minItems", "maxItems")),
        Value::Object(fields) => Some((fields.len() as f64, "minProperties", "maxProperties")),
        Value::Null | Value::Bool(_) => None,
    };
    let Some((size, least, most)) = size else { return };
    if schema[least].as_f64().is_some_and(|least| size < least) {
        problems.push(format!("{at} is below its {least}: {value}"));
    }
    if schema[most].as_f64().is_some_and(|most| size > most) {
        problems.push(format!("{at} is above its {most}: {value}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definitions::definitions;

    fn problems(object: &Value) -> Vec<String> {
        Schemas::new(definitions()).expect("schemas").problems(object)
    }

    fn pool(spec: &Value) -> Value {
        json!({"apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool",
               "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn an_object_of_our_kinds_has_the_fields_of_its_schema() {
        assert_eq!(
            problems(&pool(&json!({"addresses": ["10.0.0.0/24"], "prefix": 24}))),
            [""; 0]
        );
        let mut found = problems(&pool(
            &json!({"addresses": "10.0.0.0/24", "prefix": 129, "gate": ""}),
        ));
        found.sort();
        assert_eq!(
            found,
            [
                "InClusterIPPool.spec.addresses is not of type array: \"10.0.0.0/24\"",
                "InClusterIPPool.spec.gate is not a field",
                "InClusterIPPool.spec.prefix is above its maximum: 129",
            ]
        );
        assert_eq!(
            problems(&pool(&json!({"prefix": 24}))),
            ["InClusterIPPool.spec.addresses is missing"]
        );
    }

    #[test]
    fn objects_of_others_and_parts_of_objects_are_not_checked() {
        assert_eq!(problems(&json!({"spec": 1})), [""; 0]);
        assert_eq!(
            problems(&json!({"apiVersion": "v1", "kind": "Pod", "spec": 1})),
            [""; 0]
        );
        assert_eq!(
            problems(&json!({"apiVersion": "cloud.nephele.dev/v1", "kind": "SimulatedCloud"})),
            ["cloud.nephele.dev/v1 has no kind SimulatedCloud"]
        );
    }
}
