//! More claims than addresses.

use jiff::Timestamp;
use nephele_e2e::{
    Look, Scope,
    ipam::{Counts, LIMIT, address_name},
    management::kinds,
    until,
};
use serde_json::json;

#[tokio::test]
async fn as_many_as_come_free_are_served_and_the_oldest_first() -> anyhow::Result<()> {
    let scope = Scope::new("waiting").await?;
    let spec = json!({"addresses": ["10.15.0.10-10.15.0.14"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let first = ["a", "b", "c", "d", "e"];
    scope.claim_in_turn(&first, kinds::IP_POOL, "pool").await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(5, 5)).await?;
    scope.pool_says(kinds::IP_POOL, "pool", "True", "Ready").await?;

    // The orders by age and by name differ.
    let waiting = ["z", "y", "x", "w", "v"];
    for name in waiting {
        scope.claim(name, kinds::IP_POOL, "pool").await?;
        let message = scope.waits(name, "PoolExhausted").await?;
        assert!(message.contains("pool"), "{message}");
        next_second(&scope, name).await?;
    }
    pool_counts_waiting(&scope, 5).await?;

    scope.release(&["b", "d"]).await?;
    let mut addresses = [scope.bound("z").await?, scope.bound("y").await?];
    addresses.sort();
    assert_eq!(addresses, ["10.15.0.11", "10.15.0.13"]);
    scope.counts(kinds::IP_POOL, "pool", Counts::of(5, 5)).await?;
    pool_counts_waiting(&scope, 3).await?;
    assert_eq!(served(&scope, &waiting).await?, [true, true, false, false, false]);

    // A waiting claim that is deleted frees no address, and does not block others.
    scope.release(&["x"]).await?;
    scope.release(&["a"]).await?;
    assert_eq!(scope.bound("w").await?, "10.15.0.10");
    assert_eq!(served(&scope, &["v"]).await?, [false]);

    // When the pool grows, it serves the rest.
    scope
        .apply_pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.15.0.10-10.15.0.20"], "prefix": 24}),
        )
        .await?;
    assert_eq!(scope.bound("v").await?, "10.15.0.15");
    scope.counts(kinds::IP_POOL, "pool", Counts::of(11, 6)).await?;
    scope.pool_says(kinds::IP_POOL, "pool", "True", "Ready").await?;
    scope.finish().await
}

/// Waits until the pool's status has this number of waiting claims. It is written after the claims.
async fn pool_counts_waiting(scope: &Scope, claims: usize) -> anyhow::Result<()> {
    until("the pool to count the claims that wait", LIMIT, async || {
        let message = scope
            .pool_says(kinds::IP_POOL, "pool", "False", "PoolExhausted")
            .await?;
        Ok(Look::when(
            message.contains(&format!("{claims} claims wait")),
            || message,
        ))
    })
    .await
}

#[tokio::test]
async fn claims_wait_for_a_pool_that_is_not_there_yet() -> anyhow::Result<()> {
    let scope = Scope::new("missing").await?;
    let global = scope.namespace.clone();
    scope.claim("local", kinds::IP_POOL, "pool").await?;
    scope.claim("global", kinds::GLOBAL_IP_POOL, &global).await?;
    scope.claim("prefix", kinds::PREFIX_POOL, "pool").await?;
    for name in ["local", "global", "prefix"] {
        scope.waits(name, "PoolNotReady").await?;
    }
    scope
        .pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.16.0.10"], "prefix": 24}),
        )
        .await?;
    assert_eq!(scope.bound("local").await?, "10.16.0.10");
    scope
        .pool(
            kinds::GLOBAL_IP_POOL,
            &global,
            json!({"addresses": ["10.16.1.10"], "prefix": 24}),
        )
        .await?;
    assert_eq!(scope.bound("global").await?, "10.16.1.10");
    scope
        .pool(kinds::PREFIX_POOL, "pool", json!({"prefixes": ["fd16::/64"]}))
        .await?;
    assert_eq!(scope.bound("prefix").await?, "fd16::");
    scope.finish().await
}

#[tokio::test]
async fn claim_on_a_pool_of_another_kind_is_not_touched() -> anyhow::Result<()> {
    let scope = Scope::new("reference").await?;
    let pool = json!({"addresses": ["10.17.0.10-10.17.0.20"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", pool).await?;
    let foreign = ("ipam.cluster.x-k8s.io", "v1alpha2", "UnknownIPPool");
    scope.claim("foreign", foreign, "pool").await?;
    // A later claim on another pool is served.
    assert_eq!(
        scope.claim_in_turn(&["ours"], kinds::IP_POOL, "pool").await?,
        ["10.17.0.10"]
    );
    let foreign = scope.get(kinds::CLAIM, "foreign").await?;
    assert_eq!(
        (&foreign["status"], &foreign["metadata"]["finalizers"]),
        (&json!(null), &json!(null))
    );
    scope.finish().await
}

/// Waits until a new claim would be younger than this one. Creation times are in whole seconds.
async fn next_second(scope: &Scope, claim: &str) -> anyhow::Result<()> {
    let created = scope.get(kinds::CLAIM, claim).await?["metadata"]["creationTimestamp"].take();
    let created: Timestamp = serde_json::from_value(created)?;
    until("the next second", LIMIT, async || {
        let now = Timestamp::now();
        Ok(Look::when(now.as_second() > created.as_second(), || {
            format!("{now}")
        }))
    })
    .await
}

async fn served(scope: &Scope, claims: &[&str]) -> anyhow::Result<Vec<bool>> {
    let mut served = Vec::new();
    for name in claims {
        served.push(address_name(&scope.get(kinds::CLAIM, name).await?).is_some());
    }
    Ok(served)
}
