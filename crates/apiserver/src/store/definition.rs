//! Kinds that come and go with CustomResourceDefinitions.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{Key, Object};
use super::{Collection, State, prepare};
use crate::registry::{PrinterColumn, ResourceType};

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";

/// The status that the real server's controllers give a definition whose names clash with nobody's.
pub(super) fn complete(value: &mut Value, now: Timestamp) {
    let names = value["spec"]["names"].clone();
    let versions = value["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let stored: Vec<_> =
        versions.iter().filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
               "lastTransitionTime": prepare::time(now)})
    };
    if let Some(object) = value.as_object_mut() {
        object.insert(
            "status".to_owned(),
            json!({
                "acceptedNames": names,
                "storedVersions": stored,
                "conditions": [
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                ],
            }),
        );
    }
}

/// A definition was written: serve what it says.
pub(super) fn served_kinds_changed(state: &mut State, kind: &ResourceType, object: &Object) {
    if kind.group != GROUP || kind.plural != RESOURCE {
        return;
    }
    let Some(defined) = resource_type_of_definition(&object.value()) else { return };
    let resource = defined.group_resource();
    let defined = Arc::new(defined);
    match state.collections.get_mut(&resource) {
        // A definition may redefine what a definition defined, never a built-in kind.
        Some(collection) if collection.kind.custom => collection.kind = defined,
        Some(_) => {}
        None => {
            state.collections.insert(resource, Collection::new(defined));
        }
    }
}

/// A definition is gone, and with it its kind and all objects of it.
pub(super) fn served_kind_removed(state: &mut State, key: &Key, gone: &Object) {
    if key.resource.group != GROUP || key.resource.resource != RESOURCE {
        return;
    }
    let Some(defined) = resource_type_of_definition(&gone.value()) else { return };
    let resource = defined.group_resource();
    let Some(collection) = state.collections.get(&resource).filter(|collection| collection.kind.custom)
    else {
        return;
    };
    let keys: Vec<Key> = collection
        .objects
        .values()
        .map(|object| Key {
            resource: resource.clone(),
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
        })
        .collect();
    for key in keys {
        state.take(&key);
    }
    state.collections.remove(&resource);
}

/// The kind that a CustomResourceDefinition defines, or none when it lacks what a kind needs.
#[must_use]
pub fn resource_type_of_definition(definition: &Value) -> Option<ResourceType> {
    let spec = definition.get("spec")?;
    let names = spec.get("names")?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let texts = |field: &str| {
        let list = names.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut versions: Vec<&Value> =
        spec.get("versions")?.as_array()?.iter().filter(|version| version["served"] == true).collect();
    // The storage version is preferred; the others follow in the definition's order.
    versions.sort_by_key(|version| version["storage"] != true);
    let first = versions.first()?;
    let kind = text(names, "kind")?;
    let columns =
        first.get("additionalPrinterColumns").and_then(Value::as_array).cloned().unwrap_or_default();
    Some(ResourceType {
        group: text(spec, "group")?,
        versions: versions.iter().filter_map(|version| text(version, "name")).collect(),
        list_kind: text(names, "listKind").unwrap_or_else(|| format!("{kind}List")),
        plural: text(names, "plural")?,
        singular: text(names, "singular").unwrap_or_else(|| kind.to_lowercase()),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: spec["scope"] == "Namespaced",
        status: first["subresources"].get("status").is_some(),
        generation: true,
        subresources: &[],
        columns: columns
            .iter()
            .map(|column| PrinterColumn {
                name: text(column, "name").unwrap_or_default(),
                kind: text(column, "type").unwrap_or_default(),
                json_path: text(column, "jsonPath").unwrap_or_default(),
                priority: column["priority"].as_i64().unwrap_or(0),
                description: text(column, "description").unwrap_or_default(),
            })
            .collect(),
        custom: true,
        kind,
    })
}
