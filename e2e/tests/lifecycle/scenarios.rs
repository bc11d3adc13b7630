//! The scenarios of `config/scenarios`, as users run them.

use std::time::Duration;

use anyhow::Context as _;
use nephele_e2e::{Cluster, Look, Scope, management::kinds, templates};
use nephele_scenario_library::{self as library, Entry};

/// The cluster that the scenarios name.
const CLUSTER: &str = "demo";

#[tokio::test]
async fn workers_wait_for_a_quota_and_a_silent_one_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("scenarios").await?;
    let (cluster, quota) = cluster_for("quota", &scope).await?;
    passes(&scope, &cluster, "quota").await?;
    passes(&scope, &cluster, "silent-machine").await?;
    settled(&cluster, &quota).await?;
    scope.finish().await
}

#[tokio::test]
async fn control_plane_survives_the_loss_of_a_zone_and_api_servers_that_fail() -> anyhow::Result<()> {
    let scope = Scope::new("scenarios").await?;
    let (cluster, zone_loss) = cluster_for("zone-loss", &scope).await?;
    passes(&scope, &cluster, "zone-loss").await?;
    passes(&scope, &cluster, "api-server-errors").await?;
    settled(&cluster, &zone_loss).await?;
    scope.finish().await
}

/// Creates the cluster that a scenario of the library needs, and the class of its topology.
pub(crate) async fn cluster_for(scenario: &str, scope: &Scope) -> anyhow::Result<(Cluster, Entry)> {
    let entry = entry(scenario)?;
    if entry
        .cluster
        .iter()
        .any(|object| object["spec"]["topology"].is_object())
    {
        scope
            .management
            .apply(&scope.namespace, &templates::class()?)
            .await?;
    }
    scope.management.apply(&scope.namespace, &entry.cluster).await?;
    Ok((scope.cluster(CLUSTER), entry))
}

fn entry(scenario: &str) -> anyhow::Result<Entry> {
    let found = library::find(scenario)?;
    found.with_context(|| format!("the library has no scenario {scenario}"))
}

/// Waits until a cluster has the machines that a scenario leaves.
pub(crate) async fn settled(cluster: &Cluster, entry: &Entry) -> anyhow::Result<()> {
    let after = entry.about.after;
    cluster
        .settled(after.control_plane as usize, after.workers as usize)
        .await
}

/// How long a scenario may take. Its steps have limits of their own, after which it fails and says why; so this one only
/// has to be longer than a scenario takes while many tests run.
const SCENARIO_LIMIT: Duration = Duration::from_secs(900);

/// Runs a scenario until it has passed. Afterwards none of its Faults is left.
pub(crate) async fn passes(scope: &Scope, cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let object = entry(name)?.scenario;
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
