//! The body of a server-side apply: an object in YAML, which JSON is a part of.

use std::fmt;

use nephele_yaml::{Bounds, Dialect};
use serde_json::{Map, Value};

use super::status::ApiError;
use crate::depth::{DEPTH_MAX, fits};

/// The bounds of a document that is not JSON. Objects in YAML are longer than in JSON, and so few clients send them that
/// 1 MiB is enough; 32 times as much memory is what a document of short members needs.
const BOUNDS: Bounds = Bounds {
    text: 1024 * 1024,
    memory: 32 * 1024 * 1024,
    depth: DEPTH_MAX,
    // As in JSON, and as `sigs.k8s.io/yaml` does.
    dialect: Dialect::Go,
};

/// Reads the body. Clients send JSON as a rule, so that is tried first.
///
/// # Errors
/// When the body is not an object, contains too much or nests too deep.
pub(crate) fn read(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let malformed =
        |error: &dyn fmt::Display| ApiError::bad_request(format!("error decoding patch: {error}"));
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|error| malformed(&error))?;
            nephele_yaml::read_one(text, &BOUNDS).map_err(|error| malformed(&error))?
        }
    };
    if !fits(&value, DEPTH_MAX) {
        return Err(malformed(&format!("nests deeper than {DEPTH_MAX} levels")));
    }
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(malformed(&"the body is not an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(body: &str) -> Result<Value, String> {
        read(body.as_bytes())
            .map(Value::Object)
            .map_err(|error| error.message)
    }

    #[test]
    fn json_and_yaml_are_read_alike() {
        let expected = Ok(json!({"a": {"b": [1, "x", null, true, 1.5]}, "1": "yes"}));
        assert_eq!(
            parsed(r#"{"a": {"b": [1, "x", null, true, 1.5]}, "1": "yes"}"#),
            expected
        );
        assert_eq!(
            parsed("a:\n  b:\n  - 1\n  - x\n  -\n  - true\n  - 1.5\n1: 'yes'\n"),
            expected
        );
        assert_eq!(parsed("{a: {b: [1, x, null, true, 1.5]}, 1: 'yes'}"), expected);
        assert_eq!(
            parsed("a: &x {k: v}\nb: *x\n"),
            Ok(json!({"a": {"k": "v"}, "b": {"k": "v"}}))
        );
        assert_eq!(
            parsed("a: &x {k: v}\nb:\n  <<: *x\n  l: w\n").unwrap()["b"],
            json!({"k": "v", "l": "w"})
        );
        assert_eq!(
            parsed("a: yes\nb: 'yes'\na: no\n"),
            Ok(json!({"a": false, "b": "yes"}))
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in [
            "",
            "null",
            "[]",
            "text",
            "a: 1\n---\nb: 1\n",
            "a: .nan",
            "a: [",
            "? [a]\n: b",
            "a: *b",
        ] {
            assert!(
                parsed(body).unwrap_err().starts_with("error decoding patch: "),
                "{body}"
            );
        }
    }

    /// Each alias stands for what the one before it stands for, many times.
    #[test]
    fn aliases_cannot_multiply_a_document() {
        let mut bomb = "a: &a0 [xxxxxxxxxx]\n".to_owned();
        for level in 0..30 {
            let alias = format!("*a{level},").repeat(10);
            bomb.push_str(&format!("b{level}: &a{} [{alias}]\n", level + 1));
        }
        assert!(parsed(&bomb).is_err());
        let wide = format!(
            "a: &a [{}]\nb: [{}]\n",
            "x,".repeat(100_000),
            "*a,".repeat(100_000)
        );
        assert!(parsed(&wide).is_err());
    }

    #[test]
    fn nesting_is_bounded_in_either_format() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{a: ", "}")] {
            for levels in [101, 1000, 100_000] {
                let body = format!("{{\"x\": {}1{}}}", open.repeat(levels), close.repeat(levels));
                assert!(parsed(&body).is_err(), "{open} {levels}");
            }
        }
        assert!(parsed(&format!("x: {}", "- ".repeat(100_000))).is_err());
        assert!(parsed(&format!("x: {}1{}", "[".repeat(90), "]".repeat(90))).is_ok());
    }

    #[test]
    fn long_documents_are_json() {
        let text = "x".repeat(BOUNDS.text);
        assert!(parsed(&format!("{{\"a\": \"{text}\"}}")).is_ok());
        assert!(parsed(&format!("a: {text}")).is_err());
    }
}
