//! `nephele fault add`.

use std::{fmt::Debug, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use kube::{
    Api, CustomResourceExt as _, Resource, ResourceExt as _, api::PostParams, runtime::wait::await_condition,
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault, FaultStatus},
    conditions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::selector;
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    manifests::BOUNDS,
    output::print,
    suggestion,
};

/// How long it may take until a new Fault is in force.
const IN_FORCE_MAX: Duration = Duration::from_secs(30);

pub(super) const AFTER_HELP: &str = "Examples:
  nephele fault add notReady --machines topology.cluster.x-k8s.io/deployment-name=workers --count 1
  nephele fault add 'fail: {reason: InsufficientCapacity}' --operation CreateInstance --for 10m
  nephele fault add 'apiServer: {latency: {duration: 2s}}' --target demo
  nephele fault add 'fail: {reason: Throttled}' --namespace-selector workshop=true --count 3

The chapter Faults of the documentation explains the effects.";

/// What goes wrong, where and how often.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The effect in YAML; its name is enough for one without settings
    #[arg(value_parser = effect_of)]
    effect: NamedEffect,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    namespaces: NamespaceArgs,
    /// Name of the Fault [default: made from the effect]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    matches: MatchArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Print the Fault as YAML, and do not create it
    #[arg(long)]
    dry_run: bool,
}

/// An effect, and its name.
#[derive(Clone, Debug, PartialEq)]
struct NamedEffect {
    name: String,
    effect: Value,
}

/// In which namespaces, if not in one: with these flags, it is a ClusterFault.
#[derive(Debug, Default, Args)]
struct NamespaceArgs {
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// In namespaces with these labels, such as key=value,!key
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    #[arg(conflicts_with_all = ["namespace", "all_namespaces"])]
    namespace_selector: Option<Value>,
}

impl NamespaceArgs {
    fn is_one(&self) -> bool {
        !self.all_namespaces && self.namespace_selector.is_none()
    }
}

/// What it matches: everything, without these flags.
#[derive(Debug, Default, Args)]
struct MatchArgs {
    /// This operation, such as CreateInstance; repeatable
    #[arg(long = "operation", value_name = "OPERATION")]
    operations: Vec<String>,
    /// This caller of operations; repeatable
    #[arg(long = "caller", value_name = "CALLER")]
    callers: Vec<String>,
    /// The machine or cluster of this name; repeatable
    #[arg(long = "target", value_name = "NAME")]
    names: Vec<String>,
    /// IPAddressClaims on the pool of this name; repeatable
    #[arg(long = "pool", value_name = "POOL")]
    pools: Vec<String>,
    /// Machines in this zone; repeatable
    #[arg(long = "zone", value_name = "ZONE")]
    zones: Vec<String>,
    /// Machines and load balancers in this region; repeatable
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<String>,
    /// Machines of this instance type; repeatable
    #[arg(long = "instance-type", value_name = "TYPE")]
    instance_types: Vec<String>,
    /// Machines that are paid for so: OnDemand or Spot; repeatable
    #[arg(long = "market", value_name = "MARKET")]
    markets: Vec<String>,
    /// Machines with these labels, such as key=value,!key
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    machines: Option<Value>,
    /// Clusters with these labels
    #[arg(long, value_name = "SELECTOR", value_parser = selector::parse)]
    clusters: Option<Value>,
}

/// How often.
#[derive(Debug, Default, Args)]
struct BudgetArgs {
    /// Probability of a hit, from 0 to 1
    #[arg(long, value_name = "NUMBER")]
    probability: Option<String>,
    /// How many are spared before the first hit
    #[arg(long, value_name = "NUMBER")]
    skip: Option<u32>,
    /// How many are hit at most
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
    /// How long it is active
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<String>,
    /// When it is in force, in YAML, such as '{every: 10m, for: 1m}'
    #[arg(long, value_name = "SCHEDULE", value_parser = schedule_of)]
    schedule: Option<Value>,
}

