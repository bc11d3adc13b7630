//! Texts that change a request if they become a part of its path or query, and objects with them in each of their texts.
//!
//! ```text
//!  a valid object ──each text in turn──▶ the object with a hostile text there ──▶ what is tested
//! ```

use serde_json::Value;

/// The beginning of hostile texts whose rest the client library drops: no request may be about an object of this name.
pub const CUT: &str = "hostile-cut";

/// Texts that no name may be. A request that has one of them as a segment, or as the beginning of its query, is not the
/// request that was meant.
#[must_use]
pub fn hostile_texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "a/b",
        "x/y?a=",
        "any-secret?a=",
        "x/status",
        "x?fieldManager=y&dryRun=All",
        "..",
        "../../secrets/x",
        "%2f",
        "%2e%2e",
        "",
        " ",
        "\0",
        "a\r\nb: c",
        "#",
        "ä",
        "\u{202e}evil",
        "$(item)",
        "evil.example.com",
        "evil.example.com/v1",
        "999999999999999999999999",
    ]
    .map(str::to_owned)
    .into();
    texts.push(format!("{CUT}#"));
    texts.push(format!("{CUT}?limit=1#"));
    texts.push("a".repeat(64 * 1024));
    texts
}

/// The places of all texts in a value, as JSON pointers, in the order of the value.
#[must_use]
pub fn texts_of(value: &Value) -> Vec<String> {
    fn visit(value: &Value, place: &str, found: &mut Vec<String>) {
        match value {
            Value::String(_) => found.push(place.to_owned()),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    visit(item, &format!("{place}/{index}"), found);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    visit(field, &format!("{place}/{name}"), found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    visit(value, "", &mut found);
    found
}

/// The value with another text in this place.
#[must_use]
pub fn with_text(value: &Value, place: &str, text: &str) -> Value {
    let mut other = value.clone();
    *other.pointer_mut(place).expect("the place is one of the value") = text.into();
    other
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_text_is_found_and_replaced() {
        let value = json!({ "a/b": ["x", { "c": "y" }], "n": 1 });
        assert_eq!(texts_of(&value), ["/a~1b/0", "/a~1b/1/c"]);
        assert_eq!(
            with_text(&value, "/a~1b/1/c", ".."),
            json!({ "a/b": ["x", { "c": ".." }], "n": 1 })
        );
    }
}
