//! Flags that describe the spec of a Fault.

use std::num::NonZeroU32;

use clap::Args;
use kube::CustomResourceExt as _;
use nephele_api::cloud::v1alpha1::{ClusterFaultSpec, Fault};
use nephele_fault::Mistake;
use serde_json::{Map, Value, json};

use super::selector;
use crate::{manifests::BOUNDS, suggestion};

/// What goes wrong, on what and how often.
#[derive(Debug, Args)]
pub(super) struct SpecArgs {
    /// The effect in YAML; its name is enough for one without settings
    #[arg(value_parser = effect_of)]
    pub(super) effect: NamedEffect,
    #[command(flatten)]
    pub(super) matches: MatchArgs,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
}

/// An effect, and its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamedEffect {
    pub(super) name: String,
    effect: Value,
}

/// What it matches: everything, without these flags.
#[derive(Debug, Default, Args)]
pub(super) struct MatchArgs {
    /// This operation, such as CreateInstance; repeatable
    #[arg(long = "operation", value_name = "OPERATION")]
    pub(super) operations: Vec<String>,
    /// This caller of operations; repeatable
    #[arg(long = "caller", value_name = "CALLER")]
    pub(super) callers: Vec<String>,
    /// The machine or cluster of this name; repeatable
    #[arg(long = "target", value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// IPAddressClaims on the pool of this name; repeatable
    #[arg(long = "pool", value_name = "POOL")]
    pub(super) pools: Vec<String>,
    /// Machines in this zone; repeatable
    #[arg(long = "zone", value_name = "ZONE")]
    pub(super) zones: Vec<String>,
    /// Machines and load balancers in this region; repeatable
    #[arg(long = "region", value_name = "REGION")]
    pub(super) regions: Vec<String>,
    /// Machines of this instance type; repeatable
    #[arg(long = "instance-type", value_name = "TYPE")]
    pub(super) instance_types: Vec<String>,
    /// Machines that are paid for so: OnDemand or Spot; repeatable
    #[arg(long = "market", value_name = "MARKET")]
    pub(super) markets: Vec<String>,
    /// Machines with these labels, such as key=value,!key
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    pub(super) machines: Option<Value>,
    /// Clusters with these labels
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    pub(super) clusters: Option<Value>,
}

/// How often.
#[derive(Debug, Default, Args)]
pub(super) struct BudgetArgs {
    /// Probability of a hit, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    pub(super) probability: Option<String>,
    /// How many are spared before the first hit
    #[arg(long, value_name = "NUMBER")]
    pub(super) skip: Option<u32>,
    /// How many are hit at most
    #[arg(long, value_name = "NUMBER")]
    pub(super) count: Option<NonZeroU32>,
    /// How long it is active
    #[arg(long = "for", value_name = "DURATION")]
    pub(super) lasts: Option<String>,
    /// When it is in force, in YAML, such as '{every: 10m, for: 1m}'
    #[arg(long, value_name = "SCHEDULE", value_parser = schedule_of)]
    pub(super) schedule: Option<Value>,
}

/// In which namespaces, if not in one: with these flags, it is a ClusterFault.
#[derive(Debug, Default, Args)]
pub(super) struct NamespaceArgs {
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,
    /// In namespaces with these labels, such as key=value,!key
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    #[arg(conflicts_with_all = ["namespace", "all_namespaces"])]
    pub(super) namespace_selector: Option<Value>,
}

impl NamespaceArgs {
    pub(super) fn is_one(&self) -> bool {
        !self.all_namespaces && self.namespace_selector.is_none()
    }

    /// The spec of a Fault, or of the ClusterFault, as the API server takes it.
    pub(super) fn spec(self, wanted: SpecArgs) -> Map<String, Value> {
        let mut spec = wanted.spec();
        let selector = self.namespace_selector;
        spec.extend(selector.map(|selector| ("namespaceSelector".to_owned(), selector)));
        spec
    }
}