/// Creates the Fault, and waits until it is in force.
pub(super) async fn run(args: AddArgs) -> anyhow::Result<ExitCode> {
    let AddArgs {
        effect,
        access,
        namespaces,
        name,
        matches,
        budget,
        dry_run,
    } = args;
    let is_one = namespaces.is_one();
    let fault = fault(effect, name, namespaces, matches, budget);
    if dry_run {
        let text = serde_yaml_ng::to_string(&fault).context("failed to write the Fault")?;
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let access = access.open().await?;
    let said = if is_one {
        let api: Api<Fault> = Api::namespaced(access.client, &access.namespace);
        added(&api, Some(&access.namespace), &fault, in_force).await?
    } else {
        let api: Api<ClusterFault> = Api::all(access.client);
        added(&api, None, &fault, in_force_everywhere).await?
    };
    print(&format!("{said}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The Fault that the flags describe, as the API server takes it.
fn fault(
    effect: NamedEffect,
    name: Option<String>,
    namespaces: NamespaceArgs,
    matches: MatchArgs,
    budget: BudgetArgs,
) -> Value {
    let NamedEffect { name: word, effect } = effect;
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
    } = matches;
    let BudgetArgs {
        probability,
        skip,
        count,
        lasts,
        schedule,
    } = budget;
    let matches = json!({
        "operations": operations, "callers": callers, "names": names, "pools": pools, "zones": zones,
        "regions": regions, "instanceTypes": instance_types, "markets": markets, "machineSelector": machines,
        "clusterSelector": clusters,
    });
    let budget = json!({
        "probability": probability, "skip": skip, "count": count, "for": lasts, "schedule": schedule,
    });
    let mut spec = Map::from_iter([("effect".to_owned(), effect)]);
    let resource = if namespaces.is_one() {
        Fault::api_resource()
    } else {
        ClusterFault::api_resource()
    };
    spec.extend(
        namespaces
            .namespace_selector
            .map(|selector| ("namespaceSelector".to_owned(), selector)),
    );
    for (field, value) in [("match", matches), ("budget", budget)] {
        let set = without_unset(value);
        spec.extend((!set.is_empty()).then(|| (field.to_owned(), Value::Object(set))));
    }
    let metadata = match name {
        Some(name) => json!({ "name": name }),
        None => json!({ "generateName": format!("{}-", word.to_lowercase()) }),
    };
    json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec })
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
    let definition = serde_json::to_value(Fault::crd()).unwrap_or_default();
    let spec = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    let fields = spec.and_then(|spec| spec.pointer(&format!("/{field}/properties")));
    fields
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
        .cloned()
        .collect()
}

/// What a Fault that is in force does.
#[derive(Debug, PartialEq)]
struct InForce {
    phase: String,
    told: String,
    /// The message of the condition `Ready`.
    message: String,
}

/// Creates a Fault, and says its name and what it does once it is in force.
async fn added<K>(
    api: &Api<K>,
    namespace: Option<&str>,
    fault: &Value,
    in_force: fn(&K) -> Option<InForce>,
) -> anyhow::Result<String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let wanted = serde_json::from_value(fault.clone()).map_err(|error| {
        Problem::new(
            Exit::Failed,
            format!("the effect does not have the form of the chapter Faults: {error}"),
        )
    })?;
    let kind = K::kind(&());
    let created = api
        .create(&PostParams::default(), &wanted)
        .await
        .map_err(|error| {
            let place = namespace
                .map(|namespace| format!(" in namespace {namespace}"))
                .unwrap_or_default();
            let what = format!("create a {kind}{place}");
            Problem::request(
                &what,
                &format!("create {}.cloud.nephele.dev", K::plural(&())),
                error,
            )
        })?;
    let name = created.name_any();
    let folder = namespace.map(|namespace| format!("{namespace}/"));
    let called = format!("{kind} {}{name}", folder.unwrap_or_default());
    let is_in_force = |fault: Option<&K>| fault.and_then(in_force).is_some();
    let waited = timeout(IN_FORCE_MAX, await_condition(api.clone(), &name, is_in_force)).await;
    let late = || {
        let limit = nephele_go_duration::format(IN_FORCE_MAX);
        let message = format!("{called} is not in force after {limit}; does a manager run?");
        Problem::new(Exit::Failed, message)
    };
    let InForce { phase, told, message } = waited
        .map_err(|_| late())??
        .as_ref()
        .and_then(in_force)
        .ok_or_else(late)?;
    if phase == "Invalid" {
        return Err(Problem::new(Exit::Failed, format!("{called} is invalid: {message}")).into());
    }
    Ok(format!("{called} is {phase}{told}"))
}

