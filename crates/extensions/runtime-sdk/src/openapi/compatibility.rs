//! Finds breaking changes between two documents.

use std::collections::BTreeSet;

use serde_json::Value;

/// The breaking changes from an older document to a newer one, as sorted texts. Empty when the newer document is
/// compatible with callers and extensions of the older one.
///
/// The rule is that of the Runtime SDK's proposal: within a version nothing is removed and nothing changes its
/// meaning. Keep the document of your own hooks in your repository, and compare it in a test:
///
/// ```
/// # use std::collections::BTreeMap;
/// # use nephele_runtime_sdk::{catalog::Catalog, openapi::{Info, breaking_changes, document}};
/// # let released = document(&BTreeMap::from([(String::new(), Catalog::cluster_api())]), &Info::default());
/// # let now = released.clone();
/// assert_eq!(breaking_changes(&released, &now), [""; 0]);
/// ```
#[must_use]
pub fn breaking_changes(before: &Value, after: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    for (path, _) in fields(&before["paths"]) {
        if after["paths"].get(path).is_none() {
            changes.push(format!("{path} is gone"));
        }
    }
    for (name, before) in fields(&before["components"]["schemas"]) {
        match after["components"]["schemas"].get(name) {
            None => changes.push(format!("{name} is gone")),
            Some(after) => schema(name, before, after, &mut changes),
        }
    }
    changes
}

fn schema(name: &str, before: &Value, after: &Value, changes: &mut Vec<String>) {
    for key in ["type", "format", "$ref"] {
        if before.get(key) != after.get(key) {
            changes.push(format!("{name} has a different {key}"));
        }
    }
    let had = texts(&before["enum"]);
    let has = texts(&after["enum"]);
    if had.is_empty() && !has.is_empty() {
        changes.push(format!("{name} has an enum now"));
    }
    // A reader of the old values does not know a new one, and a writer may still use a removed one.
    if !had.is_empty() && had != has {
        changes.push(format!("{name} has a different enum"));
    }
    let needed = texts(&before["required"]);
    let needs = texts(&after["required"]);
    for (property, before) in fields(&before["properties"]) {
        match after["properties"].get(property) {
            None => changes.push(format!("{name}.{property} is gone")),
            Some(after) => schema(&format!("{name}.{property}"), before, after, changes),
        }
    }
    for property in needs.difference(&needed) {
        changes.push(format!("{name}.{property} is required now"));
    }
    for property in needed
        .difference(&needs)
        .filter(|property| after["properties"].get(property).is_some())
    {
        changes.push(format!("{name}.{property} is optional now"));
    }
    for key in ["items", "additionalProperties"] {
        if before.get(key).is_some() || after.get(key).is_some() {
            schema(&format!("{name}.{key}"), &before[key], &after[key], changes);
        }
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::{
        catalog::{Catalog, Release},
        openapi::{Info, document},
    };

    fn cluster_api(release: Release) -> Value {
        document(
            &BTreeMap::from([(String::new(), Catalog::cluster_api_at(release))]),
            &Info::default(),
        )
    }

    #[test]
    fn what_comes_to_it_breaks_nothing_and_what_goes_does() {
        let old = cluster_api(Release::new(11));
        let new = cluster_api(Release::LATEST);
        assert_eq!(breaking_changes(&old, &new), [""; 0]);
        let broken = breaking_changes(&new, &old);
        let hook = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/{name} is gone";
        assert!(broken.iter().any(|change| change == hook), "{broken:?}");
    }

    #[test]
    fn every_kind_of_change_is_named() {
        let of = |schema: Value| json!({ "paths": {}, "components": { "schemas": { "A": schema } } });
        let before = of(json!({
            "type": "object", "required": ["a", "b"],
            "properties": {
                "a": { "type": "string" }, "b": { "type": "string", "enum": ["x", "y"] },
                "c": { "type": "array", "items": { "type": "integer", "format": "int32" } },
                "d": { "type": "string" }, "e": { "$ref": "#/B" },
            },
        }));
        let after = of(json!({
            "type": "object", "required": ["a", "c"],
            "properties": {
                "a": { "type": "integer" }, "b": { "type": "string", "enum": ["x"] },
                "c": { "type": "array", "items": { "type": "integer", "format": "int64" } },
                "d": { "type": "string", "enum": ["z"] }, "f": { "type": "string" },
            },
        }));
        assert_eq!(
            breaking_changes(&before, &after),
            [
                "A.a has a different type",
                "A.b has a different enum",
                "A.c.items has a different format",
                "A.d has an enum now",
                "A.e is gone",
                "A.c is required now",
                "A.b is optional now",
            ]
        );
        assert_eq!(
            breaking_changes(&before, &of(json!({})))[0],
            "A has a different type"
        );
        assert_eq!(breaking_changes(&before, &json!({})), ["A is gone"]);
        assert_eq!(breaking_changes(&json!({}), &before), [""; 0]);
    }
}
