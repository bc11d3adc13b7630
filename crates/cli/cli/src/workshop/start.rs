//! `nephele workshop start` and `reset`: bring a management cluster where the task of a chapter begins.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use kube::Api;
use nephele_api::cloud::{WORKSHOP_LABEL, v1alpha1::Scenario};
use nephele_scenario_library::workshop::{CLUSTER, Chapter};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    chapter::{ChapterArgs, begun, is_of_another_that_is_done, scenario},
    clear::clear,
    text::task,
};
use crate::{
    access::{Access, AccessArgs},
    exit::{Exit, Problem},
    output::print,
    process::INTERRUPTED,
    scenario::{Found, Lack, Seen, Setting, create, failure, followed, lacking, lacks, named},
};

pub(super) const AFTER_HELP: &str = "\
In a namespace where a chapter has begun, first all that chapters made there is deleted, and all Faults of the namespace.

Examples:
  nephele workshop start 1
  nephele workshop start 4 -n workshop";

/// How long it may take until the task begins: a cluster with three control plane machines on a busy machine.
const BEGUN_WITHIN: Duration = Duration::from_secs(20 * 60);

/// Which chapter, and where.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// Begins a chapter that has not begun.
pub(super) async fn start(args: StartArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    begin(args, false, shutdown).await
}

/// Begins a chapter, whether it has begun or not.
pub(super) async fn reset(args: StartArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    begin(args, true, shutdown).await
}

async fn begin(args: StartArgs, again: bool, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let StartArgs { chapter, access } = args;
    let chapter = chapter.chapter()?;
    let given = access.namespace.clone();
    let access = access.open().await?;
    let api: Api<Scenario> = Api::namespaced(access.client.clone(), &access.namespace);
    let Some(prepared) = shutdown
        .run_until_cancelled(prepare(&chapter, &access, &api, again))
        .await
    else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    prepared?;
    let name = create(&api, &access.namespace, &scenario(&chapter.start)?).await?;
    let Some(ended) = followed(&api, &name, BEGUN_WITHIN, shutdown).await? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if let Some(why) = failure(&ended) {
        let number = chapter.number;
        let message = format!(
            "chapter {number} has not begun: {why}; `nephele workshop reset {number}` begins it again"
        );
        return Err(Problem::new(Exit::Failed, message).into());
    }
    print(&task(&chapter, given.as_deref()))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes room for a chapter, and creates its objects.
async fn prepare(chapter: &Chapter, access: &Access, api: &Api<Scenario>, again: bool) -> anyhow::Result<()> {
    let namespace = &access.namespace;
    let number = chapter.number;
    let (mut scenarios, numbers) = begun(api, namespace).await?;
    // `nephele workshop list` and the board of a class show it.
    scenarios.retain(|scenario| !is_of_another_that_is_done(scenario, number));
    if numbers.contains(&number) && !again {
        let message = format!(
            "chapter {number} has begun in namespace {namespace}; `nephele workshop show {number}` prints its task, `nephele \
             workshop check {number}` checks it, and `nephele workshop reset {number}` begins it again"
        );
        return Err(Problem::new(Exit::Failed, message).into());
    }
    let setting = Setting::new(access.client.clone(), namespace);
    let objects = with_cluster(&chapter.cluster);
    let mut seen = setting.see(&chapter.start, Some(&objects)).await?;
    let mut missing = lacks(&chapter.start, &objects, &seen);
    missing.retain(|lack| matches!(lack, Lack::ClusterApi(_) | Lack::Kind(_)));
    if !missing.is_empty() {
        let what = format!("chapter {number}");
        return Err(lacking(&what, &missing, &format!("workshop-{number}-start"), namespace).into());
    }
    // A clearing that was interrupted has left objects, and no Scenario.
    if !scenarios.is_empty() || is_left(&seen) {
        clear(access, api, &scenarios).await?;
        seen = setting.see(&chapter.start, Some(&objects)).await?;
    }
    if let Some(object) = there(&seen) {
        return Err(Problem::new(Exit::Failed, in_the_way(object, namespace)).into());
    }
    setting.create_class().await?;
    setting.create_missing(&chapter.cluster, &seen, print).await
}

/// The objects of a chapter, with the Cluster that a person has to create if it is not among them.
fn with_cluster(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    if !objects.iter().any(|object| object["kind"] == "Cluster") {
        objects.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": { "name": CLUSTER },
        }));
    }
    objects
}

/// Whether an object is there that a chapter has made.
fn is_left(seen: &Seen) -> bool {
    let is_ours = |found: &Found| match found {
        Found::Object(object) => object["metadata"]["labels"].get(WORKSHOP_LABEL).is_some(),
        Found::NoKind | Found::NoObject => false,
    };
    seen.objects.iter().any(is_ours)
}

/// An object that is there.
fn there(seen: &Seen) -> Option<&Value> {
    seen.objects.iter().find_map(|found| match found {
        Found::Object(object) => Some(object),
        Found::NoKind | Found::NoObject => None,
    })
}

/// Why a chapter finds no room.
fn in_the_way(object: &Value, namespace: &str) -> String {
    let (kind, name) = named(object);
    if object["metadata"]["deletionTimestamp"].is_string() {
        return format!(
            "{kind} {name} in namespace {namespace} is still being deleted; try again, or choose another namespace (-n)"
        );
    }
    format!(
        "{kind} {name} is in namespace {namespace} already, and no chapter made it; choose another namespace (-n)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chapter_has_made_is_known_by_its_label() {
        let seen = |metadata: Value| Seen {
            objects: vec![Found::NoObject, Found::Object(json!({ "metadata": metadata }))],
            ..Seen::default()
        };
        assert!(is_left(&seen(json!({ "labels": { WORKSHOP_LABEL: "4" } }))));
        assert!(!is_left(&seen(json!({ "labels": { "team": "a" } }))));
        assert!(!is_left(&seen(json!({}))));
    }

    #[test]
    fn what_is_in_the_way_is_named_with_what_happens_to_it() {
        let mut cluster = json!({ "kind": "Cluster", "metadata": { "name": "demo" } });
        assert_eq!(
            in_the_way(&cluster, "two"),
            "Cluster demo is in namespace two already, and no chapter made it; choose another namespace (-n)"
        );
        cluster["metadata"]["deletionTimestamp"] = "2026-11-30T01:15:06Z".into();
        assert_eq!(
            in_the_way(&cluster, "two"),
            "Cluster demo in namespace two is still being deleted; try again, or choose another namespace (-n)"
        );
    }
}
