//! Unhealthy machines are replaced.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

const FAULT: &str = "DiskOnFire";

#[tokio::test]
async fn machine_with_an_unhealthy_node_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("remediation").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let checks = json!({"unhealthyNodeConditions": [{"type": FAULT, "status": "True", "timeoutSeconds": 0}]});
    scope.management.apply(&scope.namespace, &[health_check(&cluster, &checks)]).await?;

    let (machine, node) = worker(&cluster).await?;
    cluster.workload().await?.set_node_condition(&node, FAULT, "True").await?;
    replaced(&cluster, &machine, &node).await?;
    scope.finish().await
}

/// The instance vanishes as in a cloud: only the conditions of the InMemoryMachine tell Cluster API.
#[tokio::test]
async fn machine_whose_instance_was_terminated_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("terminated").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let (machine, node) = worker(&cluster).await?;
    let terminate = "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance";
    let asked = json!({"metadata": {"annotations": {terminate: ""}}});
    scope.management.patch(kinds::IN_MEMORY_MACHINE, &scope.namespace, &machine, &asked).await?;
    until("the Machine to say that its instance is gone", LIMIT, async || {
        let said = scope.management.get(kinds::MACHINE, &scope.namespace, &machine).await?;
        let conditions = said["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let told = |is: &Value| {
            is["type"] == "InfrastructureReady"
                && is["status"] == "False"
                && is["message"].as_str().is_some_and(|message| message.contains("was terminated"))
        };
        Ok(Look::when(conditions.iter().any(told), || state::line(&said)))
    })
    .await?;
    let checks = json!({
        "unhealthyMachineConditions":
            [{"type": "InfrastructureReady", "status": "False", "timeoutSeconds": 0}],
    });
    scope.management.apply(&scope.namespace, &[health_check(&cluster, &checks)]).await?;
    replaced(&cluster, &machine, &node).await?;
    scope.finish().await
}

/// A MachineHealthCheck for the workers.
fn health_check(cluster: &Cluster, checks: &Value) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers"},
        "spec": {
            "clusterName": cluster.name,
            "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": cluster.workers()}},
            "checks": checks,
        },
    })
}

/// Waits until another worker has replaced the machine, and the Node is gone.
async fn replaced(cluster: &Cluster, machine: &str, node: &str) -> anyhow::Result<()> {
    cluster
        .until("the machine to be replaced", async || {
            let (name, _) = worker(cluster).await?;
            Ok(Look::when(name != machine, || name))
        })
        .await?;
    cluster.settled(1, 1).await?;
    let nodes = cluster.workload().await?.node_identities().await?;
    assert!(nodes.iter().all(|(name, _)| name != node), "{node} is still among {nodes:?}");
    Ok(())
}

/// The names of the only worker Machine and of its Node.
async fn worker(cluster: &Cluster) -> anyhow::Result<(String, String)> {
    let machines = cluster.machines(Some(Role::Worker)).await?;
    let [machine] = machines.as_slice() else { anyhow::bail!("{} workers", machines.len()) };
    let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
    anyhow::ensure!(!node.is_empty(), "{} has no node", state::line(machine));
    Ok((state::name(machine).to_owned(), node.to_owned()))
}
