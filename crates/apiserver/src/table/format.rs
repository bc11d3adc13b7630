//! How values of a few recurring shapes are shown in a cell.

use serde_json::Value;

/// A list's elements; none when it is not a list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text; `fallback` when it is empty or missing.
pub(super) fn text_or(value: &Value, fallback: &str) -> Value {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(fallback).into()
}

/// The text, or nothing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number; missing is zero.
pub(super) fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// How many entries a map or elements a list has.
pub(super) fn length(value: &Value) -> usize {
    value.as_object().map_or(items(value).len(), serde_json::Map::len)
}

/// A condition's status is True.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    items(&object["status"]["conditions"])
        .iter()
        .any(|other| other["type"] == condition && other["status"] == "True")
}

/// Texts with commas between them; `fallback` when there are none.
pub(super) fn joined<'a>(texts: impl Iterator<Item = &'a str>, fallback: &str) -> Value {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { fallback.into() } else { texts.join(",").into() }
}

/// Labels as in `a=b,c=d`.
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

/// A label selector as `kubectl -l` takes it; `none` when it has no requirements.
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
    joined(requirements.iter().map(|(_, requirement)| requirement.as_str()), none)
}

/// At most three of `list`, and how many more there are.
pub(super) fn three_of(list: &[String]) -> Value {
    match list {
        [] => "<unset>".into(),
        few if few.len() <= 3 => few.join(",").into(),
        _ => format!("{} + {} more...", list[..3].join(","), list.len() - 3).into(),
    }
}

/// An integer or a text as it stands; `fallback` when missing.
pub(super) fn integer_or_text(value: &Value, fallback: &str) -> Value {
    match value {
        Value::Null => fallback.into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}
