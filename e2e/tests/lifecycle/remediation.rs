//! Machines that are not well are replaced.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, state, until, wait::LIMIT};
use serde_json::json;

const FAULT: &str = "DiskOnFire";

#[tokio::test]
async fn machine_with_an_unhealthy_node_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("remediation").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let health_check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": scope.namespace},
        "spec": {
            "clusterName": cluster.name,
            "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": cluster.workers()}},
            "checks": {"unhealthyNodeConditions": [{"type": FAULT, "status": "True", "timeoutSeconds": 0}]},
        },
    });
    scope.management.apply(&scope.namespace, &[health_check]).await?;

    let (machine, node) = worker(&cluster).await?;
    cluster.workload().await?.set_node_condition(&node, FAULT, "True").await?;
    until("the machine to be replaced", LIMIT, async || {
        let replaced = worker(&cluster).await.is_ok_and(|(name, _)| name != machine);
        if replaced {
            return Ok(Look::Done(()));
        }
        Ok(Look::NotYet(cluster.state().await?))
    })
    .await?;
    cluster.settled(1, 1).await?;
    let nodes = cluster.workload().await?.node_identities().await?;
    assert!(nodes.iter().all(|(name, _)| *name != node), "{node} is still among {nodes:?}");
    scope.finish().await
}

/// Names of the one worker Machine and its Node.
async fn worker(cluster: &Cluster) -> anyhow::Result<(String, String)> {
    let machines = cluster.machines(Some(Role::Worker)).await?;
    let [machine] = machines.as_slice() else { anyhow::bail!("{} workers", machines.len()) };
    let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
    anyhow::ensure!(!node.is_empty(), "{} has no node", state::line(machine));
    Ok((state::name(machine).to_owned(), node.to_owned()))
}
