//! The address fault that a Fault describes. Pure.

use std::{collections::BTreeSet, time::Duration};

use nephele_api::cloud::v1alpha1::{AFFECTED_MAX, FaultSpec};
use nephele_fault::{Mistake, mistake};
use nephele_model::{Budget, FaultEffect, Matches, Selector, effect as wire};

/// What goes wrong with addresses, for which claims, and how often.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddressFault {
    /// The names of pools. All if empty.
    pub(super) pools: BTreeSet<String>,
    /// The labels of the claims' Clusters.
    pub(super) clusters: Selector,
    pub(super) effect: Effect,
    pub(super) budget: Budget,
}

/// What happens to a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    /// It is served this time after its creation, and up to this part of the time more.
    Slow { base: Duration, jitter: f64 },
    /// It gets no address.
    Exhausted,
    /// The address that it would get is in use outside of the pool.
    Conflict,
    /// Its address is held back for this time after its deletion.
    LateRelease(Duration),
}

impl Effect {
    /// Whether what it hits keeps an address from all claims.
    pub(super) fn keeps_addresses(self) -> bool {
        matches!(self, Self::Conflict | Self::LateRelease(_))
    }
}

const FOR_MACHINES: &str = "for a fault of addresses";

/// The address fault of a spec. The schema refuses every mistake; this is for objects that got past the schema.
///
/// # Errors
/// With the first field that cannot be used.
pub(super) fn read(spec: &FaultSpec) -> Result<AddressFault, Mistake> {
    let FaultSpec {
        matches,
        effect,
        budget,
    } = spec;
    let Matches {
        operations,
        callers,
        names,
        pools,
        zones,
        regions,
        instance_types,
        markets,
        cluster,
        instance: _,
    } = nephele_fault::matches(matches);
    let unfit = [
        (
            "match.operations",
            operations.first().map(|operation| operation.as_str()),
        ),
        ("match.callers", callers.first().map(|caller| caller.as_str())),
        ("match.names", names.first().map(String::as_str)),
        ("match.zones", zones.first().map(String::as_str)),
        ("match.regions", regions.first().map(String::as_str)),
        ("match.instanceTypes", instance_types.first().map(String::as_str)),
        ("match.markets", markets.first().map(|market| market.as_str())),
    ];
    if let Some((field, value)) = unfit.into_iter().find_map(|(field, value)| Some((field, value?))) {
        return Err(mistake(field, value, FOR_MACHINES));
    }
    if let Some(selector) = &matches.machine_selector {
        return Err(mistake("match.machineSelector", selector, FOR_MACHINES));
    }
    let Some(FaultEffect::Addresses(effect)) = effect else {
        return Err(mistake("effect", "{}", "an effect on addresses"));
    };
    let budget = nephele_fault::budget(budget)?;
    if let Some(count) = budget.count.filter(|count| *count > AFFECTED_MAX as u64) {
        return Err(mistake(
            "budget.count",
            &count,
            "at most 100, for a fault of addresses",
        ));
    }
    Ok(AddressFault {
        pools,
        clusters: cluster,
        effect: effect_of(effect),
        budget,
    })
}

fn effect_of(wanted: &wire::AddressFault) -> Effect {
    match wanted {
        wire::AddressFault::Slow(delay) => Effect::Slow {
            base: delay.duration.get(),
            jitter: delay.jitter(),
        },
        wire::AddressFault::Exhausted {} => Effect::Exhausted,
        wire::AddressFault::Conflict {} => Effect::Conflict,
        wire::AddressFault::LateRelease(late) => Effect::LateRelease(late.duration.get()),
    }
}

#[cfg(test)]
mod tests {
    use nephele_model::Requirement;
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Result<AddressFault, String> {
        let spec: FaultSpec = serde_json::from_value(spec).expect("readable");
        read(&spec).map_err(|mistake| mistake.to_string())
    }

    fn exhausted() -> Value {
        json!({ "addresses": { "exhausted": {} } })
    }

    #[test]
    fn every_field_has_its_meaning() {
        let spec = json!({
            "match": { "pools": ["p", "q"], "clusterSelector": { "matchLabels": { "team": "blue" } } },
            "effect": { "addresses": { "slow": { "duration": "1m", "jitter": "0.5" } } },
            "budget": { "count": 3 },
        });
        let blue = Requirement::In("team".into(), BTreeSet::from(["blue".into()]));
        let expected = AddressFault {
            pools: BTreeSet::from(["p".into(), "q".into()]),
            clusters: Selector(vec![blue]),
            effect: Effect::Slow {
                base: Duration::from_secs(60),
                jitter: 0.5,
            },
            budget: Budget {
                count: Some(3),
                ..Budget::default()
            },
        };
        assert_eq!(of(spec), Ok(expected));
        let effect = |addresses: Value| of(json!({ "effect": { "addresses": addresses } })).map(|f| f.effect);
        assert_eq!(effect(json!({ "exhausted": {} })), Ok(Effect::Exhausted));
        assert_eq!(effect(json!({ "conflict": {} })), Ok(Effect::Conflict));
        let late = Effect::LateRelease(Duration::from_secs(90));
        assert_eq!(effect(json!({ "lateRelease": { "duration": "90s" } })), Ok(late));
    }

    #[test]
    fn every_mistake_is_named() {
        let unfit = |field: &str, value: Value| {
            (
                json!({ "match": { field: value }, "effect": exhausted() }),
                format!("spec.match.{field}: "),
            )
        };
        let cases = [
            (
                json!({ "effect": { "freeze": {} } }),
                r#"spec.effect: "{}" is not an effect on addresses"#.to_owned(),
            ),
            (
                json!({ "effect": exhausted(), "budget": { "count": 101 } }),
                r#"spec.budget.count: "101" is not at most 100, for a fault of addresses"#.to_owned(),
            ),
            unfit("operations", json!(["CreateInstance"])),
            unfit("callers", json!(["machine"])),
            unfit("names", json!(["m"])),
            unfit("zones", json!(["z"])),
            unfit("regions", json!(["r"])),
            unfit("instanceTypes", json!(["t"])),
            unfit("markets", json!(["Spot"])),
            unfit("machineSelector", json!({ "matchLabels": { "a": "b" } })),
        ];
        for (spec, message) in cases {
            let told = of(spec.clone()).expect_err("a mistake");
            assert!(told.starts_with(&message), "{spec}: {told}");
        }
    }
}
