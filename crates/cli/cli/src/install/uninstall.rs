//! `nephele uninstall`: removes what `nephele install` created, and lets what others left work without a manager.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams},
    runtime::{conditions::is_deleted, wait::await_condition},
};
use nephele_api::{
    finalizers::{HELD, Held},
    ipam,
};
use nephele_controller::is_without_dry_run;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    kept,
    management::{Management, POOLS},
    objects::{LABEL, Wanted, objects},
};
use crate::access::TargetArgs;

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
    let management = Management::open_to_change(&args.target).await?;
    let wanted = Wanted {
        image: String::new(),
        on_nodes: false,
        ipam: true,
    };
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
        mend(&management).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let has_pools = installed.iter().any(|(_, object)| name(object) == POOLS);
    refuse_if_used(&management, has_pools).await?;
    rehearse(&installed).await?;
    let deadline = Instant::now() + args.time_limit;
    // The definitions go first, while the manager can still release what their objects hold. The namespace goes last.
    let (definitions, others): (Vec<_>, Vec<_>) = installed
        .into_iter()
        .partition(|(_, object)| object["kind"] == "CustomResourceDefinition");
    delete(&definitions, deadline).await?;
    let reversed: Vec<_> = others.into_iter().rev().collect();
    delete(&reversed, deadline).await?;
    mend(&management).await?;
    println!("Nephele is uninstalled. Nodes keep its image until the kubelet needs the room.");
    Ok(ExitCode::SUCCESS)
}

async fn is_ours(api: &Api<DynamicObject>, object: &Value) -> anyhow::Result<bool> {
    let name = name(object);
    let found = api
        .get_opt(name)
        .await
        .with_context(|| format!("failed to read {} {name}", object["kind"]))?;
    Ok(found.is_some_and(|found| found.labels().get(LABEL.0).is_some_and(|value| value == LABEL.1)))
}

/// Tells what was mended of what others left.
async fn mend(management: &Management) -> anyhow::Result<()> {
    let kept::Mended { definitions, secrets } = kept::mend(management.client()).await?;
    for name in definitions {
        println!("The definition {name} stays, and its objects are no longer converted.");
    }
    for name in secrets {
        println!("The Secret {name} of its manager is deleted.");
    }
    Ok(())
}

/// Refuses while the manager has to release what objects hold. Where another IPAM provider has the pools, claims and
/// addresses are its own.
async fn refuse_if_used(management: &Management, has_pools: bool) -> anyhow::Result<()> {
    let ours = |held: &&Held| held.group != ipam::GROUP || has_pools;
    for held in HELD.iter().filter(ours) {
        let kind = held.kind;
        let Some(resource) = served(management, held).await? else {
            continue;
        };
        let objects = management.all(&resource).list(&ListParams::default()).await;
        let objects = objects.with_context(|| format!("failed to list the objects of kind {kind}"))?;
        let holds = |object: &&DynamicObject| object.finalizers().iter().any(|name| name == held.finalizer);
        let names: Vec<_> = objects.iter().filter(holds).map(full_name).take(5).collect();
        if !names.is_empty() {
            bail!(
                "there are objects of kind {kind} ({}): delete the clusters with `kubectl delete cluster`, and scenarios, \
                 claims and pools, while the manager can release what they hold",
                names.join(", ")
            );
        }
    }
    Ok(())
}

/// The kind in the newest version that is served.
async fn served(management: &Management, held: &Held) -> anyhow::Result<Option<ApiResource>> {
    for version in held.versions {
        let kind = GroupVersionKind::gvk(held.group, version, held.kind);
        if let Some((resource, _)) = management.kind(&kind).await? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

fn full_name(object: &DynamicObject) -> String {
    let namespace = object
        .namespace()
        .map(|namespace| namespace + "/")
        .unwrap_or_default();
    namespace + &object.name_any()
}

/// Asks by a dry run whether all objects can be deleted, before the first one is.
async fn rehearse(objects: &[(Api<DynamicObject>, Value)]) -> anyhow::Result<()> {
    for (api, object) in objects {
        let params = DeleteParams {
            dry_run: true,
            ..DeleteParams::background()
        };
        match api.delete(name(object), &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 || is_without_dry_run(&status) => {}
            asked => drop(asked.with_context(|| {
                format!(
                    "failed to delete {} {}; nothing was deleted",
                    kind(object),
                    name(object)
                )
            })?),
        }
    }
    Ok(())
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
                return Err(error).with_context(|| {
                    format!(
                        "failed to delete {} {}: run the command again",
                        kind(object),
                        name(object)
                    )
                });
            }
        }
    }
    for ((api, object), uid) in objects.iter().zip(&uids) {
        let gone = await_condition(api.clone(), name(object), is_deleted(uid));
        match timeout_at(deadline, gone).await {
            Ok(result) => drop(result.context("failed to watch the deletion")?),
            Err(_) => bail!(
                "{} {} is not gone yet: run the command again",
                kind(object),
                name(object)
            ),
        }
    }
    Ok(())
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PostParams;
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn nothing_is_deleted_when_one_deletion_would_be_refused() {
        let api = ManagementApi::start();
        let maps = api.api::<ConfigMap>();
        let mut objects = Vec::new();
        let refusing = api.forbidding(|method, path| method == "DELETE" && path.ends_with("/b"));
        let management = Management::of(refusing);
        for name in ["a", "b"] {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
            let map = serde_json::from_value(object.clone()).expect("a ConfigMap");
            maps.create(&PostParams::default(), &map).await.expect("created");
            objects.push((
                management
                    .api(&object)
                    .await
                    .expect("an answer")
                    .expect("a served kind"),
                object,
            ));
        }
        let error = rehearse(&objects).await.expect_err("refused");
        assert_eq!(
            error.to_string(),
            "failed to delete ConfigMap b; nothing was deleted"
        );
        assert!(
            maps.get_opt("a").await.expect("an answer").is_some(),
            "a dry run deletes nothing"
        );
    }

    #[tokio::test]
    async fn an_object_of_any_kind_with_a_finalizer_of_the_manager_holds_up_the_uninstallation() {
        for held in HELD {
            let management = Management::of(ManagementApi::start().client());
            for (name, finalizers) in [
                ("free", vec!["example.org/theirs"]),
                ("held", vec![held.finalizer]),
            ] {
                assert!(
                    refuse_if_used(&management, true).await.is_ok(),
                    "{} before {name}",
                    held.kind
                );
                let namespace = (!held.kind.starts_with("Global")).then_some("default");
                let object = json!({
                    "apiVersion": format!("{}/{}", held.group, held.versions[0]),
                    "kind": held.kind,
                    "metadata": {"name": name, "namespace": namespace, "finalizers": finalizers},
                    "spec": {},
                });
                let api = management
                    .api(&object)
                    .await
                    .expect("an answer")
                    .expect("a served kind");
                let object = serde_json::from_value(object).expect("an object");
                api.create(&PostParams::default(), &object)
                    .await
                    .expect("created");
            }
            let refused = refuse_if_used(&management, true)
                .await
                .expect_err("refused")
                .to_string();
            assert!(
                refused.starts_with(&format!("there are objects of kind {} (", held.kind)),
                "{refused}"
            );
            // Pools, claims and addresses can be another provider's.
            let is_ours = held.group != ipam::GROUP;
            assert_eq!(
                refuse_if_used(&management, false).await.is_err(),
                is_ours,
                "{}",
                held.kind
            );
        }
    }
}
