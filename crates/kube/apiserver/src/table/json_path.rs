//! The part of JSONPath that printer columns use: fields, quoted fields, indexes, `*` and filters by equality.
//!
//! `jsonpath-rust` reads RFC 9535, which does not accept paths that columns use: paths without `$`, and
//! `.metadata.labels.a\.b/c`.

use serde_json::Value;

use crate::depth::DEPTH_MAX;

/// The first value at a path such as `.status.conditions[?(@.type=="Ready")].status`. None if there is no value or the
/// path has a form that columns do not use.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    find_by(value, &parse(path)?)
}

/// One step of a path.
enum Step {
    Field(String),
    Index(i64),
    /// Every child.
    All,
    /// The elements whose value at a path equals this.
    Where(Vec<Step>, Value),
}

/// The steps of a path. None if it is malformed or deeper than any object.
fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() >= DEPTH_MAX {
            return None;
        }
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else {
            let (name, after) = field(rest.strip_prefix('.').unwrap_or(rest));
            match name {
                // `.[0]` and a trailing dot name no field.
                "" => {}
                "*" => steps.push(Step::All),
                name => steps.push(Step::Field(name.replace('\\', ""))),
            }
            rest = after;
        }
    }
    Some(steps)
}

/// A step in brackets.
fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inner.strip_prefix("?(@") {
        let (path, wanted) = filter.strip_suffix(')')?.split_once("==")?;
        let wanted = wanted.trim();
        let wanted =
            unquote(wanted).map_or_else(|| serde_json::from_str(wanted).ok(), |text| Some(text.into()))?;
        let path = parse(path)?;
        // Columns use no filter inside a filter.
        let plain = !path.iter().any(|step| matches!(step, Step::Where(..)));
        return plain.then_some(Step::Where(path, wanted));
    }
    match unquote(inner) {
        // Definitions escape the dots of label names here too, although they need not.
        Some(name) => Some(Step::Field(name.replace('\\', ""))),
        None => inner.parse().ok().map(Step::Index),
    }
}

/// Recurses once per step; a path has no more steps than an object has levels.
fn find_by<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => find_by(value.get(name)?, rest),
        Step::Index(index) => {
            let items = value.as_array()?;
            let length = i64::try_from(items.len()).ok()?;
            let index = if *index < 0 {
                length.checked_add(*index)?
            } else {
                *index
            };
            find_by(items.get(usize::try_from(index).ok()?)?, rest)
        }
        Step::All => match value {
            Value::Array(items) => items.iter().find_map(|item| find_by(item, rest)),
            Value::Object(fields) => fields.values().find_map(|field| find_by(field, rest)),
            _ => None,
        },
        Step::Where(path, wanted) => {
            let holds = |item: &&Value| find_by(item, path) == Some(wanted);
            value
                .as_array()?
                .iter()
                .filter(holds)
                .find_map(|item| find_by(item, rest))
        }
    }
}

fn unquote(text: &str) -> Option<&str> {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"'))
}

/// A field's name up to the next unescaped `.` or `[`.
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

/// The index of the closing bracket outside of quotes.
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
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("path of a column", 64 * 1024, &["", ".a[?(@."], |text| {
            let _ = parse(text);
        });
    }

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
        check(
            r#".status.conditions[?(@.type=="Ready")].status"#,
            Some(json!("True")),
        );
        check(
            ".status.conditions[?(@.type == 'Ready')].status",
            Some(json!("True")),
        );
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
