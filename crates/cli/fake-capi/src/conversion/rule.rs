//! What differs between the two forms of an object, as rules that work in both directions.

use serde_json::{Map, Value};

use super::{
    duration,
    former::{self, Former},
};

/// The newer version of Cluster API's kinds.
pub(super) const NEW: &str = "v1beta2";

/// One difference between an object of `v1beta1` and one of `v1beta2`. Paths have dots between their fields. What does not
/// have the expected shape stays as it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// The field at the first path of `v1beta1` is at the second path in `v1beta2`.
    Moved(&'static str, &'static str),
    /// The same for a duration, which is a text of Go in `v1beta1`, and a number of seconds in `v1beta2`.
    Seconds(&'static str, &'static str),
    /// A reference with an API version and a namespace in `v1beta1`, and with an API group in `v1beta2`.
    Reference(&'static str),
    /// A reference that has an API version in both, and a namespace in `v1beta1`.
    Template(&'static str),
    /// A reference to a Node, which is only its name in `v1beta2`.
    Node(&'static str),
    /// A map by name in `v1beta1`, and a list in `v1beta2`, whose elements have the name in this field; and the field of
    /// the elements with the value, or none if the values are the elements.
    Named(&'static str, Option<&'static str>),
    /// An endpoint that is empty in `v1beta1` while it is not known, and missing in `v1beta2`.
    Endpoint(&'static str),
    /// Conditions and numbers of `v1beta1` that follow from those of `v1beta2`.
    Former(&'static str, &'static Former),
    /// The rules of a part.
    In(&'static str, &'static [Rule]),
    /// The rules of each element of a list.
    Each(&'static str, &'static [Rule]),
    /// Further rules of the same part.
    All(&'static [Rule]),
}

/// Applies rules to an object, which becomes one of `v1beta2`.
pub(super) fn inward(rules: &[Rule], object: &mut Map<String, Value>) {
    for rule in rules {
        match *rule {
            Rule::Moved(old, new) => moved(object, old, new),
            Rule::Seconds(old, new) => {
                moved(object, old, new);
                replace(object, new, |value| {
                    value.as_str().and_then(duration::seconds).map(Value::from)
                });
            }
            Rule::Reference(at) => with(object, at, |reference| {
                let version = reference.remove("apiVersion");
                if let Some(Value::String(version)) = version
                    && !reference.contains_key("apiGroup")
                {
                    // The core group has no slash and an empty name.
                    let group = version.split_once('/').map_or("", |(group, _)| group);
                    reference.insert("apiGroup".to_owned(), group.into());
                }
                forget(reference, &OF_REFERENCES);
            }),
            Rule::Template(at) => with(object, at, |reference| forget(reference, &OF_REFERENCES)),
            Rule::Node(at) => with(object, at, |reference| {
                forget(reference, &["apiVersion", "kind"]);
                forget(reference, &OF_REFERENCES);
            }),
            Rule::Named(at, field) => replace(object, at, |value| named_list(value, field)),
            Rule::Endpoint(at) => {
                let is_unknown = get(object, at).is_some_and(|endpoint| {
                    endpoint.as_object().is_some_and(|endpoint| endpoint.len() == 2)
                        && endpoint["host"] == ""
                        && endpoint["port"] == 0
                });
                if is_unknown {
                    take(object, at);
                }
            }
            Rule::Former(at, former) => with(object, at, |status| former::forget(former, status)),
            Rule::In(at, rules) => with(object, at, |part| inward(rules, part)),
            Rule::Each(at, rules) => each(object, at, |element| inward(rules, element)),
            Rule::All(rules) => inward(rules, object),
        }
    }
}

/// Applies rules to an object in a namespace, which becomes one of `v1beta1`.
pub(super) fn outward(rules: &[Rule], namespace: &str, object: &mut Map<String, Value>) {
    let placed = |reference: &mut Map<String, Value>| {
        if !namespace.is_empty() && !reference.is_empty() {
            reference.entry("namespace").or_insert_with(|| namespace.into());
        }
    };
    for rule in rules.iter().rev() {
        match *rule {
            Rule::Moved(old, new) => moved(object, new, old),
            Rule::Seconds(old, new) => {
                replace(object, new, |value| {
                    value.as_i64().and_then(duration::text).map(Value::from)
                });
                moved(object, new, old);
            }
            Rule::Reference(at) => with(object, at, |reference| {
                if let Some(Value::String(group)) = reference.remove("apiGroup") {
                    let version = match group.as_str() {
                        "" => "v1".to_owned(),
                        group => format!("{group}/{NEW}"),
                    };
                    reference.entry("apiVersion").or_insert_with(|| version.into());
                }
                placed(reference);
            }),
            Rule::Template(at) => with(object, at, placed),
            Rule::Node(at) => with(object, at, |reference| {
                if !reference.is_empty() {
                    for (field, text) in [("apiVersion", "v1"), ("kind", "Node")] {
                        reference.entry(field).or_insert_with(|| text.into());
                    }
                }
            }),
            Rule::Named(at, field) => replace(object, at, |value| named_map(value, field)),
            Rule::Endpoint(_) => {}
            Rule::Former(at, former) => with(object, at, |status| former::add(former, status)),
            Rule::In(at, rules) => with(object, at, |part| outward(rules, namespace, part)),
            Rule::Each(at, rules) => each(object, at, |element| outward(rules, namespace, element)),
            Rule::All(rules) => outward(rules, namespace, object),
        }
    }
}

/// Fields of a Kubernetes reference that `v1beta2` does not have.
const OF_REFERENCES: [&str; 4] = ["namespace", "uid", "resourceVersion", "fieldPath"];

fn forget(object: &mut Map<String, Value>, fields: &[&str]) {
    for field in fields {
        object.remove(*field);
    }
}

/// The list of a map by name, sorted by name.
fn named_list(value: &Value, field: Option<&str>) -> Option<Value> {
    let element = |(name, value): (&String, &Value)| {
        let mut element = match field {
            Some(field) => Map::from_iter([(field.to_owned(), value.clone())]),
            None => value.as_object()?.clone(),
        };
        element.insert("name".to_owned(), name.as_str().into());
        Some(Value::Object(element))
    };
    value
        .as_object()?
        .iter()
        .map(element)
        .collect::<Option<Vec<_>>>()
        .map(Value::Array)
}

/// The map of a list by name. Of elements with the same name, the last one counts.
fn named_map(value: &Value, field: Option<&str>) -> Option<Value> {
    let entry = |element: &Value| {
        let mut element = element.as_object()?.clone();
        let Some(Value::String(name)) = element.remove("name") else {
            return None;
        };
        let value = match field {
            Some(field) => element.remove(field).unwrap_or_else(|| "".into()),
            None => Value::Object(element),
        };
        Some((name, value))
    };
    value
        .as_array()?
        .iter()
        .map(entry)
        .collect::<Option<Map<_, _>>>()
        .map(Value::Object)
}

/// Moves a field, unless something is in its new place. Parts that become empty disappear.
fn moved(object: &mut Map<String, Value>, from: &str, to: &str) {
    if is_free(object, to)
        && let Some(value) = take(object, from)
    {
        put(object, to, value);
    }
}

fn get<'v>(object: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    match path.split_once('.') {
        None => object.get(path),
        Some((first, rest)) => get(object.get(first)?.as_object()?, rest),
    }
}

fn get_mut<'v>(object: &'v mut Map<String, Value>, path: &str) -> Option<&'v mut Value> {
    match path.split_once('.') {
        None => object.get_mut(path),
        Some((first, rest)) => get_mut(object.get_mut(first)?.as_object_mut()?, rest),
    }
}

