//! Patches between two objects.

use serde_json::{Map, Value, json};

use crate::{
    hooks::{Patch, PatchType},
    wire::Bytes,
};

/// The patch of this type from `before` to `after`. If nothing changes, it is `[]` or `{}`.
///
/// The same two objects always give the same patch. An unknown type gives a JSON Patch.
#[must_use]
pub fn between(before: &Value, after: &Value, kind: &PatchType) -> Bytes {
    let patch = match kind {
        PatchType::JsonMergePatch => merge_patch(before, after).to_string(),
        PatchType::JsonPatch | PatchType::Other(_) => json_patch_between(before, after),
    };
    Bytes(patch.into_bytes())
}

/// A JSON Patch (RFC 6902). The library's diff does not distinguish a `null` field from an absent one. Where the
/// objects differ in that, the patch replaces the members of the outermost object as a whole.
fn json_patch_between(before: &Value, after: &Value) -> String {
    let patch = json_patch::diff(before, after);
    let mut patched = before.clone();
    // The patch is applied to a copy, so nothing has to be undone if it does not apply.
    let exact = json_patch::patch_unsafe(&mut patched, &patch).is_ok() && patched == *after;
    let (false, Value::Object(before), Value::Object(after)) = (exact, before, after) else {
        return patch.to_string();
    };
    let path = |key: &String| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| json!({ "op": "remove", "path": path(key) }));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| json!({ "op": "add", "path": path(key), "value": value }));
    Value::from_iter(gone.chain(changed)).to_string()
}

impl Patch {
    /// The JSON Patch from `before` to `after`. It is absent when they are equal: to Cluster API an absent patch means
    /// no change, and it refuses some forms of an empty patch.
    #[must_use]
    pub fn between(before: &Value, after: &Value) -> Self {
        if before == after {
            return Self::default();
        }
        Self {
            patch_type: Some(PatchType::JsonPatch),
            patch: between(before, after, &PatchType::JsonPatch),
        }
    }
}

/// The JSON Merge Patch (RFC 7396) from `before` to `after`. Such a patch cannot set anything to `null`.
#[must_use]
pub fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            Some(same) if same == value => {}
            Some(other) => {
                patch.insert(key.clone(), merge_patch(other, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_changes_nothing_is_empty_and_a_patch_in_place_is_left_out() {
        let object = json!({ "spec": { "a": 1 } });
        assert_eq!(
            between(&object, &object, &PatchType::JsonPatch),
            Bytes(b"[]".to_vec())
        );
        assert_eq!(
            between(&object, &object, &PatchType::JsonMergePatch),
            Bytes(b"{}".to_vec())
        );
        assert!(Patch::between(&object, &object).is_absent());
        let patch = Patch::between(&object, &json!({ "spec": { "a": 2 } }));
        assert_eq!(
            serde_json::to_value(&patch).unwrap(),
            json!({ "patchType": "JSONPatch", "patch": "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL2EiLCJ2YWx1ZSI6Mn1d" })
        );
    }

    fn object() -> impl Strategy<Value = Value> {
        object_of(prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c~/]{0,3}".prop_map(Value::from)
        ])
    }

    fn object_of(leaf: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c~/]{1,2}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-c]", value, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    fn object_with_nulls() -> impl Strategy<Value = Value> {
        object_of(prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from)
        ])
    }

    proptest! {
        #[test]
        fn a_json_patch_tells_null_from_absent(before in object_with_nulls(), after in object_with_nulls()) {
            let mut patched = before.clone();
            let patch = between(&before, &after, &PatchType::JsonPatch);
            json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch.0).unwrap()).unwrap();
            prop_assert_eq!(patched, after);
        }

        #[test]
        fn a_patch_makes_the_one_of_the_other(before in object(), after in object()) {
            let mut patched = before.clone();
            let patch = between(&before, &after, &PatchType::JsonPatch);
            json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch.0).unwrap()).unwrap();
            prop_assert_eq!(&patched, &after);
            let mut merged = before.clone();
            let patch = between(&before, &after, &PatchType::JsonMergePatch);
            json_patch::merge(&mut merged, &serde_json::from_slice(&patch.0).unwrap());
            prop_assert_eq!(&merged, &after);
            prop_assert_eq!(between(&before, &after, &PatchType::JsonPatch), between(&before, &after, &PatchType::JsonPatch));
        }
    }
}
