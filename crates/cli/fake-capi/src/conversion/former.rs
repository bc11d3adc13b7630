//! The conditions and numbers of `v1beta1` that follow from those of `v1beta2`. Cluster API's controllers write both. An
//! object without the former ones, as the stand-in writes it, gets them where it is read, and they are not kept where it
//! is written back unchanged.

use serde_json::{Map, Value, json};

/// What follows from a status.
#[derive(Debug)]
pub(super) struct Former {
    /// Types of conditions: in `v1beta1`, and of the condition of `v1beta2` that says the same.
    pub(super) conditions: &'static [(&'static str, &'static str)],
    /// Numbers: in `v1beta1`, and in `v1beta2`.
    pub(super) counts: &'static [(&'static str, &'static str)],
    /// Whether `v1beta1` also counts the machines that are not available.
    pub(super) unavailable: bool,
    /// Whether `v1beta1` says that it is ready when one machine is.
    pub(super) ready: bool,
}

impl Former {
    pub(super) const NONE: Self = Self {
        conditions: &[],
        counts: &[],
        unavailable: false,
        ready: false,
    };
}

/// Adds what follows and is missing to a status of `v1beta2`.
pub(super) fn add(former: &Former, status: &mut Map<String, Value>) {
    let conditions = conditions(former, status);
    let counts = counts(former, status);
    if former.ready && !counts.is_empty() {
        let ready = deprecated(status)
            .and_then(|kept| kept.get("readyReplicas"))
            .or(status.get("readyReplicas"));
        let is_ready = ready.and_then(Value::as_i64).is_some_and(|ready| ready > 0);
        status.entry("ready").or_insert(is_ready.into());
    }
    if conditions.is_empty() && counts.is_empty() {
        return;
    }
    let empty = || Value::Object(Map::new());
    let deprecated = status.entry("deprecated").or_insert_with(empty).as_object_mut();
    let kept = deprecated.and_then(|parts| parts.entry("v1beta1").or_insert_with(empty).as_object_mut());
    let Some(kept) = kept else { return };
    for (name, count) in counts {
        kept.entry(name).or_insert(count);
    }
    if !conditions.is_empty()
        && let Some(list) = kept
            .entry("conditions")
            .or_insert_with(|| json!([]))
            .as_array_mut()
    {
        let missing: Vec<_> = conditions
            .into_iter()
            .filter(|one| !list.iter().any(|other| other["type"] == one["type"]))
            .collect();
        list.extend(missing);
    }
}

/// Removes what follows from a status of `v1beta2`.
pub(super) fn forget(former: &Former, status: &mut Map<String, Value>) {
    let conditions = conditions(former, status);
    let counts = counts(former, status);
    if former.ready {
        status.remove("ready");
    }
    let Some(Value::Object(deprecated)) = status.get_mut("deprecated") else {
        return;
    };
    let Some(Value::Object(kept)) = deprecated.get_mut("v1beta1") else {
        return;
    };
    let before = kept.len();
    kept.retain(|name, value| {
        counts
            .iter()
            .all(|(counted, count)| counted != name || count != value)
    });
    if let Some(Value::Array(list)) = kept.get_mut("conditions")
        && !list.is_empty()
    {
        list.retain(|one| !conditions.contains(one));
        if list.is_empty() {
            kept.remove("conditions");
        }
    }
    if kept.is_empty() && before > 0 {
        deprecated.remove("v1beta1");
        if deprecated.is_empty() {
            status.remove("deprecated");
        }
    }
}

fn deprecated(status: &Map<String, Value>) -> Option<&Map<String, Value>> {
    status.get("deprecated")?.get("v1beta1")?.as_object()
}

fn counts(former: &Former, status: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let count = |name: &str| status.get(name).and_then(Value::as_i64);
    let mut counts: Vec<_> = former
        .counts
        .iter()
        .filter_map(|(old, new)| Some((*old, count(new)?.into())))
        .collect();
    if former.unavailable
        && let (Some(all), Some(available)) = (count("replicas"), count("availableReplicas"))
    {
        counts.push(("unavailableReplicas", all.saturating_sub(available).max(0).into()));
    }
    counts
}

fn conditions(former: &Former, status: &Map<String, Value>) -> Vec<Value> {
    let list = status
        .get("conditions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let known = |kind: &str| {
        list.iter()
            .find(|condition| condition["type"] == kind && condition.is_object())
    };
    let conditions = former.conditions.iter();
    conditions
        .filter_map(|(old, new)| Some(condition(old, known(new)?)))
        .collect()
}

/// A condition as it was: without a reason when it is true, and with a severity when it is false
/// (`util/conditions/deprecated/v1beta1/setter.go`).
fn condition(kind: &str, condition: &Value) -> Value {
    let mut former = Map::from_iter([("type".to_owned(), kind.into())]);
    let mut copy = |field: &str| {
        if let Some(value) = condition.get(field).filter(|value| **value != "") {
            former.insert(field.to_owned(), value.clone());
        }
    };
    copy("status");
    copy("lastTransitionTime");
    if condition["status"] != "True" {
        copy("reason");
        copy("message");
    }
    if condition["status"] == "False" {
        former.insert("severity".to_owned(), "Info".into());
    }
    former.into()
}
