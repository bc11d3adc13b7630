//! Paused objects are not reconciled.

use nephele_e2e::{Look, Scope, Shape, management::kinds, state, until, wait::LIMIT};
use serde_json::json;

#[tokio::test]
async fn paused_cluster_is_left_alone_until_it_is_unpaused() -> anyhow::Result<()> {
    let scope = Scope::new("pause").await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            if object["kind"] == "InMemoryCluster" {
                object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
            }
        })
        .await?;
    until(
        "the InMemoryCluster to say that it is paused",
        LIMIT,
        async || {
            let infrastructure = cluster.object(kinds::IN_MEMORY_CLUSTER, &cluster.name).await?;
            Ok(Look::when(state::is(&infrastructure, "Paused", "True"), || {
                state::line(&infrastructure)
            }))
        },
    )
    .await?;
    let infrastructure = cluster.object(kinds::IN_MEMORY_CLUSTER, &cluster.name).await?;
    assert_eq!(
        infrastructure["status"]["initialization"]["provisioned"],
        json!(null)
    );
    assert_eq!(infrastructure["spec"]["controlPlaneEndpoint"], json!(null));

    let unpause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    cluster
        .patch(kinds::IN_MEMORY_CLUSTER, &cluster.name, &unpause)
        .await?;
    cluster.settled(1, 1).await?;

    // A running cluster is paused: its objects report it, and the new worker waits.
    cluster
        .patch(kinds::CLUSTER, &cluster.name, &json!({"spec": {"paused": true}}))
        .await?;
    until("everything of ours to be paused", LIMIT, async || {
        let mut objects = cluster.of_kind(kinds::IN_MEMORY_CLUSTER).await?;
        objects.extend(cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?);
        let paused = objects.iter().all(|object| state::is(object, "Paused", "True"));
        Ok(Look::when(paused, || {
            objects.iter().map(state::line).collect::<Vec<_>>().join("\n")
        }))
    })
    .await?;
    // Its API server still answers.
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    cluster.scale_workers(2).await?;
    cluster
        .patch(kinds::CLUSTER, &cluster.name, &json!({"spec": {"paused": null}}))
        .await?;
    cluster.settled(1, 2).await?;
    scope.finish().await
}
