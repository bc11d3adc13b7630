//! `nephele scenario run`: creates a Scenario and follows it.

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
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{follow::news, report::junit};
use crate::{
    access::AccessArgs,
    exit::{Exit, Problem},
    manifests::only_object,
    output::print,
    process::INTERRUPTED,
};

/// Which scenario, and what to do with it.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A YAML file with a Scenario.
    file: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    /// How long to follow it. It continues afterwards.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = nephele_go_duration::parse)]
    timeout: Duration,
    /// Write a report for continuous integration to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Creates the Scenario, and follows it until it is over.
pub(super) async fn run(args: RunArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let RunArgs {
        file,
        access,
        timeout: patience,
        junit: report,
    } = args;
    let wanted = read(&file)?;
    if let (Some(flag), Some(written)) = (&access.namespace, wanted.namespace())
        && *flag != written
    {
        bail!(
            "{} is for the namespace {written}, not for {flag} (--namespace)",
            file.display()
        );
    }
    let mut access = access.open().await?;
    access.namespace = wanted.namespace().unwrap_or(access.namespace);
    let api: Api<Scenario> = Api::namespaced(access.client, &access.namespace);
    let created = api
        .create(&PostParams::default(), &wanted)
        .await
        .map_err(|error| match error {
            kube::Error::Api(status) if status.code == 409 => Problem::new(
                Exit::Failed,
                format!(
                    "there is a Scenario {} already; delete it, or give this one another name",
                    wanted.name_any()
                ),
            ),
            error => {
                let what = format!("create the Scenario in namespace {}", access.namespace);
                Problem::request(&what, "create scenarios.cloud.nephele.dev", error)
            }
        })?;
    let name = created.name_any();
    print(&format!("Scenario {}/{name} is created\n", access.namespace))?;
    let Some(followed) = shutdown
        .run_until_cancelled(timeout(patience, follow(&api, &name)))
        .await
    else {
        eprintln!("Scenario {name} continues; `nephele scenario report {name}` shows it");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let Ok(followed) = followed else {
        let patience = nephele_go_duration::format(patience);
        let message = format!("Scenario {name} is not over within {patience} (--timeout); it continues");
        return Err(Problem::new(Exit::Failed, message).into());
    };
    let ended = followed?;
    if let Some(file) = report {
        std::fs::write(&file, junit(&ended))
            .with_context(|| format!("failed to write {} (--junit)", file.display()))?;
    }
    let status = ended.status.unwrap_or_default();
    if status.phase == "Passed" {
        print(&format!("Scenario {name} has passed\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let why = status
        .conditions
        .first()
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    Err(Problem::new(Exit::Failed, format!("Scenario {name} has failed: {why}")).into())
}

/// The Scenario of a file.
fn read(file: &Path) -> anyhow::Result<Scenario> {
    let (place, object) = only_object(file)?;
    let scenario: Scenario =
        serde_json::from_value(object).with_context(|| format!("failed to read {place} as a Scenario"))?;
    if scenario.metadata.name.is_none() && scenario.metadata.generate_name.is_none() {
        bail!("the Scenario in {} has no metadata.name; add it", file.display());
    }
    Ok(scenario)
}

/// Prints what happens, and returns the scenario when it is over.
async fn follow(api: &Api<Scenario>, name: &str) -> anyhow::Result<Scenario> {
    let mut seen = Vec::new();
    let mut changes = pin!(watch_object(api.clone(), name).default_backoff());
    while let Some(change) = changes.next().await {
        // The watch begins again by itself; meanwhile the scenario continues.
        let Ok(change) = change else { continue };
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

    #[test]
    fn a_file_has_one_scenario_with_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("s.yaml");
        let head = "apiVersion: cloud.nephele.dev/v1alpha1\nkind: Scenario\n";
        for (text, message) in [
            (
                format!("{head}spec: {{steps: []}}\nmetadata: {{}}\n"),
                "has no metadata.name",
            ),
            (format!("{head}---\n{head}"), "has 2 objects; give one"),
            ("a: [".to_owned(), "as YAML; correct it there"),
        ] {
            std::fs::write(&file, text).expect("written");
            let error = format!("{:#}", read(&file).expect_err(message));
            assert!(error.contains(message) && error.contains("s.yaml"), "{error}");
        }
        std::fs::write(
            &file,
            format!("{head}metadata: {{name: a}}\nspec: {{steps: [{{say: hello}}]}}\n"),
        )
        .expect("written");
        assert_eq!(read(&file).expect("a Scenario").spec.steps[0].action.say, "hello");
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
