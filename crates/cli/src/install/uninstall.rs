//! `nephele uninstall`: removes what `nephele install` created, and nothing else.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, GroupVersionKind, ListParams},
    runtime::{conditions::is_deleted, wait::await_condition},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    management::Management,
    objects::{LABEL, Wanted, objects},
};
use crate::access::TargetArgs;

/// Kinds whose objects the manager still looks after: without it, they would stay for good.
const IN_USE: [(&str, &str, &str); 3] = [
    ("infrastructure.cluster.x-k8s.io", "v1beta2", "InMemoryCluster"),
    ("ipam.cluster.x-k8s.io", "v1alpha2", "InClusterIPPool"),
    ("ipam.cluster.x-k8s.io", "v1alpha2", "GlobalInClusterIPPool"),
];

/// The flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// How long to wait until everything is gone.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
}

/// Removes the installation.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let management = Management::open(&args.target).await?;
    let wanted = Wanted { image: String::new(), on_nodes: false, ipam: true };
    let mut installed = Vec::new();
    for object in objects(&wanted, &|_| None)? {
        if let Some(api) = management.api(&object).await?
            && is_ours(&api, &object).await?
        {
            installed.push((api, object));
        }
    }
    if installed.is_empty() {
        println!("There is nothing that `nephele install` installed.");
        return Ok(ExitCode::SUCCESS);
    }
    refuse_if_used(&management).await?;
    let deadline = Instant::now() + args.time_limit;
    // The definitions go first, while the manager can still release what their objects hold. The namespace goes last.
    let (definitions, others): (Vec<_>, Vec<_>) =
        installed.into_iter().partition(|(_, object)| object["kind"] == "CustomResourceDefinition");
    delete(&definitions, deadline).await?;
    let reversed: Vec<_> = others.into_iter().rev().collect();
    delete(&reversed, deadline).await?;
    println!("Nephele is uninstalled. Nodes keep its image until the kubelet needs the room.");
    Ok(ExitCode::SUCCESS)
}

async fn is_ours(api: &Api<DynamicObject>, object: &Value) -> anyhow::Result<bool> {
    let name = name(object);
    let found =
        api.get_opt(name).await.with_context(|| format!("failed to read {} {name}", object["kind"]))?;
    Ok(found.is_some_and(|found| found.labels().get(LABEL.0).is_some_and(|value| value == LABEL.1)))
}

async fn refuse_if_used(management: &Management) -> anyhow::Result<()> {
    for (group, version, kind) in IN_USE {
        let Some((resource, _)) = management.kind(&GroupVersionKind::gvk(group, version, kind)).await? else {
            continue;
        };
        let objects = management.all(&resource).list(&ListParams::default()).await;
        let objects = objects.with_context(|| format!("failed to list the objects of kind {kind}"))?;
        let names: Vec<_> = objects.iter().map(full_name).take(5).collect();
        if !names.is_empty() {
            bail!(
                "there are objects of kind {kind} ({}): delete the clusters with `kubectl delete cluster` and the pools \
                 first, while the manager can release what they hold",
                names.join(", ")
            );
        }
    }
    Ok(())
}

fn full_name(object: &DynamicObject) -> String {
    let namespace = object.namespace().map(|namespace| namespace + "/").unwrap_or_default();
    namespace + &object.name_any()
}

/// Deletes the objects, and waits until they are gone.
async fn delete(objects: &[(Api<DynamicObject>, Value)], deadline: Instant) -> anyhow::Result<()> {
    let mut uids = Vec::new();
    for (api, object) in objects {
        let deleted = api.delete(name(object), &DeleteParams::background()).await;
        match deleted {
            Ok(deleted) => uids.push(deleted.left().and_then(|object| object.uid()).unwrap_or_default()),
            Err(kube::Error::Api(status)) if status.code == 404 => uids.push(String::new()),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("failed to delete {} {}", object["kind"], name(object)));
            }
        }
    }
    for ((api, object), uid) in objects.iter().zip(&uids) {
        let gone = await_condition(api.clone(), name(object), is_deleted(uid));
        match timeout_at(deadline, gone).await {
            Ok(result) => drop(result.context("failed to watch the deletion")?),
            Err(_) => bail!("{} {} is not gone yet: run the command again", object["kind"], name(object)),
        }
    }
    Ok(())
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