/// What a Fault does, if its status describes the current spec.
fn in_force(fault: &Fault) -> Option<InForce> {
    let FaultStatus {
        phase,
        matched,
        hits,
        conditions,
        ..
    } = fault.status.clone()?;
    let ready = conditions::find(&conditions, conditions::types::READY)?;
    let is_current = ready.observed_generation == fault.metadata.generation && !phase.is_empty();
    let told = format!(": {}", counted(matched, hits));
    is_current.then(|| InForce {
        phase,
        told,
        message: ready.message.clone(),
    })
}

/// What a ClusterFault does, if its status describes the current spec, and each namespace has its Fault or cannot have it.
fn in_force_everywhere(fault: &ClusterFault) -> Option<InForce> {
    let status = fault.status.clone()?;
    let ready = conditions::find(&status.conditions, conditions::types::READY)?;
    let is_current = ready.observed_generation == fault.metadata.generation;
    let is_settled =
        ready.status == conditions::TRUE || status.phase == "Invalid" || !status.refused.is_empty();
    let namespaces = match status.namespaces.unwrap_or_default() {
        1 => "1 namespace".to_owned(),
        count => format!("{count} namespaces"),
    };
    let trouble = match ready.message.as_str() {
        message if ready.status == conditions::FALSE => format!("; {message}"),
        _ => String::new(),
    };
    let told = format!(
        " in {namespaces}: {}{trouble}",
        counted(status.matched, status.hits)
    );
    (is_current && is_settled).then(|| InForce {
        phase: status.phase,
        told,
        message: ready.message.clone(),
    })
}

