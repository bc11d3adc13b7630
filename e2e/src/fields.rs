//! Objects of two management clusters, compared field by field.
//!
//! Names that a controller drew, times, uids, addresses and digests cannot be the same twice, so they are replaced by
//! what they are. Objects whose names differ only there are one: a path has the values of all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// The values by path, such as `Machine.status.conditions.Ready.status`, and of how many objects each is.
pub type Fields = BTreeMap<String, BTreeMap<String, usize>>;

/// What only servers write, and what no controller acts on.
const SKIPPED: [&str; 5] = [
    "generation",
    "managedFields",
    "observedGeneration",
    "resourceVersion",
    "uid",
];
/// What ends a word within a text.
const ENDS: [char; 6] = [' ', '/', ',', ';', '"', '='];
/// What Kubernetes draws the ends of names from (apimachinery, `util/rand`).
const DRAWN: &str = "bcdfghjklmnpqrstvwxz2456789";
/// How many of them a name ends with.
const DRAWN_LENGTH: usize = 5;

/// The fields of objects of one kind in a namespace.
#[must_use]
pub fn fields(kind: &str, namespace: &str, objects: &[Value]) -> Fields {
    let mut fields = Fields::new();
    for object in objects {
        add(&mut fields, kind, namespace, object);
    }
    fields
}

fn add(fields: &mut Fields, path: &str, namespace: &str, value: &Value) {
    let mut leaf = |text: String| {
        *fields
            .entry(path.to_owned())
            .or_default()
            .entry(text)
            .or_default() += 1;
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map.iter().filter(|(key, _)| !SKIPPED.contains(&key.as_str())) {
                add(
                    fields,
                    &format!("{path}.{}", general(key, namespace)),
                    namespace,
                    value,
                );
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let key = ["type", "kind", "name", "key"]
                    .iter()
                    .find_map(|key| item[*key].as_str());
                add(
                    fields,
                    &format!("{path}.{}", general(key.unwrap_or("*"), namespace)),
                    namespace,
                    item,
                );
            }
        }
        Value::String(text) => leaf(general(text, namespace)),
        Value::Number(_) if path.ends_with(".port") => leaf("(port)".to_owned()),
        other => leaf(other.to_string()),
    }
}

/// A text without what differs each time.
fn general(text: &str, namespace: &str) -> String {
    if text.parse::<jiff::Timestamp>().is_ok() {
        return "(time)".to_owned();
    }
    let text = text.replace(namespace, "(namespace)");
    let mut found = String::with_capacity(text.len());
    for word in text.split_inclusive(ENDS) {
        let end = word.len() - usize::from(word.ends_with(ENDS));
        found.push_str(&general_word(&word[..end]));
        found.push_str(&word[end..]);
    }
    found
}

