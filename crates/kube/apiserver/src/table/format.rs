//! Formats values of a few recurring shapes for a cell.

use serde_json::Value;

/// A list's elements. None if it is not a list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text, or `fallback` if it is empty or missing.
pub(super) fn text_or(value: &Value, fallback: &str) -> Value {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or(fallback)
        .into()
}

/// The text, or an empty one if it is missing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number, or zero if it is missing.
pub(super) fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The number of entries of a map or elements of a list.
pub(super) fn length(value: &Value) -> usize {
    value.as_object().map_or(items(value).len(), serde_json::Map::len)
}

/// The condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"])
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Whether the status of a condition is True.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Texts joined by commas, or `fallback` if there are none.
pub(super) fn joined<'a>(texts: impl Iterator<Item = &'a str>, fallback: &str) -> Value {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() {
        fallback.into()
    } else {
        texts.join(",").into()
    }
}

/// Labels in the form `a=b,c=d`.
pub(super) fn labels(value: &Value) -> Value {
    let mut labels: Vec<_> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(label, value)| format!("{label}={}", text(value)))
        .collect();
    labels.sort();
    joined(labels.iter().map(String::as_str), "<none>")
}

/// A label selector in the form of `kubectl -l`, or `none` if it has no requirements.
pub(super) fn selector(value: &Value, none: &str) -> Value {
    let mut requirements: Vec<(&str, String)> = Vec::new();
    for (label, value) in value["matchLabels"].as_object().into_iter().flatten() {
        requirements.push((label, format!("{label}={}", text(value))));
    }
    for expression in items(&value["matchExpressions"]) {
        let label = text(&expression["key"]);
        let mut values: Vec<_> = items(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let requirement = match text(&expression["operator"]) {
            "In" => format!("{label} in ({values})"),
            "NotIn" => format!("{label} notin ({values})"),
            "DoesNotExist" => format!("!{label}"),
            _ => label.to_owned(),
        };
        requirements.push((label, requirement));
    }
    requirements.sort();
    joined(
        requirements.iter().map(|(_, requirement)| requirement.as_str()),
        none,
    )
}

/// At most three elements of `list`, and the number of further ones.
pub(super) fn three_of(list: &[String]) -> Value {
    match list {
        [] => "<unset>".into(),
        few if few.len() <= 3 => few.join(",").into(),
        _ => format!("{} + {} more...", list[..3].join(","), list.len() - 3).into(),
    }
}

/// An integer or a text, or `fallback` if it is missing.
pub(super) fn integer_or_text(value: &Value, fallback: &str) -> Value {
    match value {
        Value::Null => fallback.into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}
