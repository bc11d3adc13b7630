//! Unhealthy machines are replaced.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

use super::faults::begin;

pub(crate) const ON_FIRE: &str = "DiskOnFire";

/// A client of the workload cluster says it first, and then faults do. One machine is hit each time.
#[tokio::test]
async fn machine_with_an_unhealthy_node_is_replaced() -> anyhow::Result<()> {
    let scope = Scope::new("remediation").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let unhealthy = |kind: &str, status: &str| json!({"type": kind, "status": status, "timeoutSeconds": 0});
    let checks = json!({
        "unhealthyNodeConditions": [unhealthy(ON_FIRE, "True"), unhealthy("Ready", "Unknown")],
        "unhealthyMachineConditions":
            [{"type": "InfrastructureReady", "status": "False", "timeoutSeconds": 10}],
    });
    scope
        .management
        .apply(&scope.namespace, &[health_check(&cluster, &checks)])
        .await?;

    let (machine, node) = worker(&cluster).await?;
    cluster
        .workload()
        .await?
        .set_node_condition(&node, ON_FIRE, "True")
        .await?;
    replaced(&cluster, &machine, &node).await?;

    let burning = json!({"nodeCondition": {"type": ON_FIRE, "status": "True", "message": "smoke"}});
    for (name, effect) in [
        ("burns", burning),
        ("silent", json!({"notReady": {}})),
        ("gone", json!({"vanish": {}})),
    ] {
        let (machine, node) = worker(&cluster).await?;
        let of_workers = json!({"matchLabels": {"cluster.x-k8s.io/deployment-name": cluster.workers()}});
        let spec = json!({
            "match": {"machineSelector": of_workers}, "effect": effect, "budget": {"count": 1},
        });
        begin(&scope, name, &spec).await?;
        replaced(&cluster, &machine, &node).await?;
        let seen = scope.management.get(kinds::FAULT, &scope.namespace, name).await?;
        let status = &seen["status"];
        assert_eq!(
            (&status["phase"], &status["hits"]),
            (&json!("Exhausted"), &json!(1)),
            "{name}"
        );
        assert_eq!(status["lastHits"][0]["machine"], json!(machine), "{name}");
    }
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
    scope
        .management
        .patch(kinds::IN_MEMORY_MACHINE, &scope.namespace, &machine, &asked)
        .await?;
    until(
        "the Machine to say that its instance is gone",
        LIMIT,
        async || {
            let said = scope
                .management
                .get(kinds::MACHINE, &scope.namespace, &machine)
                .await?;
            let conditions = said["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let told = |is: &Value| {
                is["type"] == "InfrastructureReady"
                    && is["status"] == "False"
                    && is["message"]
                        .as_str()
                        .is_some_and(|message| message.contains("was terminated"))
            };
            Ok(Look::when(conditions.iter().any(told), || state::line(&said)))
        },
    )
    .await?;
    let checks = json!({
        "unhealthyMachineConditions":
            [{"type": "InfrastructureReady", "status": "False", "timeoutSeconds": 0}],
    });
    scope
        .management
        .apply(&scope.namespace, &[health_check(&cluster, &checks)])
        .await?;
    replaced(&cluster, &machine, &node).await?;
    scope.finish().await
}

/// A MachineHealthCheck for the workers.
pub(crate) fn health_check(cluster: &Cluster, checks: &Value) -> Value {
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
pub(crate) async fn replaced(cluster: &Cluster, machine: &str, node: &str) -> anyhow::Result<()> {
    cluster
        .until("the machine to be replaced", async || {
            let (name, _) = worker(cluster).await?;
            Ok(Look::when(name != machine, || name))
        })
        .await?;
    cluster.settled(1, 1).await?;
    let nodes = cluster.workload().await?.node_identities().await?;
    assert!(
        nodes.iter().all(|(name, _)| name != node),
        "{node} is still among {nodes:?}"
    );
    Ok(())
}

/// The names of the only worker Machine and of its Node.
pub(crate) async fn worker(cluster: &Cluster) -> anyhow::Result<(String, String)> {
    let machines = cluster.machines(Some(Role::Worker)).await?;
    let [machine] = machines.as_slice() else {
        anyhow::bail!("{} workers", machines.len())
    };
    let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
    anyhow::ensure!(!node.is_empty(), "{} has no node", state::line(machine));
    Ok((state::name(machine).to_owned(), node.to_owned()))
}
