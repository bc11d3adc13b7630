//! What a scenario needs, and what of that a management cluster lacks. Pure.
//!
//! The objects of an entry say what it needs: each field of their specs has to have this value. Fields that make no difference to
//! a scenario are left out: delays, and the version of a cluster that is not upgraded.

use std::collections::BTreeSet;

use kube::core::GroupVersionKind;
use nephele_access::kind_of;
use nephele_scenario_library::Needs;
use serde_json::{Value, json};

use crate::manifests::BOUNDS;

/// The most characters of a value in a message.
const VALUE_MAX: usize = 60;

/// What a management cluster has of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// The API server does not serve the kind.
    NoKind,
    NoObject,
    Object(Value),
}

/// What a management cluster has of all that a scenario needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Whether the stand-in of `nephele up` plays Cluster API there.
    pub(crate) has_stand_in: bool,
    /// The kinds that are not served, of those that the steps name.
    pub(crate) unserved: Vec<GroupVersionKind>,
    /// What is there of each object of the entry, in their order.
    pub(crate) objects: Vec<Found>,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lack {
    /// Cluster API itself, for this.
    ClusterApi(String),
    Kind(GroupVersionKind),
    Object {
        kind: String,
        name: String,
    },
    /// An object has another value in a field.
    Value {
        kind: String,
        name: String,
        difference: Difference,
    },
}

/// A field that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    field: String,
    wanted: Value,
    /// The value that is there; null if the field is missing.
    found: Value,
}

/// What is missing for a scenario, by its object and, if it is of the library, the objects of its entry.
pub(crate) fn lacks(scenario: &Value, cluster: &[Value], seen: &Seen) -> Vec<Lack> {
    let mut lacks = Vec::new();
    if let (true, Needs::ClusterApi(needed)) = (seen.has_stand_in, Needs::of(scenario)) {
        // Everything else follows from that.
        return vec![Lack::ClusterApi(needed)];
    }
    let mut kinds = seen.unserved.clone();
    for (wanted, found) in cluster.iter().zip(&seen.objects) {
        let (kind, name) = named(wanted);
        match found {
            Found::NoKind => kinds.push(kind_of(wanted)),
            Found::NoObject => lacks.push(Lack::Object { kind, name }),
            Found::Object(object) => {
                let fields = differences(&wanted["spec"], &object["spec"], is_upgraded(scenario));
                lacks.extend(fields.into_iter().map(|difference| Lack::Value {
                    kind: kind.clone(),
                    name: name.clone(),
                    difference,
                }));
            }
        }
    }
    let mut unserved: Vec<Lack> = Vec::new();
    for kind in kinds.into_iter().map(Lack::Kind) {
        if !unserved.contains(&kind) {
            unserved.push(kind);
        }
    }
    unserved.extend(lacks);
    unserved
}

/// Kind and name of an object, for people.
pub(crate) fn named(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The kinds that the steps of a scenario name, with those in its manifests.
pub(super) fn kinds(scenario: &Value) -> Vec<GroupVersionKind> {
    let mut names = BTreeSet::new();
    collect(scenario, &mut names);
    names
        .into_iter()
        .map(|(version, kind)| kind_of(&json!({ "apiVersion": version, "kind": kind })))
        .collect()
}

/// How deep steps, with the objects in them, can be nested: an object in a step of a branch is ten levels down.
const DEPTH_MAX: usize = 64;

fn collect(value: &Value, kinds: &mut BTreeSet<(String, String)>) {
    collect_within(value, DEPTH_MAX, kinds);
}

fn collect_within(value: &Value, depth: usize, kinds: &mut BTreeSet<(String, String)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_within(item, depth, kinds)),
        Value::Object(fields) => {
            if let (Some(version), Some(kind)) = (fields.get("apiVersion"), fields.get("kind"))
                && let (Some(version), Some(kind)) = (version.as_str(), kind.as_str())
            {
                kinds.insert((version.to_owned(), kind.to_owned()));
            }
            for (name, field) in fields {
                match field.as_str().filter(|_| name == "manifests") {
                    Some(text) => documents(text)
                        .iter()
                        .for_each(|document| collect_within(document, depth, kinds)),
                    None => collect_within(field, depth, kinds),
                }
            }
        }
        _ => {}
    }
}

/// The documents of manifests. The manager reports what is not YAML.
pub(super) fn documents(text: &str) -> Vec<Value> {
    let read = nephele_yaml::read_all(text, &BOUNDS).unwrap_or_default();
    read.into_iter().map(|(_, document)| document).collect()
}