impl SpecArgs {
    /// The spec, as the API server takes it.
    pub(super) fn spec(self) -> Map<String, Value> {
        let MatchArgs {
            operations,
            callers,
            names,
            pools,
            zones,
            regions,
            instance_types,
            markets,
            machines,
            clusters,
        } = self.matches;
        let BudgetArgs {
            probability,
            skip,
            count,
            lasts,
            schedule,
        } = self.budget;
        let matches = json!({
            "operations": operations, "callers": callers, "names": names, "pools": pools, "zones": zones,
            "regions": regions, "instanceTypes": instance_types, "markets": markets, "machineSelector": machines,
            "clusterSelector": clusters,
        });
        let budget = json!({
            "probability": probability, "skip": skip, "count": count, "for": lasts, "schedule": schedule,
        });
        let mut spec = Map::from_iter([("effect".to_owned(), self.effect.effect)]);
        for (field, value) in [("match", matches), ("budget", budget)] {
            let set = without_unset(value);
            spec.extend((!set.is_empty()).then(|| (field.to_owned(), Value::Object(set))));
        }
        spec
    }
}

/// The flags of the fields of match and budget.
const FLAGS: [(&str, &str, &str); 15] = [
    ("match", "operations", "--operation"),
    ("match", "callers", "--caller"),
    ("match", "names", "--target"),
    ("match", "pools", "--pool"),
    ("match", "zones", "--zone"),
    ("match", "regions", "--region"),
    ("match", "instanceTypes", "--instance-type"),
    ("match", "markets", "--market"),
    ("match", "machineSelector", "--machines"),
    ("match", "clusterSelector", "--clusters"),
    ("budget", "probability", "--probability"),
    ("budget", "skip", "--skip"),
    ("budget", "count", "--count"),
    ("budget", "for", "--for"),
    ("budget", "schedule", "--schedule"),
];

/// The flag of a field of match.
pub(super) fn flag_of_match(field: &str) -> Option<&'static str> {
    let found = FLAGS
        .iter()
        .find(|(part, of, _)| *part == "match" && *of == field);
    found.map(|(_, _, flag)| *flag)
}

/// A mistake in a field, with the flag that sets it.
pub(super) fn with_flag(mistake: &Mistake) -> String {
    let is_set_by = |(part, field, _): &&(&str, &str, &str)| {
        let rest = mistake.field().strip_prefix(*part);
        let rest = rest.and_then(|rest| rest.strip_prefix('.')?.strip_prefix(*field));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match FLAGS.iter().find(is_set_by) {
        Some((_, _, flag)) => format!("{flag}: {mistake}"),
        None => mistake.to_string(),
    }
}

/// Reads the spec that flags have made.
///
/// # Errors
/// With the flag, or the field of the effect, that cannot be used.
pub(super) fn read(spec: Map<String, Value>) -> Result<ClusterFaultSpec, String> {
    let effect = json!({"effect": spec.get("effect").cloned().unwrap_or_default()});
    let alone =
        |spec: Value| serde_json::from_value::<ClusterFaultSpec>(spec).map_err(|error| error.to_string());
    if let Some(why) = unknown_field(&effect["effect"], &schema_of("effect"), "effect") {
        return Err(why);
    }
    alone(effect.clone())
        .map_err(|why| format!("the effect does not have the form of the chapter Faults: {why}"))?;
    for (part, field, flag) in FLAGS {
        let Some(value) = spec.get(part).and_then(|fields| fields.get(field)) else {
            continue;
        };
        let mut with = effect.clone();
        with[part] = json!({ field: value });
        alone(with).map_err(|why| format!("{flag}: {why}"))?;
    }
    alone(Value::Object(spec))
}

/// What to say of the first field that a schema does not have; nothing if it has all of them.
fn unknown_field(value: &Value, schema: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let none = Map::new();
            let known = match schema["properties"].as_object() {
                Some(known) => known,
                // One without a list of its fields may take any.
                None if takes_any(schema) => return None,
                None => &none,
            };
            fields.iter().find_map(|(name, value)| match known.get(name) {
                Some(schema) => unknown_field(value, schema, &format!("{path}.{name}")),
                None => {
                    let near = suggestion::near(name, known.keys().cloned());
                    let all: Vec<_> = known.keys().map(String::as_str).collect();
                    let hint = match near.as_slice() {
                        [] if all.is_empty() => "it has none".to_owned(),
                        [] => format!("its fields are {}", all.join(", ")),
                        near => suggestion::question(near),
                    };
                    Some(format!("{path} has no field {name}; {hint}"))
                }
            })
        }
        Value::Array(items) => items
            .iter()
            .find_map(|item| unknown_field(item, &schema["items"], path)),
        _ => None,
    }
}

