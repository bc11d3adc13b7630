//! The patch formats of the Kubernetes API, as pure functions of JSON trees.

mod strategic;

use serde_json::{Map, Value};
use thiserror::Error;

pub(crate) use strategic::strategic_merge;

/// Why a patch cannot be applied.
#[derive(Debug, Error)]
pub(crate) enum PatchError {
    /// The patch itself is not in its format.
    #[error("failed to read the patch: {0}")]
    Malformed(String),
    /// The patch does not fit the object.
    #[error("failed to apply the patch")]
    DoesNotApply(#[source] json_patch::PatchError),
    /// A strategic merge directive does not fit its place.
    #[error("failed to apply the patch: {0}")]
    Directive(String),
    /// Strategic merge patches are for built-in kinds; a server answers 415.
    #[error("strategic merge patch is not supported for {0}")]
    Unsupported(String),
}

impl PatchError {
    /// Whether the patch is at fault rather than its fit.
    pub(crate) fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::Directive(_))
    }
}

/// JSON merge patch (RFC 7396).
pub(crate) fn json_merge(current: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        current.clone_from(patch);
        return;
    };
    if !current.is_object() {
        *current = Value::Object(Map::new());
    }
    let object = current.as_object_mut().expect("made an object above");
    for (name, change) in changes {
        if change.is_null() {
            object.remove(name);
        } else {
            json_merge(object.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Operations of one JSON patch, and bytes that its `copy` operations may copy in all: the real server's bounds
/// (`apiserver/pkg/endpoints/handlers/patch.go`). Without the second one each copy could double the object.
const OPERATIONS_MAX: usize = 10_000;
const COPIED_MAX: usize = 3 * 1024 * 1024;

/// JSON patch (RFC 6902): all operations or none.
pub(crate) fn json_patch(current: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch: json_patch::Patch =
        serde_json::from_slice(patch).map_err(|error| PatchError::Malformed(error.to_string()))?;
    if patch.len() > OPERATIONS_MAX {
        return Err(PatchError::Malformed(format!("more than {OPERATIONS_MAX} operations")));
    }
    let mut patched = current.clone();
    let mut copied = 0;
    // Between two copies the operations are applied together; each such part is undone as a whole if it fails, and
    // so is `patched` as a whole.
    for part in patch.split_inclusive(|operation| matches!(operation, json_patch::PatchOperation::Copy(_))) {
        if let Some((json_patch::PatchOperation::Copy(copy), before)) = part.split_last() {
            json_patch::patch(&mut patched, before).map_err(PatchError::DoesNotApply)?;
            copied += copy.from.resolve(&patched).map_or(0, |value| value.to_string().len());
            if copied > COPIED_MAX {
                return Err(PatchError::Malformed(format!("more than {COPIED_MAX} bytes to copy")));
            }
            json_patch::patch(&mut patched, &part[before.len()..]).map_err(PatchError::DoesNotApply)?;
        } else {
            json_patch::patch(&mut patched, part).map_err(PatchError::DoesNotApply)?;
        }
    }
    Ok(patched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_follows_the_examples_of_its_specification() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut current, patch, expected) in cases {
            json_merge(&mut current, &patch);
            assert_eq!(current, expected, "{patch}");
        }
    }

    #[test]
    fn json_patch_applies_whole_or_not_at_all() {
        let current = json!({"a": 1});
        let patched = json_patch(&current, br#"[{"op": "add", "path": "/b", "value": 2}]"#).unwrap();
        assert_eq!(patched, json!({"a": 1, "b": 2}));
        assert!(!json_patch(&current, br#"[{"op": "remove", "path": "/c"}]"#).unwrap_err().is_malformed());
        assert!(json_patch(&current, b"{").unwrap_err().is_malformed());
    }
}