/// Whether a step upgrades a Cluster.
fn is_upgraded(scenario: &Value) -> bool {
    let is = |step: &Value| step.get("upgrade").is_some();
    scenario["spec"]["steps"].as_array().into_iter().flatten().any(is)
}

/// The fields of a spec that are not as they should be. Fields that are not asked for can have any value.
fn differences(wanted: &Value, found: &Value, is_upgraded: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare("spec", wanted, found, is_upgraded, &mut differences);
    differences
}

fn compare(field: &str, wanted: &Value, found: &Value, is_upgraded: bool, differences: &mut Vec<Difference>) {
    if makes_no_difference(field, is_upgraded) {
        return;
    }
    match (wanted, by_name(wanted), found) {
        // An object without a spec can have any.
        (Value::Null, _, _) => {}
        (Value::Object(fields), _, Value::Object(there)) => {
            for (name, wanted) in fields {
                let found = there.get(name).unwrap_or(&Value::Null);
                compare(
                    &format!("{field}.{name}"),
                    wanted,
                    found,
                    is_upgraded,
                    differences,
                );
            }
        }
        (_, Some(items), Value::Array(there)) => {
            for (name, wanted) in items {
                let found = there.iter().find(|item| item["name"] == name);
                let found = found.unwrap_or(&Value::Null);
                compare(
                    &format!("{field}[{name}]"),
                    wanted,
                    found,
                    is_upgraded,
                    differences,
                );
            }
        }
        (Value::Object(fields), _, Value::Null) if fields.is_empty() => {}
        _ if wanted == found => {}
        _ => differences.push(Difference {
            field: field.to_owned(),
            wanted: wanted.clone(),
            found: found.clone(),
        }),
    }
}

/// Delays, and the version of what is not upgraded.
fn makes_no_difference(field: &str, is_upgraded: bool) -> bool {
    field.ends_with("Behaviour]") || (field.ends_with(".version") && !is_upgraded)
}

/// The items of a list whose items all have names.
fn by_name(list: &Value) -> Option<Vec<(&str, &Value)>> {
    let items = list.as_array()?.iter();
    items.map(|item| Some((item["name"].as_str()?, item))).collect()
}

/// What a person reads about a lack.
pub(crate) fn told(lack: &Lack, namespace: &str) -> String {
    match lack {
        Lack::ClusterApi(needed) => {
            format!("it needs Cluster API itself ({needed}), which the stand-in of `nephele up` is not")
        }
        Lack::Kind(kind) => format!(
            "the management cluster does not serve {} of {}",
            kind.kind,
            kind.api_version()
        ),
        Lack::Object { kind, name } => format!("there is no {kind} {name} in namespace {namespace}"),
        Lack::Value {
            kind,
            name,
            difference,
        } => {
            let Difference { field, wanted, found } = difference;
            let wanted = cut(wanted);
            match found {
                Value::Null => format!("{kind} {name} has no {field}, which has to be {wanted}"),
                found => format!("{kind} {name} has {field} {}, not {wanted}", cut(found)),
            }
        }
    }
}

/// A value for a message.
fn cut(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text,
    }
}

/// The commands that mend what is missing, in the order in which they are run.
pub(crate) fn mending(lacks: &[Lack], scenario: &str, namespace: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut is_made = false;
    for lack in lacks {
        let command = match lack {
            Lack::ClusterApi(_) => {
                "start `nephele up --cluster-api=v1.14.2`, or use a management cluster with Cluster API \
                 (--kubeconfig)"
                    .to_owned()
            }
            Lack::Kind(kind) if is_ours(kind) => "run `nephele install`".to_owned(),
            Lack::Kind(_) => "run `clusterctl init`".to_owned(),
            Lack::Object { .. } => {
                is_made = true;
                continue;
            }
            Lack::Value { kind, name, .. } => {
                is_made = true;
                format!(
                    "run `kubectl delete {} {name} -n {namespace}`, or choose another namespace (-n)",
                    kind.to_lowercase()
                )
            }
        };
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if is_made {
        commands.push(format!(
            "run `nephele scenario run {scenario} --make-cluster -n {namespace}`"
        ));
    }
    commands
}

/// Whether `nephele install` brings a kind.
fn is_ours(kind: &GroupVersionKind) -> bool {
    nephele_api::crds()
        .iter()
        .any(|ours| ours.spec.group == kind.group && ours.spec.names.kind == kind.kind)
}

#[cfg(test)]
mod tests;
