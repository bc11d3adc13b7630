//! Faults of addresses: what claims and Machines show, and that all is well when the Fault is gone. The table in the book has the
//! row about the MachineDeployment.

use std::time::{Duration, Instant};

use nephele_e2e::{
    Scope, Shape,
    ipam::{Counts, LIMIT},
    management::kinds,
    wait::{Look, until},
};
use serde_json::{Value, json};

use crate::lifecycle::faults::begin;

const POOL: &str = "pool";

#[tokio::test]
async fn pool_is_exhausted_slow_in_conflict_and_late_while_a_fault_says_so() -> anyhow::Result<()> {
    let scope = Scope::new("address-faults").await?;
    let pool = json!({"addresses": ["10.26.0.10-10.26.0.12"], "prefix": 24});
    scope.pool(kinds::IP_POOL, POOL, pool).await?;
    let named = format!("InClusterIPPool {}/{POOL}", scope.namespace);

    begin(
        &scope,
        "conflict",
        &of_pool(&json!({"conflict": {}}), &json!({"count": 1})),
    )
    .await?;
    scope.claim("first", kinds::IP_POOL, POOL).await?;
    let told = scope.waits("first", "AllocationFailed").await?;
    assert_eq!(
        told,
        format!("address 10.26.0.10 is in use outside of {named} (Fault conflict)")
    );
    assert_eq!(scope.bound("first").await?, "10.26.0.11");
    let seen = scope.get(kinds::FAULT, "conflict").await?;
    assert_eq!(
        seen["status"]["claims"][0]["address"], "10.26.0.10",
        "{}",
        seen["status"]
    );
    heal(&scope, "conflict").await?;

    begin(
        &scope,
        "slow",
        &of_pool(&json!({"slow": {"duration": "8s"}}), &json!({})),
    )
    .await?;
    let begun = Instant::now();
    scope.claim("second", kinds::IP_POOL, POOL).await?;
    let told = scope.waits("second", "AllocationDelayed").await?;
    assert!(
        told.starts_with(&format!("{named} hands out the address at ")),
        "{told}"
    );
    assert_eq!(scope.bound("second").await?, "10.26.0.10");
    // The time of a creation is cut to whole seconds.
    assert!(begun.elapsed() > Duration::from_secs(6), "{:?}", begun.elapsed());
    heal(&scope, "slow").await?;

    begin(
        &scope,
        "exhausted",
        &of_pool(&json!({"exhausted": {}}), &json!({})),
    )
    .await?;
    scope.claim("third", kinds::IP_POOL, POOL).await?;
    let told = scope.waits("third", "PoolExhausted").await?;
    assert_eq!(told, format!("{named} has no address left (Fault exhausted)"));
    heal(&scope, "exhausted").await?;
    assert_eq!(scope.bound("third").await?, "10.26.0.12");

    begin(
        &scope,
        "late",
        &of_pool(&json!({"lateRelease": {"duration": "1h"}}), &json!({})),
    )
    .await?;
    scope
        .management
        .delete(kinds::CLAIM, &scope.namespace, "first")
        .await?;
    scope.gone(kinds::CLAIM, "first").await?;
    scope.claim("fourth", kinds::IP_POOL, POOL).await?;
    scope.waits("fourth", "PoolExhausted").await?;
    scope.counts(kinds::IP_POOL, POOL, Counts::of(3, 3)).await?;
    heal(&scope, "late").await?;
    assert_eq!(scope.bound("fourth").await?, "10.26.0.11");
    scope.release(&["second", "third", "fourth"]).await?;
    scope.counts(kinds::IP_POOL, POOL, Counts::of(3, 0)).await?;
    scope.finish().await
}

#[tokio::test]
async fn new_worker_waits_while_a_fault_exhausts_the_pools_of_its_cluster() -> anyhow::Result<()> {
    let scope = Scope::new("no-address").await?;
    let cluster = scope.pooled_with("cluster", Shape::new(1, 1), |_| ()).await?;
    cluster.settled(1, 1).await?;
    let selector = json!({"matchLabels": {"team": "blue"}});
    let fault = json!({"match": {"clusterSelector": selector}, "effect": {"addresses": {"exhausted": {}}}});
    cluster
        .patch(
            kinds::CLUSTER,
            &cluster.name,
            &json!({"metadata": {"labels": {"team": "blue"}}}),
        )
        .await?;
    begin(&scope, "exhausted", &fault).await?;
    cluster
        .patch(
            kinds::MACHINE_DEPLOYMENT,
            &cluster.workers(),
            &json!({"spec": {"replicas": 2}}),
        )
        .await?;
    cluster
        .worker_says("has no address left (Fault exhausted)")
        .await?;
    until(
        "the Fault to have hit the claim of the Machine",
        LIMIT,
        async || {
            let seen = scope.get(kinds::FAULT, "exhausted").await?;
            let status = &seen["status"];
            let hit = &status["lastHits"][0];
            let is_so = status["matched"] == 1 && hit["cluster"] == cluster.name && hit["claim"].is_string();
            Ok(Look::when(is_so, || status.to_string()))
        },
    )
    .await?;
    heal(&scope, "exhausted").await?;
    cluster.settled(1, 2).await?;
    scope.finish().await
}

fn of_pool(effect: &Value, budget: &Value) -> Value {
    json!({"match": {"pools": [POOL]}, "effect": {"addresses": effect}, "budget": budget})
}

async fn heal(scope: &Scope, fault: &str) -> anyhow::Result<()> {
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, fault)
        .await?;
    scope.gone(kinds::FAULT, fault).await
}
