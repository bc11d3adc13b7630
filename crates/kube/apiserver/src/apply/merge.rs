//! Merges what is applied into what is there (`structured-merge-diff/typed/merge.go`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{path_element::PathElement, schema::Schema, view::View};

/// The value that results when `applied` is applied to `live`. At most as deep as the deeper one of them.
pub(super) fn merge(schema: Schema<'_>, live: Option<&Value>, applied: &Value) -> Value {
    let Some(live) = live else { return applied.clone() };
    let before = View::of(schema, Some(live));
    let after = View::of(schema, Some(applied));
    match (before, after) {
        (View::Map(old), View::Map(new)) if !old.is_empty() => {
            let mut merged = old.clone();
            for (name, value) in new {
                let value = merge(schema.field(name).schema, old.get(name), value);
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (View::List(old), View::List(new)) if !old.is_empty() => Value::Array(merge_lists(schema, old, new)),
        (View::Map(_) | View::List(_), View::Null) if before.has_parts() => live.clone(),
        _ => applied.clone(),
    }
}

/// Elements of both lists are in the order of `applied`. The others of `live` stay where they are, as far as that
/// order allows, and the others of `applied` follow their predecessors.
fn merge_lists(schema: Schema<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let steps = |list: &[Value]| {
        list.iter()
            .map(|element| schema.step_to(element))
            .collect::<Vec<_>>()
    };
    let live_steps = steps(live);
    let applied_steps = steps(applied);
    let mut there: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (step, element) in live_steps.iter().zip(live) {
        if let Some(step) = step {
            // Elements with the same step cannot be merged: the applied one replaces them.
            there
                .entry(step)
                .and_modify(|found| *found = None)
                .or_insert(Some(element));
        }
    }
    let wanted: BTreeSet<&PathElement> = applied_steps.iter().flatten().collect();
    let mut shared: VecDeque<&PathElement> = applied_steps
        .iter()
        .flatten()
        .filter(|step| there.contains_key(step))
        .collect();
    let is_wanted = |step: &Option<PathElement>| step.as_ref().is_some_and(|step| wanted.contains(step));
    let element = |step: &Option<PathElement>, value: &Value| {
        let live = step.as_ref().and_then(|step| there.get(step).copied().flatten());
        merge(schema.element(), live, value)
    };
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut l = 0;
    let mut a = 0;
    while l < live.len() || a < applied.len() {
        if let (Some(ours), Some(theirs)) = (live_steps.get(l), applied_steps.get(a)) {
            if ours.is_some() && ours == theirs {
                done.extend(theirs);
                merged.push(element(theirs, &applied[a]));
                shared.pop_front();
                (l, a) = (l + 1, a + 1);
                continue;
            }
            // It comes later, in the order of the applied list.
            if is_wanted(ours) && shared.front().is_some_and(|next| Some(*next) != ours.as_ref()) {
                l += 1;
                continue;
            }
        }
        if let Some(ours) = live_steps.get(l) {
            if !is_wanted(ours) {
                merged.push(live[l].clone());
                l += 1;
                continue;
            }
            if ours.as_ref().is_some_and(|step| done.contains(step)) {
                l += 1;
            }
        }
        if let Some(theirs) = applied_steps.get(a) {
            done.extend(theirs);
            merged.push(element(theirs, &applied[a]));
            if shared.front().copied() == theirs.as_ref() {
                shared.pop_front();
            }
            a += 1;
        }
    }
    merged
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values read best when passed as they are"
)]
mod tests {
    use serde_json::json;

    use super::{super::custom_schema::CustomSchema, *};

    fn schema() -> CustomSchema {
        let set = json!({"x-kubernetes-list-type": "set"});
        let list = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]});
        CustomSchema::of_kind(&json!({"properties": {"set": set, "list": list}}))
    }

    fn check(live: Value, applied: Value, expected: Value) {
        let merged = merge(Schema::Custom(&schema()), Some(&live), &applied);
        assert_eq!(merged, expected, "{applied} applied to {live}");
    }

    #[test]
    fn shared_elements_follow_the_applied_order_and_the_others_stay() {
        for (live, applied, expected) in [
            ("", "ab", "ab"),
            ("ab", "", "ab"),
            ("ab", "cd", "abcd"),
            ("ab", "ba", "ba"),
            ("abc", "ca", "bca"),
            ("abc", "cxa", "bcxa"),
            ("axb", "ab", "axb"),
            ("axbyc", "cb", "axycb"),
            ("abc", "b", "abc"),
        ] {
            let list = |text: &str| json!({ "set": text.chars().map(String::from).collect::<Vec<_>>() });
            let merged = merge(Schema::Custom(&schema()), Some(&list(live)), &list(applied));
            let merged: String = merged["set"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            assert_eq!(merged, expected, "{applied} applied to {live}");
        }
    }

    #[test]
    fn null_is_an_empty_map_or_list_beside_one() {
        check(json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": {"b": 1}}));
        check(json!({"set": [1]}), json!({"set": null}), json!({"set": [1]}));
        check(json!({"a": {}}), json!({"a": null}), json!({"a": null}));
        check(json!({"a": 1}), json!({"a": null}), json!({"a": null}));
        check(json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}));
    }

    #[test]
    fn values_of_other_types_replace() {
        check(json!({"a": {"b": 1}}), json!({"a": "x"}), json!({"a": "x"}));
        check(json!({"a": [1]}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}));
        check(json!({"a": [1]}), json!({"a": [2]}), json!({"a": [2]}));
        check(
            json!({"list": {"a": 1}}),
            json!({"list": [{"n": 1}]}),
            json!({"list": [{"n": 1}]}),
        );
    }

    #[test]
    fn element_that_is_there_twice_is_replaced_once() {
        let twice = json!({"list": [{"n": 1, "a": 1}, {"n": 2}, {"n": 1, "a": 2}]});
        check(
            twice.clone(),
            json!({"list": [{"n": 1, "b": 3}]}),
            json!({"list": [{"n": 1, "b": 3}, {"n": 2}]}),
        );
        check(
            twice.clone(),
            json!({"list": [{"n": 3}]}),
            json!({"list": [{"n": 1, "a": 1}, {"n": 2}, {"n": 1, "a": 2}, {"n": 3}]}),
        );
    }
}
