//! Paused objects are not reconciled.

use nephele_e2e::{
    Scope,
    ipam::{address_name, claim},
    management::kinds,
};
use serde_json::{Value, json};

fn pausing(pauses: bool) -> Value {
    let value = if pauses { json!("") } else { Value::Null };
    json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}})
}

#[tokio::test]
async fn paused_claim_waits_until_it_is_unpaused() -> anyhow::Result<()> {
    let scope = Scope::new("paused-claim").await?;
    let spec = json!({"addresses": ["10.12.0.10-10.12.0.20"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let mut paused = claim("paused", kinds::IP_POOL, "pool");
    paused["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    scope.management.apply(&scope.namespace, &[paused]).await?;
    scope.waits("paused", "Paused").await?;
    // The pool keeps working: a later claim is served before the paused one.
    assert_eq!(
        scope.claim_in_turn(&["later"], kinds::IP_POOL, "pool").await?,
        ["10.12.0.10"]
    );
    assert_eq!(address_name(&scope.get(kinds::CLAIM, "paused").await?), None);
    scope.patch(kinds::CLAIM, "paused", &pausing(false)).await?;
    assert_eq!(scope.bound("paused").await?, "10.12.0.11");
    scope.finish().await
}

#[tokio::test]
async fn paused_pool_neither_gives_nor_takes_back() -> anyhow::Result<()> {
    let scope = Scope::new("paused-pool").await?;
    let global = scope.namespace.clone();
    for (kind, pool) in [(kinds::IP_POOL, "pool"), (kinds::GLOBAL_IP_POOL, &*global)] {
        let spec = json!({"addresses": ["10.13.0.10-10.13.0.20"], "prefix": 24});
        scope.pool(kind, pool, spec).await?;
        scope.claim_in_turn(&["first"], kind, pool).await?;
        scope.patch(kind, pool, &pausing(true)).await?;
        scope.claim("second", kind, pool).await?;
        let message = scope.waits("second", "Paused").await?;
        assert!(message.contains(pool), "{message}");
        scope
            .management
            .delete(kinds::CLAIM, &scope.namespace, "first")
            .await?;
        // A claim on another pool is released meanwhile, though it was deleted later.
        let other = format!("other-of-{pool}");
        scope
            .pool(
                kinds::IP_POOL,
                &other,
                json!({"addresses": ["10.13.1.10"], "prefix": 24}),
            )
            .await?;
        scope.claim_in_turn(&["other"], kinds::IP_POOL, &other).await?;
        scope.release(&["other"]).await?;
        assert_eq!(
            scope.get(kinds::ADDRESS, "first").await?["spec"]["address"],
            "10.13.0.10"
        );

        scope.patch(kind, pool, &pausing(false)).await?;
        scope.gone(kinds::CLAIM, "first").await?;
        scope.gone(kinds::ADDRESS, "first").await?;
        scope.bound("second").await?;
        scope.release(&["second"]).await?;
    }
    scope.finish().await
}

#[tokio::test]
async fn claims_of_a_paused_cluster_wait_until_it_is_unpaused() -> anyhow::Result<()> {
    let scope = Scope::new("paused-cluster").await?;
    let spec = json!({"addresses": ["10.14.0.10-10.14.0.20"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    // One claim names its Cluster in the spec, the other in a label.
    let mut by_name = claim("by-name", kinds::IP_POOL, "pool");
    by_name["spec"]["clusterName"] = json!("cluster");
    let mut by_label = claim("by-label", kinds::IP_POOL, "pool");
    by_label["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "cluster"});
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "cluster"},
        "spec": {
            "paused": true,
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": "none",
            },
        },
    });
    scope
        .management
        .apply(&scope.namespace, &[cluster, by_name, by_label])
        .await?;
    for name in ["by-name", "by-label"] {
        let message = scope.waits(name, "Paused").await?;
        assert!(message.contains("Cluster"), "{message}");
    }
    assert_eq!(
        scope.claim_in_turn(&["unowned"], kinds::IP_POOL, "pool").await?,
        ["10.14.0.10"]
    );
    scope
        .patch(kinds::CLUSTER, "cluster", &json!({"spec": {"paused": false}}))
        .await?;
    let mut addresses = [scope.bound("by-name").await?, scope.bound("by-label").await?];
    addresses.sort();
    assert_eq!(addresses, ["10.14.0.11", "10.14.0.12"]);
    let labels = scope.get(kinds::ADDRESS, "by-label").await?["metadata"]["labels"].take();
    assert_eq!(labels, json!({"cluster.x-k8s.io/cluster-name": "cluster"}));

    // While the Cluster is paused again, as `clusterctl move` does, a deleted claim stays.
    scope
        .patch(kinds::CLUSTER, "cluster", &json!({"spec": {"paused": true}}))
        .await?;
    let mut late = claim("late", kinds::IP_POOL, "pool");
    late["spec"]["clusterName"] = json!("cluster");
    scope.management.apply(&scope.namespace, &[late]).await?;
    scope.waits("late", "Paused").await?;
    scope
        .management
        .delete(kinds::CLAIM, &scope.namespace, "by-name")
        .await?;
    scope.release(&["unowned"]).await?;
    assert!(scope.get(kinds::ADDRESS, "by-name").await?["metadata"]["deletionTimestamp"].is_null());
    scope
        .patch(kinds::CLUSTER, "cluster", &json!({"spec": {"paused": false}}))
        .await?;
    scope.gone(kinds::CLAIM, "by-name").await?;
    scope.bound("late").await?;

    // A Cluster that is gone does not block the deletion of a claim.
    scope
        .management
        .delete(kinds::CLUSTER, &scope.namespace, "cluster")
        .await?;
    scope.gone(kinds::CLUSTER, "cluster").await?;
    scope.release(&["late", "by-label"]).await?;
    scope.finish().await
}
