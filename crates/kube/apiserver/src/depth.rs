//! How deep a client's value may nest.
//!
//! A `serde_json::Value` is cloned, compared, printed and dropped by recursion, so a value that nests without bound
//! ends the process. Requests are parsed to 127 levels. The results of patches are held to [`DEPTH_MAX`] *before*
//! they are built, so that no deeper value ever exists.

use serde_json::Value;

/// Levels of an object, its leaves included. Less than the 127 that are parsed, so that a stored object can be
/// parsed again, also inside a list or a table.
pub(crate) const DEPTH_MAX: usize = 100;

/// Whether a value has at most `levels` levels; a scalar has one. Looks no deeper than that.
pub(crate) fn fits(value: &Value, levels: usize) -> bool {
    levels > 0
        && match value {
            Value::Object(map) => map.values().all(|value| fits(value, levels - 1)),
            Value::Array(list) => list.iter().all(|value| fits(value, levels - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaf_counts_as_a_level() {
        for (value, levels) in [
            (json!(1), 1),
            (json!({}), 1),
            (json!([1]), 2),
            (json!({"a": [{}], "b": 1}), 3),
        ] {
            assert!(fits(&value, levels), "{value}");
            assert!(!fits(&value, levels - 1), "{value}");
        }
    }
}
