//! The JSONPath that printer columns use: fields, quoted fields, indexes, `*` and filters by equality.

use serde_json::Value;

/// The first value at a path such as `.status.conditions[?(@.type=="Ready")].status`; none when there is nothing or the
/// path is of a form that columns do not use.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.trim();
    step(value, path.strip_prefix('$').unwrap_or(path))
}

fn step<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(after) = path.strip_prefix('[') {
        let end = closing(after)?;
        return bracket(value, after[..end].trim(), &after[end + 1..]);
    }
    let after = path.strip_prefix('.').unwrap_or(path);
    let (name, rest) = field(after);
    match (name, rest) {
        ("", "") => Some(value),
        ("", rest) => step(value, rest),
        ("*", rest) => children(value).find_map(|child| step(child, rest)),
        (name, rest) => step(value.get(name.replace('\\', ""))?, rest),
    }
}

/// What stands in brackets, then the rest of the path.
fn bracket<'a>(value: &'a Value, inner: &str, rest: &str) -> Option<&'a Value> {
    if inner == "*" {
        return children(value).find_map(|child| step(child, rest));
    }
    if let Some(filter) = inner.strip_prefix("?(@") {
        let (path, wanted) = filter.strip_suffix(')')?.split_once("==")?;
        let wanted = wanted.trim();
        let holds = |item: &&Value| match (find(item, path), unquote(wanted)) {
            (Some(Value::String(found)), Some(wanted)) => found == wanted,
            (Some(found), None) => serde_json::from_str(wanted).is_ok_and(|wanted: Value| *found == wanted),
            _ => false,
        };
        return value.as_array()?.iter().filter(holds).find_map(|item| step(item, rest));
    }
    if let Some(name) = unquote(inner) {
        // Definitions escape the points of label names here too, where they need not.
        return step(value.get(name.replace('\\', ""))?, rest);
    }
    let items = value.as_array()?;
    let index = inner.parse::<i64>().ok()?;
    let index = if index < 0 { i64::try_from(items.len()).ok()?.checked_add(index)? } else { index };
    step(items.get(usize::try_from(index).ok()?)?, rest)
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn unquote(text: &str) -> Option<&str> {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"'))
}

/// A field's name up to the next `.` or `[` that is not escaped.
fn field(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return text.split_at(at),
            _ => escaped = false,
        }
    }
    (text, "")
}

/// The closing bracket, minding quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_find_what_they_name() {
        let value = json!({"metadata": {"labels": {"a.b/c": "x"}}, "spec": {"n": 1},
                           "status": {"conditions": [{"type": "A", "status": "0"}, {"type": "Ready", "status": "True"}],
                                      "addresses": [{"address": "10.0.0.1"}, {"address": "10.0.0.2", "n": 7}]}});
        let check =
            |path: &str, expected: Option<Value>| assert_eq!(find(&value, path), expected.as_ref(), "{path}");
        check(".spec.n", Some(json!(1)));
        check("$.spec.n", Some(json!(1)));
        check(".metadata.labels['a.b/c']", Some(json!("x")));
        check(r".metadata.labels['a\.b/c']", Some(json!("x")));
        check(".metadata['labels'][\"a.b/c\"]", Some(json!("x")));
        check(r".metadata.labels.a\.b/c", Some(json!("x")));
        check(r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True")));
        check(".status.conditions[?(@.type == 'Ready')].status", Some(json!("True")));
        check(".status.conditions[?(@.type==\"Gone\")].status", None);
        check(".status.addresses[?(@.n==7)].address", Some(json!("10.0.0.2")));
        check(".status.addresses[0].address", Some(json!("10.0.0.1")));
        check(".status.addresses[-1].address", Some(json!("10.0.0.2")));
        check(".status.addresses[*].n", Some(json!(7)));
        check(".status.addresses[9].address", None);
        check(".gone.n", None);
        check(".status.addresses[", None);
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[.\\[\\]a'\"?(@)=*\\-\\\\0é]{0,16}") {
            let _ = find(&json!({"a": [{"a": "b"}]}), &path);
        }
    }
}
