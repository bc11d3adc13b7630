//! Labels and annotations that Cluster API updates on machines, beside ours.

use std::time::{Duration, Instant};

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

/// The time in which nothing may be written.
const QUIET: Duration = Duration::from_secs(10);

#[tokio::test]
async fn labels_of_a_machine_deployment_reach_machines_in_place_without_a_fight_over_them()
-> anyhow::Result<()> {
    let scope = Scope::new("metadata").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let before = machine(&cluster).await?;
    let cloned_from = |machine: &Value| {
        ["cloned-from-name", "cloned-from-groupkind"]
            .map(|name| machine["metadata"]["annotations"][format!("cluster.x-k8s.io/{name}")].clone())
    };
    assert!(cloned_from(&before).iter().all(Value::is_string), "{before}");

    for value in [json!("first"), json!("second"), Value::Null] {
        let metadata = json!({"labels": {"in-step": value}, "annotations": {"in-step": value}});
        let patch = json!({"spec": {"template": {"metadata": metadata}}});
        cluster
            .patch(kinds::MACHINE_DEPLOYMENT, &cluster.workers(), &patch)
            .await?;
        let mut last = Value::Null;
        let mut since = Instant::now();
        until(
            &format!("{value} on the machine, and no write after it"),
            LIMIT,
            async || {
                let now = machine(&cluster).await?;
                if now["metadata"]["resourceVersion"] != last["metadata"]["resourceVersion"] {
                    (last, since) = (now, Instant::now());
                }
                let metadata = &last["metadata"];
                let is_there = ["labels", "annotations"]
                    .iter()
                    .all(|map| metadata[*map]["in-step"] == value);
                Ok(Look::when(is_there && since.elapsed() >= QUIET, || {
                    metadata.to_string()
                }))
            },
        )
        .await?;
    }
    let after = machine(&cluster).await?;
    assert_eq!(
        state::name(&after),
        state::name(&before),
        "the machine was replaced"
    );
    assert_eq!(cloned_from(&after), cloned_from(&before));
    assert_eq!(
        (&after["spec"], &after["status"]),
        (&before["spec"], &before["status"])
    );
    scope.finish().await
}

/// The worker's InMemoryMachine.
async fn machine(cluster: &Cluster) -> anyhow::Result<Value> {
    let workers = cluster.machines(Some(Role::Worker)).await?;
    anyhow::ensure!(workers.len() == 1, "{} workers", workers.len());
    let name = workers[0]["spec"]["infrastructureRef"]["name"]
        .as_str()
        .unwrap_or_default();
    cluster.object(kinds::IN_MEMORY_MACHINE, name).await
}
