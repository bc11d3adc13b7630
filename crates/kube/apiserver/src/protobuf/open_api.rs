//! The fields of built-in kinds as schemas of OpenAPI v3: names, types and how clients merge them. The table has no
//! descriptions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schema::{Field, Kind, Message, Relation, Shape, Strategy, at, index};

/// The schemas of kinds, by their names, and of all that they refer to. A kind is its group, version and name.
pub(crate) fn schemas<'a>(kinds: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted = BTreeSet::new();
    for (group, version, kind) in kinds {
        let versioned = index(&format!("{group}/{version}"), kind);
        let message = versioned.or_else(|| index(group, kind)).map(at);
        let mut schema = message.map_or_else(
            || json!({"type": "object", "properties": {}}),
            |message| of_message(message, &mut wanted),
        );
        if let Some(properties) = schema["properties"].as_object_mut() {
            for field in ["apiVersion", "kind"] {
                properties.insert(field.to_owned(), json!({"type": "string"}));
            }
        }
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "version": version, "kind": kind}]);
        schemas.insert(message.map_or(kind, |message| message.name).to_owned(), schema);
    }
    add_all(wanted, &mut schemas);
    schemas
}

/// The schemas of the metadata of objects.
pub(crate) fn metadata() -> Map<String, Value> {
    let mut schemas = Map::new();
    let field = index("", "ConfigMap").and_then(|message| at(message).named("metadata"));
    add_all(
        field.and_then(Field::message_index).into_iter().collect(),
        &mut schemas,
    );
    schemas
}

/// Adds the schemas of messages, and of all that they refer to.
fn add_all(mut wanted: BTreeSet<usize>, schemas: &mut Map<String, Value>) {
    while let Some(message) = wanted.pop_first() {
        if !schemas.contains_key(at(message).name) {
            let schema = of_message(at(message), &mut wanted);
            schemas.insert(at(message).name.to_owned(), schema);
        }
    }
}

/// The schema of a message. Messages that it refers to are added to `wanted`.
fn of_message(message: &Message, wanted: &mut BTreeSet<usize>) -> Value {
    let mut properties = Map::new();
    add_fields(message, &mut properties, wanted);
    json!({"type": "object", "properties": properties})
}

fn add_fields(message: &Message, properties: &mut Map<String, Value>, wanted: &mut BTreeSet<usize>) {
    for field in &message.fields {
        match (field.name, field.message()) {
            (Some(name), _) => {
                properties.insert(name.to_owned(), of_field(field, wanted));
            }
            (None, Some(inlined)) => add_fields(inlined, properties, wanted),
            (None, None) => {}
        }
    }
}

fn of_field(field: &Field, wanted: &mut BTreeSet<usize>) -> Value {
    let one = match field.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "format": "byte"}),
        Kind::Truth => json!({"type": "boolean"}),
        Kind::Integer => json!({"type": "integer"}),
        Kind::Time | Kind::MicroTime => json!({"type": "string", "format": "date-time"}),
        Kind::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Kind::IntegerOrText => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Kind::Raw => json!({"type": "object"}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Message(index) => {
            wanted.insert(index);
            json!({"$ref": format!("#/components/schemas/{}", at(index).name)})
        }
    };
    let mut schema = match field.shape {
        // A reference has no other fields.
        Shape::One if field.message().is_some() => json!({ "allOf": [one] }),
        Shape::One => one,
        Shape::List => json!({"type": "array", "items": one}),
        Shape::Map => json!({"type": "object", "additionalProperties": one}),
    };
    let strategy = match (field.strategy, field.retain_keys) {
        (Strategy::MergeBy(_) | Strategy::MergeScalars, true) => Some("merge,retainKeys"),
        (Strategy::MergeBy(_) | Strategy::MergeScalars, false) => Some("merge"),
        (Strategy::Replace, _) => Some("replace"),
        (Strategy::Default, true) => Some("retainKeys"),
        (Strategy::Default, false) => None,
    };
    if let Some(strategy) = strategy {
        schema["x-kubernetes-patch-strategy"] = strategy.into();
    }
    if let Strategy::MergeBy(key) = field.strategy {
        schema["x-kubernetes-patch-merge-key"] = key.into();
    }
    if field.shape != Shape::List {
        return schema;
    }
    match field.relation() {
        Relation::By(keys) => {
            schema["x-kubernetes-list-type"] = "map".into();
            let keys: Vec<_> = keys.iter().map(|key| &*key.name).collect();
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
        Relation::Set => schema["x-kubernetes-list-type"] = "set".into(),
        Relation::Atomic => schema["x-kubernetes-list-type"] = "atomic".into(),
        Relation::Granular => {}
    }
    schema
}
