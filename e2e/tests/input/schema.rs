//! Walks the schemas of all kinds.

use anyhow::Context;
use serde_json::Value;

/// A kind in one of its versions.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) name: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// `openAPIV3Schema`.
    root: Value,
}

impl Kind {
    pub(crate) fn spec(&self) -> &Value {
        &self.root["properties"]["spec"]
    }

    pub(crate) fn status(&self) -> Option<&Value> {
        self.root["properties"].get("status")
    }

    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// All of our kinds in every served version.
pub(crate) fn kinds() -> anyhow::Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for definition in nephele_api::crds() {
        let namespaced = definition.spec.scope == "Namespaced";
        for version in definition
            .spec
            .versions
            .into_iter()
            .filter(|version| version.served)
        {
            let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
            kinds.push(Kind {
                group: definition.spec.group.clone(),
                version: version.name,
                name: definition.spec.names.kind.clone(),
                plural: definition.spec.names.plural.clone(),
                namespaced,
                root: serde_json::to_value(schema.context("a version has a schema")?)?,
            });
        }
    }
    Ok(kinds)
}

/// A step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A field of an object.
    Field(String),
    /// An item of a list.
    Item,
    /// An entry of a map.
    Entry,
}

/// A place in a schema.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// The path from the spec or the status.
    pub(crate) path: Vec<Step>,
    pub(crate) schema: &'a Value,
}

/// The schema and everything in it, outer nodes first.
pub(crate) fn nodes(schema: &Value) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    walk(schema, &[], &mut found);
    found
}

fn walk<'a>(schema: &'a Value, path: &[Step], found: &mut Vec<Node<'a>>) {
    found.push(Node {
        path: path.to_vec(),
        schema,
    });
    let mut below = |step, schema| walk(schema, &[path, &[step]].concat(), found);
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        below(Step::Field(name.clone()), schema);
    }
    if let Some(schema) = schema.get("items") {
        below(Step::Item, schema);
    }
    if let Some(schema) = schema
        .get("additionalProperties")
        .filter(|schema| schema.is_object())
    {
        below(Step::Entry, schema);
    }
}

/// The path as the API server writes it: `spec.list[0].field`. Entries of maps have the key `key`.
pub(crate) fn text(top: &str, path: &[Step]) -> String {
    path.iter().fold(top.to_owned(), |text, step| match step {
        Step::Field(name) => format!("{text}.{name}"),
        Step::Item => format!("{text}[0]"),
        Step::Entry => format!("{text}.key"),
    })
}
