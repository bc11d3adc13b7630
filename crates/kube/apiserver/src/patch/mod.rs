//! The patch formats of the Kubernetes API, as pure functions of JSON trees.

mod json;
mod strategic;

pub(crate) use json::json_patch;
/// JSON merge patch (RFC 7396). It recurses as deep as the patch was parsed. Its result is at most as deep as the
/// deeper one of object and patch.
pub(crate) use json_patch::merge as json_merge;
pub(crate) use strategic::strategic_merge;
use thiserror::Error;

/// Why a patch cannot be applied.
#[derive(Debug, Error)]
pub(crate) enum PatchError {
    /// The patch is not in its format.
    #[error("failed to read the patch: {0}")]
    Malformed(String),
    /// The patch does not fit the object.
    #[error("failed to apply the patch")]
    DoesNotApply(#[source] json_patch::PatchError),
    /// An operation of a JSON patch would make the object too large or take too long.
    #[error("failed to apply the patch: operation {operation} {reason}")]
    Beyond { operation: usize, reason: String },
    /// A JSON patch has more operations than a real server accepts.
    #[error("The allowed maximum operations in a JSON patch is {maximum}, got {given}")]
    TooManyOperations { maximum: usize, given: usize },
    /// A strategic merge directive is not allowed in its place.
    #[error("failed to apply the patch: {0}")]
    Directive(String),
    /// A strategic merge patch of a kind that is not built in. The server answers 415.
    #[error("strategic merge patch is not supported for {0}")]
    Unsupported(String),
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
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ];
        for (mut current, patch, expected) in cases {
            json_merge(&mut current, &patch);
            assert_eq!(current, expected, "{patch}");
        }
    }
}
