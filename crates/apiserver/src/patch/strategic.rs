//! Strategic merge patch: merge patch that knows which lists are sets (`apimachinery/pkg/util/strategicpatch`).
//!
//! Which lists merge, and by which key, stands in the `patchStrategy` and `patchMergeKey` tags of the types in
//! `k8s.io/api`. In the built-in kinds a field's name, and for a few its parent's, tells them apart.

use serde_json::{Map, Value};

use super::PatchError;

/// How a list is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListStrategy {
    /// Replaced as a whole.
    Atomic,
    /// Merged element by element; the field that names an element.
    ByKey(&'static str),
    /// A set of strings.
    Set,
}

fn list_strategy(kind: &str, parent: &str, field: &str) -> ListStrategy {
    use ListStrategy::{Atomic, ByKey, Set};
    match (kind, parent, field) {
        (_, "metadata", "finalizers")
        | ("Namespace", "spec", "finalizers")
        | ("Node", "spec", "podCIDRs") => Set,
        (_, "metadata", "ownerReferences") => ByKey("uid"),
        (_, "status", "conditions") => ByKey("type"),
        ("Node", "status", "addresses") => ByKey("type"),
        ("Service", "spec", "ports") => ByKey("port"),
        ("ServiceAccount", _, "secrets" | "imagePullSecrets") => ByKey("name"),
        (
            _,
            _,
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "imagePullSecrets"
            | "env"
            | "resourceClaims"
            | "webhooks",
        ) => ByKey("name"),
        (_, "status", "podIPs" | "hostIPs") | (_, _, "hostAliases") => ByKey("ip"),
        (_, _, "topologySpreadConstraints") => ByKey("topologyKey"),
        (_, _, "volumeMounts") => ByKey("mountPath"),
        (_, _, "volumeDevices") => ByKey("devicePath"),
        (_, "containers" | "initContainers" | "ephemeralContainers", "ports") => ByKey("containerPort"),
        _ => Atomic,
    }
}

/// Applies `patch` to an object of a built-in kind.
///
/// # Errors
/// When the patch is no object or a directive in it is not one.
pub(crate) fn strategic_merge(
    current: &Value,
    patch: &Value,
    _group: &str,
    kind: &str,
) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch is an object".to_owned()));
    };
    let current = current.as_object().cloned().unwrap_or_default();
    Ok(merge_map(kind, "", current, patch)?.map_or_else(|| Value::Object(Map::new()), Value::Object))
}

/// Merges a map; none when the patch says to delete it.
fn merge_map(
    kind: &str,
    name: &str,
    mut current: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, PatchError> {
    match directive(patch)? {
        Some("delete") => return Ok(None),
        Some("replace") => return Ok(Some(plain(patch))),
        _ => {}
    }
    if let Some(retain) = patch.get("$retainKeys") {
        let keys = strings(retain, "$retainKeys")?;
        current.retain(|key, _| keys.contains(&key.as_str()));
    }
    for (field, change) in patch {
        if let Some(list) = field.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = strings(change, field)?;
            if let Some(Value::Array(items)) = current.get_mut(list) {
                items.retain(|item| !item.as_str().is_some_and(|text| gone.contains(&text)));
            }
            continue;
        }
        if field.starts_with('$') {
            continue;
        }
        match change {
            Value::Null => {
                current.remove(field);
            }
            Value::Object(change) => {
                let before = match current.remove(field) {
                    Some(Value::Object(before)) => before,
                    _ => Map::new(),
                };
                if let Some(merged) = merge_map(kind, field, before, change)? {
                    current.insert(field.clone(), Value::Object(merged));
                }
            }
            Value::Array(change) => {
                let before = match current.remove(field) {
                    Some(Value::Array(before)) => before,
                    _ => Vec::new(),
                };
                let order = patch.get(&format!("$setElementOrder/{field}"));
                let merged = merge_list(kind, name, field, before, change, order)?;
                current.insert(field.clone(), Value::Array(merged));
            }
            other => {
                current.insert(field.clone(), other.clone());
            }
        }
    }
    // An order may be given for a list that is not changed otherwise.
    for (field, order) in patch.iter().filter_map(|(f, o)| Some((f.strip_prefix("$setElementOrder/")?, o))) {
        if !patch.contains_key(field)
            && let Some(Value::Array(items)) = current.get_mut(field)
        {
            sort_by_order(items, list_strategy(kind, name, field), order);
        }
    }
    Ok(Some(current))
}