fn counted(matched: Option<i64>, hits: Option<i64>) -> String {
    let [matched, hits] = [matched, hits].map(Option::unwrap_or_default);
    format!("matched {matched}, hit {hits}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nephele_testkit::ManagementApi;

    use super::*;

    fn effect(text: &str) -> NamedEffect {
        effect_of(text).expect("an effect")
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

    #[test]
    fn flags_make_a_fault() {
        let matches = MatchArgs {
            operations: vec!["CreateInstance".into()],
            zones: vec!["a".into(), "b".into()],
            regions: vec!["r".into()],
            machines: Some(selector::parse("x=y").expect("a selector")),
            ..MatchArgs::default()
        };
        let budget = BudgetArgs {
            count: Some(3),
            lasts: Some("10m".into()),
            ..BudgetArgs::default()
        };
        let one = NamespaceArgs::default;
        let made = fault(effect("fail: {reason: Throttled}"), None, one(), matches, budget);
        let labels = json!({ "matchExpressions": [{ "key": "x", "operator": "In", "values": ["y"] }] });
        let expected = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1",
            "kind": "Fault",
            "metadata": { "generateName": "fail-" },
            "spec": {
                "effect": { "fail": { "reason": "Throttled" } },
                "match": { "operations": ["CreateInstance"], "zones": ["a", "b"], "regions": ["r"], "machineSelector": labels },
                "budget": { "count": 3, "for": "10m" },
            },
        });
        assert_eq!(made, expected);
        let plain = |namespaces| {
            let name = Some("n".into());
            let effect = effect("notReady");
            let made = fault(
                effect,
                name,
                namespaces,
                MatchArgs::default(),
                BudgetArgs::default(),
            );
            assert_eq!(made["metadata"], json!({ "name": "n" }));
            (made["kind"].clone(), made["spec"].clone())
        };
        let effect = json!({ "notReady": {} });
        assert_eq!(plain(one()), (json!("Fault"), json!({ "effect": effect })));
        let everywhere = NamespaceArgs {
            all_namespaces: true,
            namespace_selector: None,
        };
        assert_eq!(
            plain(everywhere),
            (json!("ClusterFault"), json!({ "effect": effect }))
        );
        let namespace_selector = Some(selector::parse("x=y").expect("a selector"));
        let selected = NamespaceArgs {
            all_namespaces: false,
            namespace_selector,
        };
        let spec = json!({ "effect": effect, "namespaceSelector": labels });
        assert_eq!(plain(selected), (json!("ClusterFault"), spec));
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
        let made = fault(effect("freeze"), None, NamespaceArgs::default(), matches, budget);
        for field in ["match", "budget"] {
            let set = made["spec"][field].as_object().expect("fields").keys();
            assert_eq!(
                set.collect::<BTreeSet<_>>(),
                fields_of(field).iter().collect(),
                "{field}"
            );
        }
        assert_eq!(
            made["spec"]["budget"]["schedule"],
            json!({ "every": "10m", "for": "1m" })
        );
        for wrong in ["often", "{", "[1m]"] {
            assert!(schedule_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_fault_is_in_force_when_each_namespace_has_it_or_cannot_have_it() {
        let fault = |phase: &str, ready: &str, message: &str, refused: &[&str]| -> ClusterFault {
            let refused: Vec<_> = refused
                .iter()
                .map(|name| json!({ "namespace": name, "message": "full" }))
                .collect();
            let ready = json!({
                "type": "Ready", "status": ready, "reason": "R", "message": message,
                "lastTransitionTime": "2026-03-04T05:06:07Z", "observedGeneration": 2,
            });
            let status = json!({
                "phase": phase, "namespaces": 3, "matched": 5, "hits": 4, "refused": refused, "conditions": [ready],
            });
            let object = json!({
                "metadata": { "name": "c", "generation": 2 }, "spec": { "effect": { "freeze": {} } }, "status": status,
            });
            serde_json::from_value(object).expect("a ClusterFault")
        };
        let told = |fault: &ClusterFault| in_force_everywhere(fault).map(|in_force| in_force.told);
        let counts = " in 3 namespaces: matched 5, hit 4";
        assert_eq!(told(&fault("Active", "True", "", &[])).as_deref(), Some(counts));
        assert_eq!(told(&fault("Active", "False", "in 3 of 4", &[])), None);
        let refused = fault("Active", "False", "a is full", &["a"]);
        assert_eq!(told(&refused), Some(format!("{counts}; a is full")));
        let earlier = ClusterFault {
            metadata: kube::core::ObjectMeta {
                generation: Some(3),
                ..refused.metadata.clone()
            },
            ..refused
        };
        assert_eq!(told(&earlier), None);
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

    #[tokio::test]
    async fn it_is_told_when_the_fault_is_in_force_and_why_it_is_invalid() {
        let management = ManagementApi::start();
        let api: Api<Fault> = management.api();
        for (name, phase, expected) in [
            ("a", "Active", Ok("Fault default/a is Active: matched 3, hit 2")),
            ("b", "Invalid", Err("Fault default/b is invalid: no")),
        ] {
            let made = fault(
                effect("freeze"),
                Some(name.into()),
                NamespaceArgs::default(),
                MatchArgs::default(),
                BudgetArgs::default(),
            );
            let api = api.clone();
            let adding = tokio::spawn(async move { added(&api, Some("default"), &made, in_force).await });
            let exists = |_: &Fault| true;
            let created = management.eventually::<Fault>(name, "to exist", exists).await;
            let ready = json!({
                "type": "Ready", "status": "True", "reason": "R", "message": "no",
                "lastTransitionTime": "2026-03-04T05:06:07Z", "observedGeneration": created.metadata.generation,
            });
            let status = json!({ "phase": phase, "matched": 3, "hits": 2, "conditions": [ready] });
            management.patch_status::<Fault>(name, &status).await;
            let added = adding.await.expect("no panic");
            match expected {
                Ok(text) => assert_eq!(added.expect("in force"), text),
                Err(text) => assert!(added.expect_err("invalid").to_string().contains(text)),
            }
        }
    }
}
