//! Fields of a Fault's spec. The schema refuses every mistake; this is for objects that got past the schema. Pure.

use nephele_api::cloud::v1alpha1::{FaultBudget, FaultMatch, FaultSchedule, FaultSpec};
use nephele_model::{
    Budget, FaultEffect, Fraction, GoDuration, LabelSelector, Matches, Odds, Schedule, TURN_MIN,
};
use thiserror::Error;

/// Whether the IPAM provider carries out a Fault. If not, the infrastructure provider does.
#[must_use]
pub fn is_of_addresses(spec: &FaultSpec) -> bool {
    spec.effect.as_ref().is_some_and(FaultEffect::is_of_addresses)
}

/// A field of the spec that the schema would refuse.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("spec.{field}: {value:?} is not {expected}")]
pub struct Mistake {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl Mistake {
    /// The field, within the spec.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }
}

/// A mistake in a field.
pub fn mistake(field: &'static str, value: &(impl ToString + ?Sized), expected: &'static str) -> Mistake {
    Mistake {
        field,
        value: value.to_string(),
        expected,
    }
}

/// What a Fault matches.
#[must_use]
pub fn matches(wanted: &FaultMatch) -> Matches {
    let FaultMatch {
        operations,
        callers,
        names,
        pools,
        zones,
        regions,
        instance_types,
        markets,
        cluster_selector,
        machine_selector,
    } = wanted;
    let set = |values: &[String]| values.iter().cloned().collect();
    let selector = |selector: &Option<LabelSelector>| {
        selector
            .as_ref()
            .map(LabelSelector::get)
            .cloned()
            .unwrap_or_default()
    };
    Matches {
        operations: operations.iter().copied().collect(),
        callers: callers.iter().copied().collect(),
        names: set(names),
        pools: set(pools),
        zones: set(zones),
        regions: set(regions),
        instance_types: set(instance_types),
        markets: markets.iter().copied().collect(),
        cluster: selector(cluster_selector),
        instance: selector(machine_selector),
    }
}

/// The budget of a Fault.
///
/// # Errors
/// With the first field that cannot be used.
pub fn budget(wanted: &FaultBudget) -> Result<Budget, Mistake> {
    let FaultBudget {
        probability,
        skip,
        count,
        lasts,
        schedule,
    } = wanted;
    let number =
        |field, value: i32| u64::try_from(value).map_err(|_| mistake(field, &value, "a number from 0 on"));
    Ok(Budget {
        probability: Odds::new(probability.as_ref().map_or(1.0, Fraction::get)),
        skip: number("budget.skip", skip.unwrap_or_default())?,
        count: count.map(|count| number("budget.count", count)).transpose()?,
        lasts: lasts.as_ref().map(GoDuration::get),
        schedule: schedule.as_ref().map(schedule_of).transpose()?,
    })
}

fn schedule_of(FaultSchedule { every, lasts, offset }: &FaultSchedule) -> Result<Schedule, Mistake> {
    let every = every.get();
    let window = lasts.get();
    if window < TURN_MIN || every.saturating_sub(window) < TURN_MIN {
        let expected = "at least 1s, and 1s shorter than every";
        return Err(mistake("budget.schedule.for", lasts.as_str(), expected));
    }
    let offset = offset.as_ref().map(GoDuration::get).unwrap_or_default();
    Ok(Schedule {
        every,
        lasts: window,
        offset,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as KubeSelector;
    use kube::core::SelectorExt as _;
    use serde_json::{Value, json};

    use super::*;

    /// Why selectors are not read with `kube::core::Selector`: it agrees about what fits, and takes what Kubernetes refuses.
    #[test]
    fn selectors_fit_what_those_of_kube_match_but_fewer_are_selectors() {
        let expression = |operator: &str, values: Value| json!({ "matchExpressions": [{ "key": "zone", "operator": operator, "values": values }] });
        let of_kube = |value: &Value| {
            let parsed: KubeSelector = serde_json::from_value(value.clone()).expect("a label selector");
            kube::core::Selector::try_from(parsed)
        };
        let ours = |value: &Value| serde_json::from_value::<LabelSelector>(value.clone());
        let objects = [vec![], vec![("zone", "a")], vec![("zone", "b"), ("tier", "web")]].map(|labels| {
            labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect()
        });
        for value in [
            json!({}),
            json!({ "matchLabels": { "zone": "a" } }),
            json!({ "matchLabels": { "zone": "b", "tier": "web" } }),
            expression("In", json!(["a", "c"])),
            expression("NotIn", json!(["a"])),
            expression("Exists", json!([])),
            expression("DoesNotExist", Value::Null),
        ] {
            let ours = ours(&value).expect("a selector");
            let kubes = of_kube(&value).expect("a selector");
            for labels in &objects {
                let labels: &BTreeMap<String, String> = labels;
                assert_eq!(
                    ours.get().fits(labels),
                    kubes.matches(labels),
                    "{value} {labels:?}"
                );
            }
        }
        for value in [
            expression("In", json!([])),
            expression("NotIn", json!([])),
            expression("Exists", json!(["a"])),
            expression("DoesNotExist", json!(["a"])),
        ] {
            ours(&value).expect_err("no selector");
            of_kube(&value).expect("kube takes it");
        }
    }
}
