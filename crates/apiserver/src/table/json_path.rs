//! The JSONPath that printer columns use: fields, quoted fields, indexes and one kind of filter.

use serde_json::Value;

/// The value at a path such as `.status.conditions[?(@.type=="Ready")].status`; none when there is nothing or the path
/// is of a form that columns do not use.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = value;
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            value = bracket(value, after[..end].trim())?;
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let (name, tail) = field(after);
            value = if name.is_empty() { value } else { value.get(name.replace('\\', ""))? };
            rest = tail;
            if after.is_empty() {
                break;
            }
        }
    }
    Some(value)
}

/// A field's name up to the next `.` or `[` that is not escaped.
fn field(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => escaped = true,
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

fn bracket<'a>(value: &'a Value, inner: &str) -> Option<&'a Value> {
    let unquote = |text: &str| {
        let text = text.trim();
        let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        inner.or_else(|| text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))).map(str::to_owned)
    };
    if let Some(filter) = inner.strip_prefix("?(@") {
        let (path, wanted) = filter.strip_suffix(')')?.split_once("==")?;
        let wanted = unquote(wanted)?;
        return value
            .as_array()?
            .iter()
            .find(|item| find(item, path).and_then(Value::as_str) == Some(&*wanted));
    }
    match unquote(inner) {
        Some(name) => value.get(name),
        None => value.get(inner.parse::<usize>().ok()?),
    }
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
                                      "addresses": [{"address": "10.0.0.1"}]}});
        let check =
            |path: &str, expected: Option<Value>| assert_eq!(find(&value, path), expected.as_ref(), "{path}");
        check(".spec.n", Some(json!(1)));
        check(".metadata.labels['a.b/c']", Some(json!("x")));
        check(r".metadata.labels.a\.b/c", Some(json!("x")));
        check(r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True")));
        check(".status.conditions[?(@.type=='Ready')].status", Some(json!("True")));
        check(".status.addresses[0].address", Some(json!("10.0.0.1")));
        check(".status.addresses[9].address", None);
        check(".gone.n", None);
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[.\\[\\]a'\"?(@)=\\\\0é]{0,16}") {
            let _ = find(&json!({"a": [{"a": "b"}]}), &path);
        }
    }
}
