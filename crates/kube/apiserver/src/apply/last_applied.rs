//! The annotation of client-side apply. What it has was applied by the same user, who may change to server-side apply
//! without conflicts, and back (`lastappliedmanager.go`, `lastappliedupdater.go`).

use serde_json::{Map, Value};

use super::{compare::compare, field_set::FieldSet, owned::fields_of, schema::Schema};
use crate::{
    depth::{DEPTH_MAX, fits},
    store::ANNOTATIONS_MAX,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of the annotation that `live` still has as they were applied.
pub(super) fn fields(schema: Schema<'_>, live: &Value, api_version: &str) -> FieldSet {
    let annotation = live
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(ANNOTATION));
    let Some(text) = annotation.and_then(Value::as_str) else {
        return FieldSet::default();
    };
    let Ok(last) = serde_json::from_str::<Value>(text) else {
        return FieldSet::default();
    };
    if !fits(&last, DEPTH_MAX) || last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return FieldSet::default();
    }
    let changes = compare(schema, &last, live);
    let fields = fields_of(schema, &last);
    fields
        .difference(&changes.modified)
        .difference(&changes.added)
        .difference(&changes.removed)
}

/// Sets the annotation of an object that has it to what was applied now.
pub(super) fn renew(object: &mut Value, config: &Value) {
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    if annotations
        .get(ANNOTATION)
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        return;
    }
    let mut config = config.clone();
    if let Some(own) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        own.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), config.to_string().into());
    if size(annotations) > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum()
}
