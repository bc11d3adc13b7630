//! The manager is killed in the middle of each scenario, which continues and ends the same, unless a step `never` went unseen.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, future::try_join, stream};
use nephele_e2e::{Bare, Look, Scope, management::kinds, manager::Provider, until};
use serde_json::Value;

/// More at a time make two cores too busy, so that Cluster API's managers lose their leases.
const AT_ONCE: usize = 6;
/// For all scenarios together.
const LIMIT: Duration = Duration::from_secs(1800);

#[tokio::test]
async fn scenarios_end_the_same_although_the_manager_is_killed_in_the_middle_of_each() -> anyhow::Result<()> {
    let bare = Bare::with_runtime_extension("killed").await?;
    let mut scopes = BTreeMap::new();
    for scenario in nephele_scenario_library::names().map(str::to_owned) {
        let scope = Scope::on(bare.management.clone(), &scenario).await?;
        scopes.insert(scenario, scope);
    }
    let namespaces: Vec<_> = scopes.values().map(|scope| scope.namespace.clone()).collect();
    let all: BTreeSet<_> = scopes.keys().cloned().collect();
    let run_all = async {
        let runs = scopes.into_iter().map(|(scenario, scope)| run(scenario, scope));
        let mut runs = stream::iter(runs).buffer_unordered(AT_ONCE);
        while let Some(result) = runs.next().await {
            result?;
        }
        anyhow::Ok(())
    };
    let ((), killed) = try_join(run_all, kill_in_each(&bare, &namespaces)).await?;
    assert_eq!(killed, all);
    bare.down().await
}

async fn run(scenario: String, scope: Scope) -> anyhow::Result<()> {
    let management = scope.management.clone();
    let namespace = scope.namespace.clone();
    match super::run(&scenario, scope).await {
        // A manager that was killed is away for longer than a step `never` may go unseen, and the step says so. Then, too,
        // the Faults of the scenario are gone.
        Err(error) if format!("{error:#}").contains("not looked at from") => {
            until("the Faults of the scenario to be gone", LIMIT, async || {
                let left = management.names(kinds::FAULT, &namespace).await?;
                Ok(Look::when(left.is_empty(), || format!("{left:?}")))
            })
            .await
        }
        ended => ended.with_context(|| format!("the scenario {scenario}")),
    }
}

/// Kills the manager whenever a scenario is in its middle during which it was not killed yet. Ends when that was so in each
/// of these namespaces, and returns the names of the scenarios.
async fn kill_in_each(bare: &Bare, namespaces: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let mut killed = BTreeSet::new();
    until(
        "the manager to be killed in the middle of each scenario",
        LIMIT,
        async || {
            let middle = in_the_middle(bare, namespaces).await?;
            if !middle.is_subset(&killed) {
                bare.kill_manager(Provider::Infrastructure.label()).await?;
                bare.follow_deployments().await?;
                killed.extend(middle);
            }
            Ok(Look::when(killed.len() == namespaces.len(), || {
                format!("it was killed in {killed:?}")
            }))
        },
    )
    .await?;
    Ok(killed)
}

/// The scenarios that have passed at least a third of their steps, and have at least one step to go.
async fn in_the_middle(bare: &Bare, namespaces: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for namespace in namespaces {
        let scenarios = bare.management.list(kinds::SCENARIO, namespace, "").await?;
        let middle = scenarios.iter().filter(|scenario| is_in_its_middle(scenario));
        names.extend(middle.filter_map(|scenario| Some(scenario["metadata"]["name"].as_str()?.to_owned())));
    }
    Ok(names)
}

fn is_in_its_middle(scenario: &Value) -> bool {
    let steps = scenario["spec"]["steps"].as_array().map_or(0, Vec::len);
    let of_status = scenario["status"]["steps"].as_array().into_iter().flatten();
    let passed = of_status.filter(|step| step["phase"] == "Passed").count();
    scenario["status"]["phase"] == "Running" && passed * 3 >= steps && passed < steps
}
