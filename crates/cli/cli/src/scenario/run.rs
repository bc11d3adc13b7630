//! `nephele scenario run`: checks what a Scenario needs, creates it and follows it.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    api::PostParams,
    runtime::{WatchStreamExt as _, watcher::watch_object},
};
use nephele_api::cloud::v1alpha1::Scenario;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    follow::news,
    library::{Wanted, wanted},
    needs::{Lack, lacks, mending, told},
    report::junit,
    setting::Setting,
};
use crate::{
    access::{Access, AccessArgs},
    exit::{Exit, Problem},
    output::print,
    process::INTERRUPTED,
};

pub(super) const AFTER_HELP: &str = "\
Before anything is created, the command checks what the scenario needs, and prints what is missing and what mends it.

Examples:
  nephele scenario run quota --make-cluster
  nephele scenario run quota -n workshop --junit report.xml
  nephele scenario run ./mine.yaml";

/// How long the management cluster may be lost while a scenario is followed: longer than an API server takes for its start.
const LOST_MAX: Duration = Duration::from_secs(120);

/// Which scenario, and what to do with it.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A scenario of the library, or a file: a path with / or .yaml.
    #[arg(value_name = "NAME|FILE")]
    scenario: PathBuf,
    /// Create what is missing of the cluster that a scenario of the library needs, and wait for it.
    #[arg(long)]
    make_cluster: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    follow: FollowArgs,
}

