//! The paths of fields in which two values differ, in the notation of the API server.

use std::collections::BTreeSet;

use serde_json::Value;

/// The fields below `field` that differ, in order: the differing members of objects, the differing items of lists of
/// equal length, and any other value as a whole.
pub(super) fn changed_fields(field: &str, old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    collect(field, old, new, &mut changed);
    changed
}

fn collect(field: &str, old: &Value, new: &Value, changed: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let of = |members: &serde_json::Map<_, _>| members.get(key).cloned().unwrap_or_default();
                collect(&member(field, key), &of(old), &of(new), changed);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                collect(&format!("{field}[{index}]"), old, new, changed);
            }
        }
        _ => changed.push(field.to_owned()),
    }
}

/// Keys that are not field names, such as label keys, are written in brackets.
fn member(field: &str, key: &str) -> String {
    if key.chars().all(|character| character.is_ascii_alphanumeric()) {
        format!("{field}.{key}")
    } else {
        format!("{field}[{key}]")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_named_as_deep_as_it_can_be() {
        let old = json!({"a": {"b": 1, "c": 2}, "list": [1, {"x": 1}], "long": [1], "map": {"k/e.y": "v"}, "gone": {"in": 1}});
        let new = json!({"a": {"b": 1, "c": 3}, "list": [1, {"x": 2}], "long": [1, 2], "map": {"k/e.y": "w"}, "new": {}});
        assert_eq!(
            changed_fields("spec", &old, &new),
            [
                "spec.a.c",
                "spec.gone",
                "spec.list[1].x",
                "spec.long",
                "spec.map[k/e.y]",
                "spec.new"
            ]
        );
        assert_eq!(changed_fields("spec", &old, &old), [""; 0]);
        assert_eq!(changed_fields("spec", &Value::Null, &new), ["spec"]);
    }

    #[test]
    fn an_absent_field_is_as_good_as_null() {
        assert_eq!(changed_fields("spec", &json!({"a": null}), &json!({})), [""; 0]);
    }
}