/// Whether a field can be put there.
fn is_free(object: &Map<String, Value>, path: &str) -> bool {
    match path.split_once('.') {
        None => !object.contains_key(path),
        Some((first, rest)) => match object.get(first) {
            None => true,
            Some(Value::Object(part)) => is_free(part, rest),
            Some(_) => false,
        },
    }
}

fn take(object: &mut Map<String, Value>, path: &str) -> Option<Value> {
    let Some((first, rest)) = path.split_once('.') else {
        return object.remove(path);
    };
    let part = object.get_mut(first)?.as_object_mut()?;
    let taken = take(part, rest);
    if taken.is_some() && part.is_empty() {
        object.remove(first);
    }
    taken
}

fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(object.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let part = object.entry(first).or_insert_with(|| Map::new().into());
            if let Some(part) = part.as_object_mut() {
                put(part, rest, value);
            }
        }
    }
}

/// Replaces a value, if `by` makes another one of it.
fn replace(object: &mut Map<String, Value>, path: &str, by: impl FnOnce(&Value) -> Option<Value>) {
    if let Some(value) = get_mut(object, path)
        && let Some(other) = by(value)
    {
        *value = other;
    }
}

fn with(object: &mut Map<String, Value>, path: &str, run: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(part) = get_mut(object, path).and_then(Value::as_object_mut) {
        run(part);
    }
}

fn each(object: &mut Map<String, Value>, path: &str, run: impl Fn(&mut Map<String, Value>)) {
    let list = get_mut(object, path).and_then(Value::as_array_mut);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .for_each(run);
}