/// How a scenario is followed.
#[derive(Debug, Args)]
pub(super) struct FollowArgs {
    /// How long to follow it. It continues afterwards.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = nephele_go_duration::parse)]
    timeout: Duration,
    /// Write a report for continuous integration to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Checks what the Scenario needs, creates it, and follows it until it is over.
pub(super) async fn run(args: RunArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let RunArgs {
        scenario: named,
        make_cluster,
        access,
        follow,
    } = args;
    let wanted = wanted(&named)?;
    if make_cluster && wanted.entry.is_none() {
        bail!(
            "{} is a file, and only scenarios of the library have a cluster (--make-cluster)",
            named.display()
        );
    }
    let access = opened(&access, &wanted.scenario, &named).await?;
    let api: Api<Scenario> = Api::namespaced(access.client.clone(), &access.namespace);
    let prepared = prepare(&access, &api, &wanted, make_cluster);
    let Some(prepared) = shutdown.run_until_cancelled(prepared).await else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    prepared?;
    let name = create(&api, &access.namespace, &wanted.scenario).await?;
    follow_to_end(&api, &name, follow, shutdown).await
}

/// The management cluster, and the namespace of the Scenario there.
async fn opened(access: &AccessArgs, scenario: &Scenario, named: &Path) -> anyhow::Result<Access> {
    if let (Some(flag), Some(written)) = (&access.namespace, scenario.namespace())
        && *flag != written
    {
        bail!(
            "{} is for the namespace {written}, not for {flag} (--namespace)",
            named.display()
        );
    }
    let mut access = access.open().await?;
    access.namespace = scenario.namespace().unwrap_or(access.namespace);
    Ok(access)
}

/// Fails with all that the scenario lacks; makes its cluster if that is wanted.
async fn prepare(
    access: &Access,
    api: &Api<Scenario>,
    wanted: &Wanted,
    make_cluster: bool,
) -> anyhow::Result<()> {
    let Wanted {
        scenario,
        object,
        entry,
    } = wanted;
    let namespace = &access.namespace;
    let setting = Setting::new(access.client.clone(), namespace);
    let cluster = entry.as_ref().map(|entry| entry.cluster.as_slice());
    let seen = setting.see(object, cluster).await?;
    let mut lacks = lacks(object, cluster.unwrap_or_default(), &seen);
    if make_cluster {
        lacks.retain(|lack| !matches!(lack, Lack::Object { .. }));
    }
    let name = scenario.name_any();
    if !lacks.is_empty() {
        return Err(lacking(&format!("the scenario {name}"), &lacks, &name, namespace).into());
    }
    if let Some(name) = &scenario.metadata.name {
        let there = api.get_opt(name).await.map_err(|error| {
            let what = format!("read Scenario {namespace}/{name}");
            Problem::request(&what, "get scenarios.cloud.nephele.dev", error)
        })?;
        if there.is_some() {
            return Err(exists(name).into());
        }
    }
    match entry {
        Some(entry) if make_cluster => setting.make(&entry.cluster, &seen).await,
        _ => Ok(()),
    }
}

/// What a scenario lacks, and what mends it.
pub(crate) fn lacking(what: &str, lacks: &[Lack], scenario: &str, namespace: &str) -> Problem {
    let lines = |lines: Vec<String>| lines.join("\n  ");
    let message = format!(
        "{what} cannot run there yet:\n  {}\nwhat mends it:\n  {}",
        lines(lacks.iter().map(|lack| told(lack, namespace)).collect()),
        lines(mending(lacks, scenario, namespace)),
    );
    Problem::new(Exit::Failed, message)
}

/// Creates the Scenario, and returns its name.
pub(crate) async fn create(
    api: &Api<Scenario>,
    namespace: &str,
    wanted: &Scenario,
) -> anyhow::Result<String> {
    let created = api
        .create(&PostParams::default(), wanted)
        .await
        .map_err(|error| match error {
            kube::Error::Api(status) if status.code == 409 => exists(&wanted.name_any()),
            error => {
                let what = format!("create the Scenario in namespace {namespace}");
                Problem::request(&what, "create scenarios.cloud.nephele.dev", error)
            }
        })?;
    let name = created.name_any();
    print(&format!("Scenario {namespace}/{name} is created\n"))?;
    Ok(name)
}

fn exists(name: &str) -> Problem {
    let message = format!(
        "there is a Scenario {name} already; `nephele scenario rerun {name}` runs it again, and \
         `nephele scenario stop {name}` deletes it"
    );
    Problem::new(Exit::Failed, message)
}

/// Follows a Scenario until it is over, and reports how it ended.
pub(super) async fn follow_to_end(
    api: &Api<Scenario>,
    name: &str,
    args: FollowArgs,
    shutdown: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let FollowArgs {
        timeout: patience,
        junit: report,
    } = args;
    let Some(ended) = followed(api, name, patience, shutdown).await? else {
        eprintln!("Scenario {name} continues; `nephele scenario report {name}` shows it");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if let Some(file) = report {
        std::fs::write(&file, junit(&ended))
            .with_context(|| format!("failed to write {} (--junit)", file.display()))?;
    }
    match failure(&ended) {
        None => {
            print(&format!("Scenario {name} has passed\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(why) => Err(Problem::new(Exit::Failed, format!("Scenario {name} has failed: {why}")).into()),
    }
}

/// The Scenario when it is over, after what happened in it is printed. None if this process is to end before.
pub(crate) async fn followed(
    api: &Api<Scenario>,
    name: &str,
    patience: Duration,
    shutdown: CancellationToken,
) -> anyhow::Result<Option<Scenario>> {
    let following = timeout(patience, follow(api, name));
    let Some(followed) = shutdown.run_until_cancelled(following).await else {
        return Ok(None);
    };
    let Ok(followed) = followed else {
        let patience = nephele_go_duration::format(patience);
        let message = format!("Scenario {name} is not over within {patience} (--timeout); it continues");
        return Err(Problem::new(Exit::Failed, message).into());
    };
    followed.map(Some)
}

/// Why a Scenario that is over has failed. None if it has passed.
pub(crate) fn failure(ended: &Scenario) -> Option<String> {
    let status = ended.status.as_ref()?;
    let why = status
        .conditions
        .first()
        .map(|condition| condition.message.clone());
    (status.phase != "Passed").then(|| why.unwrap_or_default())
}

/// Prints what happens, and returns the scenario when it is over.
async fn follow(api: &Api<Scenario>, name: &str) -> anyhow::Result<Scenario> {
    let mut seen = Vec::new();
    let mut changes = pin!(watch_object(api.clone(), name).default_backoff());
    let mut lost = None;
    while let Some(change) = changes.next().await {
        let change = match change {
            Ok(change) => change,
            // The watch begins again by itself, and the scenario continues.
            Err(error) => {
                if lost.get_or_insert_with(Instant::now).elapsed() >= LOST_MAX {
                    let message =
                        format!("failed to follow Scenario {name}: the management cluster does not answer");
                    return Err(Problem::unreachable(message, error.into()).into());
                }
                continue;
            }
        };
        lost = None;
        let Some(scenario) = change else {
            let message = format!("Scenario {name} was deleted while it was followed");
            return Err(Problem::new(Exit::NotFound, message).into());
        };
        let status = scenario.status.clone().unwrap_or_default();
        for line in news(&seen, &status.steps) {
            print(&format!("{line}\n"))?;
        }
        seen = status.steps;
        if status.observed_generation == scenario.metadata.generation
            && matches!(status.phase.as_str(), "Passed" | "Failed")
        {
            return Ok(scenario);
        }
    }
    bail!("the watch of Scenario {name} ended")
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_management_cluster_that_is_lost_is_told_after_a_while() {
        let refused = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            Err::<http::Response<kube::client::Body>, _>(refused)
        });
        let api = Api::<Scenario>::namespaced(kube::Client::new(refused, "default"), "default");
        let started = Instant::now();
        let error = follow(&api, "s").await.expect_err("it is lost");
        let problem = error.downcast_ref::<Problem>().expect("a problem");
        assert_eq!(problem.exit, Exit::Unreachable);
        assert!(started.elapsed() >= LOST_MAX, "{error:#}");
    }

    #[tokio::test]
    async fn a_scenario_is_followed_until_it_is_over_or_gone() {
        let api = ManagementApi::start();
        let scenario: Scenario = serde_json::from_value(json!({
            "metadata": { "name": "s", "namespace": "default" }, "spec": { "steps": [{ "say": "hello" }] },
        }))
        .expect("a Scenario");
        api.create(&scenario).await;
        let following = api.api::<Scenario>();
        let followed = tokio::spawn(async move { follow(&following, "s").await });
        let step = json!([{ "name": "step-1", "phase": "Passed" }]);
        // The status of an earlier spec does not count.
        api.patch_status::<Scenario>("s", &json!({ "observedGeneration": 0, "phase": "Failed" }))
            .await;
        api.patch_status::<Scenario>(
            "s",
            &json!({ "observedGeneration": 1, "phase": "Passed", "steps": step }),
        )
        .await;
        let ended = followed.await.expect("no panic").expect("it is over");
        assert_eq!(ended.status.unwrap_or_default().phase, "Passed");
        api.patch_status::<Scenario>("s", &json!({ "phase": "Running" }))
            .await;
        let following = api.api::<Scenario>();
        let followed = tokio::spawn(async move { follow(&following, "s").await });
        api.delete::<Scenario>("s").await;
        let error = followed.await.expect("no panic").expect_err("it is gone");
        assert_eq!(
            error.downcast_ref::<Problem>().expect("a problem").exit,
            Exit::NotFound
        );
    }
}
