//! The scenarios of `config/scenarios`, as users run them.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use nephele_e2e::{Cluster, Look, Scope, Shape, management::kinds};
use serde_json::Value;

use super::zones::{ZONES, cloud, in_the_cloud};

pub(crate) const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/scenarios");
/// The cluster that the scenarios name.
pub(crate) const CLUSTER: &str = "demo";

#[tokio::test]
async fn workers_wait_for_a_quota_and_a_silent_one_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("scenarios").await?;
    let cluster = scope.of_class(CLUSTER, Shape::new(1, 1)).await?;
    passes(&scope, &cluster, "quota").await?;
    passes(&scope, &cluster, "silent-machine").await?;
    cluster.settled(1, 3).await?;
    scope.finish().await
}

#[tokio::test]
async fn control_plane_survives_the_loss_of_a_zone_and_api_servers_that_fail() -> anyhow::Result<()> {
    let scope = Scope::new("scenarios").await?;
    scope
        .management
        .apply(&scope.namespace, &[cloud(&ZONES, &["m.large"])])
        .await?;
    let cluster = scope.plain_with(CLUSTER, Shape::new(3, 1), in_the_cloud).await?;
    passes(&scope, &cluster, "zone-loss").await?;
    passes(&scope, &cluster, "api-server-errors").await?;
    cluster.settled(3, 1).await?;
    scope.finish().await
}

/// How long a scenario may take. Its steps have limits of their own, after which it fails and says why; so this one only
/// has to be longer than a scenario takes while many tests run.
const SCENARIO_LIMIT: Duration = Duration::from_secs(900);

/// Runs a scenario until it has passed. Afterwards none of its Faults is left.
pub(crate) async fn passes(scope: &Scope, cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let path = Path::new(LIBRARY).join(name).with_extension("yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("failed to read {name}"))?;
    let object: Value = serde_yaml_ng::from_str(&text).with_context(|| format!("failed to parse {name}"))?;
    scope.management.apply(&scope.namespace, &[object]).await?;
    cluster
        .until_within(
            SCENARIO_LIMIT,
            &format!("the Scenario {name} to pass"),
            async || {
                let seen = scope
                    .management
                    .get(kinds::SCENARIO, &scope.namespace, name)
                    .await?;
                let status = &seen["status"];
                let told = |phases: &[&str]| {
                    let steps = status["steps"].as_array().into_iter().flatten();
                    let steps = steps.filter(|step| phases.iter().any(|phase| step["phase"] == *phase));
                    let steps = steps.map(|step| format!("{}: {}", step["name"], step["message"]));
                    steps.collect::<Vec<_>>().join(", ")
                };
                // A scenario whose spec is invalid has no steps.
                let why = || format!("{}; {}", told(&["Failed"]), status["conditions"][0]["message"]);
                Ok(match status["phase"].as_str() {
                    Some("Passed") => Look::Done(()),
                    Some("Failed") => Look::Failed(why()),
                    _ => Look::NotYet(told(&["Running"])),
                })
            },
        )
        .await?;
    let left = scope.management.names(kinds::FAULT, &scope.namespace).await?;
    anyhow::ensure!(left.is_empty(), "{name} has left {left:?}");
    Ok(())
}