fn merge_list(
    kind: &str,
    parent: &str,
    field: &str,
    mut current: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
) -> Result<Vec<Value>, PatchError> {
    let strategy = list_strategy(kind, parent, field);
    match strategy {
        ListStrategy::Atomic => return Ok(patch.iter().map(plain_value).collect()),
        ListStrategy::Set => {
            for item in patch {
                if !current.contains(item) {
                    current.push(item.clone());
                }
            }
        }
        ListStrategy::ByKey(key) => {
            let replaces = |item: &Value| item.get("$patch").and_then(Value::as_str) == Some("replace");
            if patch.iter().any(|item| replaces(item) && item.get(key).is_none()) {
                // The directive stands alone in the list and means all of it.
                return Ok(patch.iter().filter(|item| !replaces(item)).map(plain_value).collect());
            }
            for item in patch {
                let Value::Object(change) = item else {
                    return Err(PatchError::Malformed(format!("the elements of {field} are objects")));
                };
                let Some(name) = change.get(key) else {
                    return Err(PatchError::Malformed(format!("an element of {field} has no {key}")));
                };
                let place = current.iter().position(|other| other.get(key) == Some(name));
                let before = match place {
                    Some(index) => current[index].as_object().cloned().unwrap_or_default(),
                    None => Map::new(),
                };
                match (merge_map(kind, field, before, change)?, place) {
                    (Some(merged), Some(index)) => current[index] = Value::Object(merged),
                    (Some(merged), None) => current.push(Value::Object(merged)),
                    (None, Some(index)) => {
                        current.remove(index);
                    }
                    (None, None) => {}
                }
            }
        }
    }
    if let Some(order) = order {
        sort_by_order(&mut current, strategy, order);
    }
    Ok(current)
}

/// Puts the elements that the order names in that order; the others keep their places after them.
fn sort_by_order(items: &mut [Value], strategy: ListStrategy, order: &Value) {
    let Some(order) = order.as_array() else { return };
    let place = |item: &Value| {
        let found = order.iter().position(|wanted| match strategy {
            ListStrategy::ByKey(key) => wanted.get(key).is_some() && wanted.get(key) == item.get(key),
            ListStrategy::Set | ListStrategy::Atomic => wanted == item,
        });
        found.unwrap_or(usize::MAX)
    };
    items.sort_by_key(place);
}

fn directive(patch: &Map<String, Value>) -> Result<Option<&str>, PatchError> {
    match patch.get("$patch") {
        None => Ok(None),
        Some(Value::String(word)) if matches!(word.as_str(), "delete" | "replace" | "merge") => {
            Ok(Some(word))
        }
        Some(other) => Err(PatchError::Directive(format!("unknown patch type {other}"))),
    }
}

/// A map without its directives.
fn plain(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
        .map(|(name, value)| (name.clone(), plain_value(value)))
        .collect()
}

fn plain_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(plain(map)),
        Value::Array(list) => Value::Array(list.iter().map(plain_value).collect()),
        other => other.clone(),
    }
}

fn strings<'a>(value: &'a Value, field: &str) -> Result<Vec<&'a str>, PatchError> {
    let list = value.as_array().map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    list.flatten().ok_or_else(|| PatchError::Directive(format!("{field} is a list of strings")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(kind: &str, current: Value, patch: Value, expected: Value) {
        assert_eq!(strategic_merge(&current, &patch, "", kind).unwrap(), expected, "{patch}");
    }

    #[test]
    fn node_conditions_merge_by_type_and_taints_are_replaced() {
        check(
            "Node",
            json!({"spec": {"taints": [{"key": "a"}, {"key": "b"}]},
                   "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]},
                   "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]}}),
        );
    }

    #[test]
    fn containers_and_their_environment_merge_by_name() {
        check(
            "Pod",
            json!({"spec": {"containers": [{"name": "a", "image": "x", "env": [{"name": "K", "value": "1"}],
                                            "ports": [{"containerPort": 80}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "env": [{"name": "L", "value": "2"}],
                                            "ports": [{"containerPort": 80, "name": "web"}]}, {"name": "b"}]}}),
            json!({"spec": {"containers": [
                {"name": "a", "image": "x", "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "2"}],
                 "ports": [{"containerPort": 80, "name": "web"}]}, {"name": "b"}]}}),
        );
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let pod = || json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}]}});
        let patch = |volumes: Value| json!({"spec": {"volumes": volumes}});
        check("Pod", pod(), patch(json!([{"$patch": "delete", "name": "a"}])), patch(json!([{"name": "b"}])));
        check(
            "Pod",
            pod(),
            patch(json!([{"$patch": "replace"}, {"name": "c"}])),
            patch(json!([{"name": "c"}])),
        );
        check(
            "Pod",
            pod(),
            patch(json!([{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}])),
            patch(json!([{"name": "a", "hostPath": {"path": "/"}}, {"name": "b"}])),
        );
        check(
            "Pod",
            pod(),
            json!({"spec": {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}]}}),
            patch(json!([{"name": "b"}, {"name": "a", "emptyDir": {}}])),
        );
        check(
            "Pod",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
        );
    }

    #[test]
    fn broken_patches_are_errors() {
        for patch in [json!([]), json!({"$patch": "explode"}), json!({"spec": {"volumes": [{"x": 1}]}})] {
            assert!(strategic_merge(&json!({}), &patch, "", "Pod").is_err(), "{patch}");
        }
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop_oneof![
                Just("metadata"),
                Just("spec"),
                Just("containers"),
                Just("name"),
                Just("finalizers"),
                Just("$patch"),
                Just("$retainKeys"),
                Just("$setElementOrder/containers"),
                Just("$deleteFromPrimitiveList/finalizers"),
                Just("x")
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((name, inner), 0..4).prop_map(|fields| Value::Object(
                    fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
                ))
            ]
        })
    }

    proptest! {
        #[test]
        fn no_patch_panics(current in tree(), patch in tree()) {
            let _ = strategic_merge(&current, &patch, "", "Pod");
        }
    }
}
