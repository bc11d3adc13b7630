//! Rendered objects, by name and by JSON pointer.

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

/// The objects of YAML documents; empty documents count as none.
pub(super) fn read(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let objects = documents
        .collect::<Result<Vec<_>, _>>()
        .context("failed to read the objects")?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// `Kind/name`, the name of an object in messages and cases.
pub(super) fn id(object: &Value) -> String {
    format!("{}/{}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// The string at a JSON pointer; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items at a JSON pointer; empty where there is no list.
pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The strings at a JSON pointer.
pub(super) fn texts(object: &Value, pointer: &str) -> Vec<String> {
    items(object, pointer)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

pub(super) fn find<'a>(objects: &'a [Value], wanted: &str) -> anyhow::Result<&'a Value> {
    objects
        .iter()
        .find(|object| id(object) == wanted)
        .with_context(|| format!("no {wanted}"))
}

pub(super) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The manager's only Deployment.
pub(super) fn deployment(objects: &[Value]) -> anyhow::Result<&Value> {
    of_kind(objects, "Deployment")
        .find(|object| !is_extension(object))
        .context("no Deployment")
}

/// The runtime extension's Deployment, if it is installed.
pub(super) fn extension(objects: &[Value]) -> Option<&Value> {
    of_kind(objects, "Deployment").find(|object| is_extension(object))
}

fn is_extension(deployment: &Value) -> bool {
    text(deployment, "/metadata/labels/app.kubernetes.io~1component") == "runtime-extension"
}

/// Whether the selector's labels are all among these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    selector.as_object().is_some_and(|selector| {
        !selector.is_empty()
            && selector
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
    })
}
