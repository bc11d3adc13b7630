//! `nephele fault preview`: what a Fault would hit, by the matcher of the cloud itself. It reads objects and writes nothing.

use std::{fmt::Debug, process::ExitCode, sync::Arc};

use clap::Args;
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectList},
    core::NamespaceResourceScope,
};
use nephele_api::cloud::v1alpha1::{FaultBudget, FaultSpec};
use nephele_infra_controller::{Objects, Preview, preview};
use nephele_model::FaultEffect;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::flags::SpecArgs;
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    output::print,
};

pub(super) const AFTER_HELP: &str = "Example:
  nephele fault preview notReady --zone zone-a --count 1";

/// The Fault, with the flags of `nephele fault add`.
#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    wanted: SpecArgs,
}

/// Prints what the Fault would select.
pub(super) async fn run(args: PreviewArgs) -> anyhow::Result<ExitCode> {
    let PreviewArgs { access, wanted } = args;
    let wrong = |why: String| Problem::new(Exit::Failed, format!("failed to preview the Fault: {why}"));
    let spec: FaultSpec =
        serde_json::from_value(Value::Object(wanted.spec())).map_err(|error| wrong(error.to_string()))?;
    if spec.effect.as_ref().is_some_and(FaultEffect::is_of_addresses) {
        return Err(
            wrong("it hits IPAddressClaims, and a preview has machines and clusters".to_owned()).into(),
        );
    }
    let access = access.open().await?;
    let objects = objects(&access.client, &access.namespace).await?;
    let previewed = preview(&spec, &objects).map_err(|mistake| wrong(mistake.to_string()))?;
    print(&text(&access.namespace, &spec.budget, &objects, &previewed))?;
    Ok(ExitCode::SUCCESS)
}

async fn objects(client: &Client, namespace: &str) -> anyhow::Result<Objects> {
    Ok(Objects {
        clusters: list(client, namespace).await?,
        machines: list(client, namespace).await?,
        owning_clusters: list(client, namespace).await?,
        owning_machines: list(client, namespace).await?,
        simulated_clouds: list(client, namespace).await?,
    })
}

async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<Arc<K>>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let listed = api.list(&ListParams::default()).await;
    let plural = K::plural(&());
    let group = K::group(&());
    let shared = |listed: ObjectList<K>| listed.items.into_iter().map(Arc::new).collect();
    listed.map(shared).map_err(|error| {
        let what = format!("list the {}s in namespace {namespace}", K::kind(&()));
        Problem::request(&what, &format!("list {plural}.{group}"), error)
    })
}

/// What is selected, and what of it the budget lets the Fault hit.
fn text(
    namespace: &str,
    budget: &FaultBudget,
    objects: &Objects,
    Preview {
        clusters,
        machines,
        operations,
    }: &Preview,
) -> String {
    let share = |selected: usize, all: usize, kind: &str| {
        let plural = if all == 1 { "" } else { "s" };
        format!("{selected} of {all} {kind}{plural}")
    };
    let mut text = format!(
        "The Fault selects {} and {} in namespace {namespace}.\n",
        share(machines.len(), objects.machines.len(), "machine"),
        share(clusters.len(), objects.clusters.len(), "cluster"),
    );
    let named = |kind: &str, names: &[String]| -> String {
        names.iter().map(|name| format!("  {kind}/{name}\n")).collect()
    };
    text += &named("inmemorymachine", machines);
    text += &named("cluster", clusters);
    if !operations.is_empty() {
        let operations: Vec<_> = operations.iter().map(|operation| operation.as_str()).collect();
        text += &format!(
            "It hits these operations, also on machines to come: {}.\n",
            operations.join(", ")
        );
    }
    let limits = [
        budget.skip.map(|skip| format!("spares the first {skip}")),
        budget
            .probability
            .as_ref()
            .map(|probability| format!("hits each with probability {}", probability.get())),
        budget.count.map(|count| format!("hits at most {count}")),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        text += &format!("Of what it matches, it {}.\n", limits.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use nephele_testkit::{ManagementApi, objects};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn it_names_what_a_fault_selects_and_creates_nothing() {
        let management = ManagementApi::start();
        let cluster = management.create(&objects::cluster("demo")).await;
        management.create(&objects::in_memory_cluster(&cluster)).await;
        for (name, rack) in [("one", "a"), ("two", "b")] {
            let mut machine = objects::worker("demo", name);
            let labels = machine.metadata.labels.get_or_insert_default();
            labels.insert("rack".into(), rack.into());
            let machine = management.create(&machine).await;
            management.create(&objects::in_memory_machine(&machine)).await;
        }
        let client = management.api::<nephele_api::core::Machine>().into_client();
        let objects = super::objects(&client, objects::NAMESPACE).await.expect("lists");
        let told = |spec: Value| {
            let spec: FaultSpec = serde_json::from_value(spec).expect("a spec");
            let previewed = preview(&spec, &objects).map_err(|mistake| mistake.to_string())?;
            Ok(text("default", &spec.budget, &objects, &previewed))
        };
        let rack = json!({ "machineSelector": { "matchLabels": { "rack": "b" } } });
        assert_eq!(
            told(json!({ "effect": { "notReady": {} }, "match": rack, "budget": { "count": 1 } })),
            Ok(
                "The Fault selects 1 of 2 machines and 0 of 1 cluster in namespace default.\n  \
                inmemorymachine/two\nOf what it matches, it hits at most 1.\n"
                    .to_owned()
            )
        );
        assert_eq!(
            told(json!({ "effect": { "loadBalancer": { "noBackends": {} } } })),
            Ok(
                "The Fault selects 0 of 2 machines and 1 of 1 cluster in namespace default.\n  \
                cluster/demo\n"
                    .to_owned()
            )
        );
        assert_eq!(
            told(json!({ "effect": { "leak": {} }, "match": { "names": ["one"] } })),
            Ok(
                "The Fault selects 1 of 2 machines and 0 of 1 cluster in namespace default.\n  \
                inmemorymachine/one\nIt hits these operations, also on machines to come: DeleteInstance.\n"
                    .to_owned()
            )
        );
        assert_eq!(
            told(json!({ "effect": { "addresses": { "exhausted": {} } } })),
            Err::<String, _>(
                "spec.effect: \"addresses\" is not for a fault of machines or API servers".to_owned()
            )
        );
    }
}
