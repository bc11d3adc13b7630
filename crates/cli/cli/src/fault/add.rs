//! `nephele fault add`.

use std::{fmt::Debug, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use kube::{
    Api, CustomResourceExt as _, Resource, ResourceExt as _, api::PostParams, runtime::wait::await_condition,
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, ClusterFaultSpec, Fault, FaultStatus},
    conditions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    flags::{NamespaceArgs, SpecArgs, read, with_flag},
    selection::{Places, Selection},
};
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
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
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    namespaces: NamespaceArgs,
    /// Name of the Fault [default: made from the effect]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    wanted: SpecArgs,
    /// Print the Fault as YAML, and do not create it
    #[arg(long)]
    dry_run: bool,
}

/// Creates the Fault, and waits until it is in force.
pub(super) async fn run(args: AddArgs) -> anyhow::Result<ExitCode> {
    let AddArgs {
        access,
        namespaces,
        name,
        wanted,
        dry_run,
    } = args;
    let is_one = namespaces.is_one();
    let fault = fault(wanted, name, namespaces);
    let spec = checked(&fault)?;
    if dry_run {
        let text = serde_yaml_ng::to_string(&fault).context("failed to write the Fault")?;
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let access = access.open().await?;
    let client = access.client.clone();
    let namespace = is_one.then_some(&*access.namespace);
    let (said, matched) = if is_one {
        let api: Api<Fault> = Api::namespaced(access.client, &access.namespace);
        added(&api, namespace, &fault, in_force).await?
    } else {
        let api: Api<ClusterFault> = Api::all(access.client);
        added(&api, None, &fault, in_force_everywhere).await?
    };
    print(&format!("{said}\n"))?;
    // Who may not list what is there is not told.
    if matched == 0
        && let Ok(places) = Places::list(&client, namespace, &spec).await
        && let Some(why) = places.why_nothing(&spec.fault, Timestamp::now())
    {
        print(&format!("{why}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The spec of a Fault, as the providers read it. One that they would call invalid is not created.
fn checked(fault: &Value) -> Result<ClusterFaultSpec, Problem> {
    let wrong = |why: String| Problem::new(Exit::Failed, format!("the Fault cannot be used: {why}"));
    let spec = fault["spec"].as_object().cloned().unwrap_or_default();
    let spec = read(spec).map_err(wrong)?;
    match Selection::of_nothing(&spec.fault) {
        Ok(_) => Ok(spec),
        Err(mistake) => Err(wrong(with_flag(&mistake))),
    }
}

/// The Fault that the flags describe, as the API server takes it.
fn fault(wanted: SpecArgs, name: Option<String>, namespaces: NamespaceArgs) -> Value {
    let metadata = match name {
        Some(name) => json!({ "name": name }),
        None => json!({ "generateName": format!("{}-", wanted.effect.name.to_lowercase()) }),
    };
    let resource = if namespaces.is_one() {
        Fault::api_resource()
    } else {
        ClusterFault::api_resource()
    };
    let spec = namespaces.spec(wanted);
    json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec })
}

/// What a Fault that is in force does.
#[derive(Debug, PartialEq)]
struct InForce {
    phase: String,
    matched: i64,
    told: String,
    /// The message of the condition `Ready`.
    message: String,
}

/// Creates a Fault, and says its name and what it does once it is in force, and how much it has matched.
async fn added<K>(
    api: &Api<K>,
    namespace: Option<&str>,
    fault: &Value,
    in_force: fn(&K) -> Option<InForce>,
) -> anyhow::Result<(String, i64)>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let wanted = serde_json::from_value(fault.clone()).context("failed to make the Fault")?;
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
    let InForce {
        phase,
        matched,
        told,
        message,
    } = waited
        .map_err(|_| late())??
        .as_ref()
        .and_then(in_force)
        .ok_or_else(late)?;
    if phase == "Invalid" {
        return Err(Problem::new(Exit::Failed, format!("{called} is invalid: {message}")).into());
    }
    Ok((format!("{called} is {phase}{told}"), matched))
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
        matched: matched.unwrap_or_default(),
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
        matched: status.matched.unwrap_or_default(),
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
    use std::num::NonZeroU32;

    use nephele_testkit::ManagementApi;

    use super::*;
    use crate::fault::{
        flags::{BudgetArgs, MatchArgs},
        selector,
    };

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
            count: NonZeroU32::new(3),
            lasts: Some("10m".into()),
            ..BudgetArgs::default()
        };
        let one = NamespaceArgs::default;
        let wanted = SpecArgs {
            matches,
            budget,
            ..SpecArgs::of("fail: {reason: Throttled}")
        };
        let made = fault(wanted, None, one());
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
            let made = fault(SpecArgs::of("notReady"), Some("n".into()), namespaces);
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

    #[tokio::test]
    async fn it_is_told_when_the_fault_is_in_force_and_why_it_is_invalid() {
        let management = ManagementApi::start();
        let api: Api<Fault> = management.api();
        for (name, phase, expected) in [
            ("a", "Active", Ok("Fault default/a is Active: matched 3, hit 2")),
            ("b", "Invalid", Err("Fault default/b is invalid: no")),
        ] {
            let made = fault(
                SpecArgs::of("freeze"),
                Some(name.into()),
                NamespaceArgs::default(),
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
                Ok(text) => assert_eq!(added.expect("in force"), (text.to_owned(), 3)),
                Err(text) => assert!(added.expect_err("invalid").to_string().contains(text)),
            }
        }
    }
}