/// Whether an object may have fields that its schema does not list.
fn takes_any(schema: &Value) -> bool {
    !schema["additionalProperties"].is_null() || schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The fields that a flag has set.
fn without_unset(value: Value) -> Map<String, Value> {
    let Value::Object(fields) = value else {
        return Map::new();
    };
    let is_set = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    fields.into_iter().filter(|(_, value)| is_set(value)).collect()
}

/// Reads an effect.
fn effect_of(text: &str) -> Result<NamedEffect, String> {
    let wrong = |why: String| format!("{why}; the effects are {}", effects().join(", "));
    let effect = match yaml_of(text).map_err(wrong)? {
        Value::String(name) => Map::from_iter([(name, json!({}))]),
        Value::Object(effect) if effect.len() == 1 => effect,
        _ => return Err(wrong("it is not one effect".to_owned())),
    };
    let name = effect.keys().next().expect("it has one").clone();
    if !effects().contains(&name) {
        let why = format!("there is no effect {name}");
        return Err(match suggestion::near(&name, effects()).as_slice() {
            [] => wrong(why),
            near => format!("{why}; {}", suggestion::question(near)),
        });
    }
    Ok(NamedEffect {
        name,
        effect: Value::Object(effect),
    })
}

/// Reads a schedule.
fn schedule_of(text: &str) -> Result<Value, String> {
    let schedule = yaml_of(text)?;
    let is_schedule = schedule.is_object();
    is_schedule
        .then_some(schedule)
        .ok_or_else(|| "it is not a schedule, such as {every: 10m, for: 1m}".to_owned())
}

fn yaml_of(text: &str) -> Result<Value, String> {
    nephele_yaml::read_one(text, &BOUNDS).map_err(|error| format!("it is not YAML: {error}"))
}

/// The names of all effects, as the definition of the kind has them.
fn effects() -> Vec<String> {
    fields_of("effect")
}

/// The fields of a field of the spec, as the definition of the kind has them.
fn fields_of(field: &str) -> Vec<String> {
    let schema = schema_of(field);
    let fields = schema["properties"].as_object();
    fields.into_iter().flat_map(Map::keys).cloned().collect()
}

/// The schema of a field of the spec, as the definition of the kind has it.
fn schema_of(field: &str) -> Value {
    let definition = serde_json::to_value(Fault::crd()).unwrap_or_default();
    let spec = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    spec.and_then(|spec| spec.get(field)).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    impl SpecArgs {
        pub(crate) fn of(effect: &str) -> Self {
            Self {
                effect: effect_of(effect).expect("an effect"),
                matches: MatchArgs::default(),
                budget: BudgetArgs::default(),
            }
        }
    }

    #[test]
    fn a_misspelt_effect_is_answered_with_the_one_that_is_meant() {
        let told = |name: &str| effect_of(name).expect_err("there is none");
        assert_eq!(
            told("notready"),
            "there is no effect notready; did you mean notReady?"
        );
        let other = told("clokSkew");
        assert!(
            other.starts_with("there is no effect clokSkew; did you mean clockSkew"),
            "{other}"
        );
        let other = told("gremlins");
        assert!(
            other.starts_with("there is no effect gremlins; the effects are addresses, "),
            "{other}"
        );
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        matches: MatchArgs,
        #[command(flatten)]
        budget: BudgetArgs,
    }

    /// A field that has no flag can only be set in a manifest.
    #[test]
    fn every_field_of_match_and_budget_has_a_flag() {
        let flags = "x --operation a --caller a --target a --pool a --zone a --region a --instance-type a --market a \
                     --machines a --clusters a --probability 1 --skip 1 --count 1 --for 1m --schedule";
        let arguments = flags.split_whitespace().chain(["{every: 10m, for: 1m}"]);
        let Line { matches, budget } = clap::Parser::parse_from(arguments);
        let made = SpecArgs {
            matches,
            budget,
            ..SpecArgs::of("freeze")
        }
        .spec();
        for field in ["match", "budget"] {
            let set = made[field].as_object().expect("fields").keys();
            assert_eq!(
                set.collect::<BTreeSet<_>>(),
                fields_of(field).iter().collect(),
                "{field}"
            );
            for name in fields_of(field) {
                let flag = FLAGS.iter().find(|(part, of, _)| *part == field && *of == name);
                let (_, _, flag) = flag.unwrap_or_else(|| panic!("{name} has a flag"));
                assert!(
                    flags.contains(&format!("{flag} ")) || flags.ends_with(flag),
                    "{flag}"
                );
            }
        }
        assert_eq!(made["budget"]["schedule"], json!({ "every": "10m", "for": "1m" }));
        for wrong in ["often", "{", "[1m]"] {
            assert!(schedule_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistake_names_the_flag_or_the_field_of_the_effect_and_what_is_meant() {
        let read = |effect: &str, part: &str, value: Value| {
            let mut spec = SpecArgs::of(effect).spec();
            spec.insert(part.to_owned(), value);
            super::read(spec).map(drop)
        };
        let none = || json!({});
        for (effect, part, value, expected) in [
            (
                "fail: {reasons: Throttled}",
                "budget",
                none(),
                "effect.fail has no field reasons; did you mean reason?",
            ),
            (
                "notReady: {foo: 1}",
                "budget",
                none(),
                "effect.notReady has no field foo; it has none",
            ),
            (
                "fail: {zzz: now}",
                "budget",
                none(),
                "effect.fail has no field zzz; its fields are ",
            ),
            (
                "fail: {}",
                "budget",
                none(),
                "the effect does not have the form of the chapter Faults: ",
            ),
            ("freeze", "budget", json!({"for": "5"}), "--for: "),
            ("freeze", "budget", json!({"probability": "2"}), "--probability: "),
            (
                "freeze",
                "match",
                json!({"operations": ["CreateInstances"]}),
                "--operation: ",
            ),
        ] {
            let why = read(effect, part, value).expect_err(effect);
            assert!(why.starts_with(expected), "{why}");
        }
        let spec = SpecArgs::of("freeze").spec();
        assert!(super::read(spec).is_ok());
        let of_address = nephele_fault::mistake("match.names", "demo", "for a fault of addresses");
        assert_eq!(
            with_flag(&of_address),
            "--target: spec.match.names: \"demo\" is not for a fault of addresses"
        );
        let of_effect = nephele_fault::mistake("effect", "x", "one");
        assert_eq!(with_flag(&of_effect), of_effect.to_string());
    }

    #[test]
    fn what_is_not_one_effect_is_refused_with_the_list_of_effects() {
        for wrong in ["gremlins", "fail: {}\nfreeze: {}", "[freeze]", "{", ""] {
            let told = effect_of(wrong).expect_err(wrong);
            assert!(
                told.contains("; the effects are addresses, apiServer, "),
                "{told}"
            );
        }
    }
}