fn general_word(word: &str) -> String {
    let (host, port) = word.rsplit_once(':').unwrap_or((word, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if host.parse::<IpAddr>().is_ok() && is_number(port) {
        return "(address):(port)".to_owned();
    }
    if word.parse::<IpAddr>().is_ok() {
        return "(address)".to_owned();
    }
    let parts: Vec<_> = word.split('-').collect();
    let is_hex = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex) {
        return "(uid)".to_owned();
    }
    if word.len() == 32 && is_hex(&word) {
        return "(uid)".to_owned();
    }
    let is_drawn = |part: &&str| part.len() == DRAWN_LENGTH && part.chars().all(|c| DRAWN.contains(c));
    let drawn = parts.iter().rev().take_while(|part| is_drawn(part)).count();
    let kept = &parts[..parts.len() - drawn];
    match kept {
        [number] if drawn > 0 && number.len() >= 6 && is_number(number) => "(digest)".to_owned(),
        kept if drawn > 0 && !kept.is_empty() => format!("{}-*", kept.join("-")),
        _ => word.to_owned(),
    }
}

/// The paths whose values differ, and both values as text.
#[must_use]
pub fn differences(of_one: &Fields, of_other: &Fields) -> BTreeMap<String, [String; 2]> {
    let paths: BTreeSet<_> = of_one.keys().chain(of_other.keys()).collect();
    let differing = paths
        .into_iter()
        .filter(|path| of_one.get(*path) != of_other.get(*path));
    differing
        .map(|path| (path.clone(), [text(of_one.get(path)), text(of_other.get(path))]))
        .collect()
}

fn text(values: Option<&BTreeMap<String, usize>>) -> String {
    let Some(values) = values else {
        return "(nothing)".to_owned();
    };
    values
        .iter()
        .map(|(value, count)| format!("{count}x {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Fields that differ between Cluster API and the stand-in for it, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The kinds that have them.
    pub kinds: Vec<String>,
    /// Their paths, or beginnings of paths.
    pub fields: Vec<String>,
    pub because: String,
}

impl Known {
    /// Whether this path is one of them.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.begins().any(|known| is_under(path, &known))
    }

    /// Those that do not differ any more.
    pub fn gone<'a>(&'a self, found: &'a BTreeMap<String, [String; 2]>) -> impl Iterator<Item = String> + 'a {
        self.begins()
            .filter(|known| !found.keys().any(|path| is_under(path, known)))
    }

    fn begins(&self) -> impl Iterator<Item = String> {
        self.kinds
            .iter()
            .flat_map(|kind| self.fields.iter().map(move |field| format!("{kind}.{field}")))
    }
}

fn is_under(path: &str, begin: &str) -> bool {
    path.strip_prefix(begin)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The known differences, from `e2e/standin.yaml`.
///
/// # Errors
///
/// When the file is not there or malformed.
pub fn known() -> anyhow::Result<Vec<Known>> {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/standin.yaml");
    let text = std::fs::read_to_string(FILE).context("failed to read standin.yaml")?;
    serde_yaml_ng::from_str(&text).context("failed to parse standin.yaml")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, at: &str, ready: &str) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "test-x2v", "uid": "u", "annotations": {} },
            "status": {
                "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": at }],
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.4" }],
                "replicas": 2,
            },
        })
    }

    #[test]
    fn fields_are_the_same_where_only_drawn_values_differ() {
        let here = [machine("a-bcdfg-24567", "2026-01-01T00:00:00Z", "True")];
        let there = [machine("a-xxxxx-99999", "2026-01-02T00:00:00Z", "True")];
        let [here, there] = [here, there].map(|objects| fields("Machine", "test-x2v", &objects));
        assert_eq!(here, there);
        let found: Vec<_> = here
            .iter()
            .map(|(path, values)| format!("{path} = {}", text(Some(values))))
            .collect();
        assert_eq!(
            found,
            [
                "Machine.metadata.annotations = 1x {}",
                "Machine.metadata.name = 1x a-*",
                "Machine.metadata.namespace = 1x (namespace)",
                "Machine.status.addresses.InternalIP.address = 1x (address)",
                "Machine.status.addresses.InternalIP.type = 1x InternalIP",
                "Machine.status.conditions.Ready.lastTransitionTime = 1x (time)",
                "Machine.status.conditions.Ready.status = 1x True",
                "Machine.status.conditions.Ready.type = 1x Ready",
                "Machine.status.replicas = 1x 2",
            ]
        );
    }

    #[test]
    fn values_and_numbers_of_objects_that_differ_are_named() {
        let here = [machine("a-bcdfg", "2026-01-01T00:00:00Z", "True")];
        let there = [
            machine("a-bcdfg", "2026-01-01T00:00:00Z", "False"),
            json!({ "spec": 1 }),
        ];
        let [here, there] = [&here[..], &there[..]].map(|objects| fields("Machine", "test-x2v", objects));
        let expected = [
            ("Machine.spec", ["(nothing)", "1x 1"]),
            ("Machine.status.conditions.Ready.status", ["1x True", "1x False"]),
        ];
        let expected = expected.map(|(path, values)| (path.to_owned(), values.map(str::to_owned)));
        assert_eq!(differences(&here, &there), BTreeMap::from(expected));
    }

    #[test]
    fn what_is_drawn_is_told_by_its_form() {
        let cases = [
            ("machine-a-bcdfg", "machine-a-*"),
            ("workers", "workers"),
            ("bcdfg", "bcdfg"),
            ("hash=2183712368-bcdfg,owned=", "hash=(digest),owned="),
            ("inmemory://test-x2v/same-bcdfg", "inmemory://(namespace)/same-*"),
            ("c1a3a2a0-9b6e-4c2e-8f68-0123456789ab", "(uid)"),
            (
                "Node same-a-bcdfg-bcdfg, 10.0.0.4:6443",
                "Node same-a-*, (address):(port)",
            ),
            ("062792fbd73d4592921d89b9dc1a19a2", "(uid)"),
            ("v1.36.3", "v1.36.3"),
        ];
        for (text, expected) in cases {
            assert_eq!(general(text, "test-x2v"), expected);
        }
    }
}
