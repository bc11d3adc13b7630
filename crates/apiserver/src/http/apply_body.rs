//! The body of a server-side apply: an object in YAML, which JSON is a part of.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::status::ApiError;
use crate::depth::{DEPTH_MAX, fits};

/// How much a document may contain: a unit for each value and each byte of text. A document without aliases has at
/// most as much as it has bytes, and an alias counts as what it stands for. Twice the largest object, because objects
/// in YAML are longer.
const CONTENT_MAX: usize = 3 * 1024 * 1024;

/// The longest document that is not JSON. The values of a document take up to 32 times as much memory, and while it is
/// read, the parser needs some, too.
const YAML_MAX: usize = 1024 * 1024;

/// Reads the body. Clients send JSON as a rule, so that is tried first.
///
/// # Errors
/// When the body is not an object, contains too much or nests too deep.
pub(crate) fn read(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let malformed =
        |error: &dyn fmt::Display| ApiError::bad_request(format!("error decoding patch: {error}"));
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) if body.len() > YAML_MAX => {
            return Err(malformed(&format!("YAML of more than {YAML_MAX} bytes")));
        }
        Err(_) => {
            let mut left = CONTENT_MAX;
            let read = |document: serde_saphyr::Deserializer<'_, '_>| {
                Content { left: &mut left }.deserialize(document)
            };
            serde_saphyr::with_deserializer_from_slice_with_options(body, options(), read)
                .map_err(|error| malformed(&error))?
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

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
        // As in JSON, and as `sigs.k8s.io/yaml` does.
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    }
}

/// Reads a value of YAML and counts what it contains. The parser bounds the nesting.
struct Content<'a> {
    left: &'a mut usize,
}

impl Content<'_> {
    fn count<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        *self.left = self
            .left
            .checked_sub(text.len() + 1)
            .ok_or_else(|| E::custom(format!("contains more than {CONTENT_MAX} bytes")))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Content<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E: de::Error>(mut self, value: bool) -> Result<Value, E> {
        self.count("")?;
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(mut self, value: i64) -> Result<Value, E> {
        self.count("")?;
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(mut self, value: u64) -> Result<Value, E> {
        self.count("")?;
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(mut self, value: f64) -> Result<Value, E> {
        self.count("")?;
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: de::Error>(mut self, value: &str) -> Result<Value, E> {
        self.count(value)?;
        Ok(value.into())
    }

    fn visit_unit<E: de::Error>(mut self) -> Result<Value, E> {
        self.count("")?;
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.count("")?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Content { left: self.left })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.count("")?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Content { left: self.left })? {
            let key = match key {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(de::Error::custom("a key is not a scalar"));
                }
            };
            map.insert(key, entries.next_value_seed(Content { left: self.left })?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(body: &str) -> Result<Value, String> {
        read(body.as_bytes()).map(Value::Object).map_err(|error| error.message)
    }

    #[test]
    fn json_and_yaml_are_read_alike() {
        let expected = Ok(json!({"a": {"b": [1, "x", null, true, 1.5]}, "1": "yes"}));
        assert_eq!(parsed(r#"{"a": {"b": [1, "x", null, true, 1.5]}, "1": "yes"}"#), expected);
        assert_eq!(parsed("a:\n  b:\n  - 1\n  - x\n  -\n  - true\n  - 1.5\n1: 'yes'\n"), expected);
        assert_eq!(parsed("{a: {b: [1, x, null, true, 1.5]}, 1: 'yes'}"), expected);
        assert_eq!(parsed("a: &x {k: v}\nb: *x\n"), Ok(json!({"a": {"k": "v"}, "b": {"k": "v"}})));
        assert_eq!(parsed("a: &x {k: v}\nb:\n  <<: *x\n  l: w\n").unwrap()["b"], json!({"k": "v", "l": "w"}));
        assert_eq!(parsed("a: yes\nb: 'yes'\na: no\n"), Ok(json!({"a": false, "b": "yes"})));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "null", "[]", "text", "a: 1\n---\nb: 1\n", "a: .nan", "a: [", "? [a]\n: b", "a: *b"]
        {
            assert!(parsed(body).unwrap_err().starts_with("error decoding patch: "), "{body}");
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
        let wide = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(100_000), "*a,".repeat(100_000));
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
        let text = "x".repeat(YAML_MAX);
        assert!(parsed(&format!("{{\"a\": \"{text}\"}}")).is_ok());
        assert!(parsed(&format!("a: {text}")).is_err());
    }
}
