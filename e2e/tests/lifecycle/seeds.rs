//! The same seed and the same cluster take the same time.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, until, wait::LIMIT};
use serde_json::{Value, json};

/// The stages of a machine, each with the stage before it.
const STAGES: [(&str, &str); 4] = [
    ("vm", ""),
    ("node", "vm"),
    ("etcd", "node"),
    ("apiServer", "node"),
];

#[tokio::test]
async fn machines_of_a_cluster_that_is_made_again_take_as_long_as_those_before() -> anyhow::Result<()> {
    let scope = Scope::new("seeds").await?;
    let first = run(&scope).await?;
    let times: Vec<_> = first.values().flatten().collect();
    assert_eq!(
        times.len(),
        3 * STAGES.len() + 3 * 2,
        "three machines with a control plane and three without"
    );
    assert!(
        times.iter().any(|time| *time != times[0]),
        "jitter makes a difference: {first:?}"
    );
    assert_eq!(run(&scope).await?, first);
    scope.finish().await
}

/// How long each stage took, by role and stage. The durations are sorted, because the names of machines are random.
type Durations = BTreeMap<(&'static str, &'static str), Vec<Duration>>;

/// Creates the cluster, and deletes it.
async fn run(scope: &Scope) -> anyhow::Result<Durations> {
    let part = json!({"provisioning": {"startupDuration": "1s", "startupJitter": "0.5"}});
    let cluster = scope
        .of_class_with("cluster", Shape::new(3, 3), |object| {
            let behaviour = json!({"vm": part, "node": part});
            let with_etcd = json!({"vm": part, "node": part, "etcd": part, "apiServer": part});
            object["spec"]["topology"]["variables"] = json!([
                {"name": "controlPlaneBehaviour", "value": with_etcd},
                {"name": "workerBehaviour", "value": behaviour},
            ]);
        })
        .await?;
    cluster.settled(3, 3).await?;
    let durations = durations(&cluster).await?;
    cluster.delete().await?;
    until("the cluster to be gone", LIMIT, async || {
        let clusters = scope
            .management
            .list(kinds::CLUSTER, &scope.namespace, "")
            .await?;
        Ok(Look::when(clusters.is_empty(), || {
            format!("{} are left", clusters.len())
        }))
    })
    .await?;
    Ok(durations)
}

async fn durations(cluster: &Cluster) -> anyhow::Result<Durations> {
    let mut durations = Durations::new();
    for (role, name) in [(Role::ControlPlane, "control plane"), (Role::Worker, "workers")] {
        for machine in cluster.machines(Some(role)).await? {
            let infrastructure = machine["spec"]["infrastructureRef"]["name"].as_str();
            let infrastructure = infrastructure.context("the Machine refers to nothing")?;
            let object = cluster.object(kinds::IN_MEMORY_MACHINE, infrastructure).await?;
            let origin = &object["spec"]["instance"]["origin"];
            for (stage, after) in STAGES {
                let Some(reached) = instant(&origin["reached"][stage])? else {
                    continue;
                };
                let entered = match after {
                    "" => instant(&origin["startTime"])?,
                    after => instant(&origin["reached"][after])?,
                };
                let entered = entered.with_context(|| format!("{stage} was reached before {after}"))?;
                let took = Duration::try_from(reached.duration_since(entered)).context("time went back")?;
                durations.entry((name, stage)).or_default().push(took);
            }
        }
    }
    durations.values_mut().for_each(|times| times.sort());
    Ok(durations)
}

fn instant(value: &Value) -> anyhow::Result<Option<Timestamp>> {
    value
        .as_str()
        .map(str::parse)
        .transpose()
        .with_context(|| format!("{value} is no time"))
}
