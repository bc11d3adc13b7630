//! Faults of the cloud, as users of Cluster API see them.

use nephele_e2e::{Look, Scope, Shape, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

fn fault(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Fault",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Creates a fault and waits until it is in force, or was.
pub(crate) async fn begin(scope: &Scope, name: &str, spec: &Value) -> anyhow::Result<()> {
    scope.management.apply(&scope.namespace, &[fault(name, spec)]).await?;
    until(&format!("Fault {name} to be in force"), LIMIT, async || {
        let object = scope.management.get(kinds::FAULT, &scope.namespace, name).await?;
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        Ok(Look::when(["Active", "Exhausted"].contains(&phase), || object["status"].to_string()))
    })
    .await
}

#[tokio::test]
async fn worker_without_capacity_says_so_and_comes_up_and_lost_answers_leave_nothing() -> anyhow::Result<()> {
    let scope = Scope::new("faults").await?;
    // Each test of the group has a namespace of its own, so no other cluster is hit.
    let full = json!({
        "match": {
            "operations": ["CreateInstance"],
            "machineSelector": {"matchExpressions": [
                {"key": "cluster.x-k8s.io/deployment-name", "operator": "Exists"},
            ]},
        },
        "effect": {"fail": {"reason": "InsufficientCapacity", "message": "no host is free", "retryAfter": "1s"}},
    });
    begin(&scope, "full", &full).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.worker_says("there is not enough capacity: no host is free (Fault full)").await?;
    // The control plane is not hit.
    cluster
        .until("the control plane to be available", async || {
            let object = cluster.get().await?;
            Ok(Look::when(state::is(&object, "ControlPlaneAvailable", "True"), || state::line(&object)))
        })
        .await?;
    let seen = scope.management.get(kinds::FAULT, &scope.namespace, "full").await?;
    let last = &seen["status"]["lastHits"][0];
    assert_eq!((&last["operation"], &last["cluster"]), (&json!("CreateInstance"), &json!(cluster.name)));

    scope.management.delete(kinds::FAULT, &scope.namespace, "full").await?;
    cluster.settled(1, 1).await?;

    let lost = json!({
        "match": {"operations": ["DeleteInstance", "DeleteLoadBalancer"]},
        "effect": {"fail": {"reason": "LostAnswer", "retryAfter": "1s"}},
    });
    begin(&scope, "lost", &lost).await?;
    cluster.delete().await?;
    // Two machines and the load balancer, each of them once.
    until("every deletion to have lost its answer", LIMIT, async || {
        let object = scope.management.get(kinds::FAULT, &scope.namespace, "lost").await?;
        let status = &object["status"];
        Ok(Look::when(status["hits"] == 3 && status["matched"] == 3, || status.to_string()))
    })
    .await?;
    scope.finish().await
}
