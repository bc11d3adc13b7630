//! Deletion of claims and pools.

use nephele_e2e::{
    Look, Scope,
    ipam::{Counts, LIMIT},
    management::kinds,
    state, until,
};
use serde_json::json;

#[tokio::test]
async fn deleted_claim_takes_its_address_along_and_the_next_one_gets_it() -> anyhow::Result<()> {
    let scope = Scope::new("release").await?;
    let spec = json!({"addresses": ["10.7.0.10-10.7.0.12"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let names = ["a", "b", "c"];
    let addresses = scope.claim_in_turn(&names, kinds::IP_POOL, "pool").await?;
    assert_eq!(addresses, ["10.7.0.10", "10.7.0.11", "10.7.0.12"]);
    scope.release(&["b"]).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(3, 2)).await?;
    assert_eq!(
        scope.claim_in_turn(&["d"], kinds::IP_POOL, "pool").await?,
        ["10.7.0.11"]
    );
    scope.finish().await
}

#[tokio::test]
async fn address_that_a_user_deletes_stays_with_its_claim() -> anyhow::Result<()> {
    let scope = Scope::new("held").await?;
    let spec = json!({"addresses": ["10.8.0.10-10.8.0.12"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    scope.claim_in_turn(&["a"], kinds::IP_POOL, "pool").await?;
    scope
        .management
        .delete(kinds::ADDRESS, &scope.namespace, "a")
        .await?;
    // A later claim does not get the address of a claim that is being deleted.
    assert_eq!(
        scope.claim_in_turn(&["b"], kinds::IP_POOL, "pool").await?,
        ["10.8.0.11"]
    );
    let address = scope.get(kinds::ADDRESS, "a").await?;
    assert!(
        address["metadata"]["deletionTimestamp"].is_string(),
        "{}",
        address["metadata"]
    );
    scope.release(&["a"]).await?;
    scope.finish().await
}

#[tokio::test]
async fn pool_is_refused_to_be_deleted_while_it_has_addresses() -> anyhow::Result<()> {
    let scope = Scope::new("protected").await?;
    let global = scope.namespace.clone();
    let pools = [
        (
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.9.0.10"], "prefix": 24}),
        ),
        (
            kinds::GLOBAL_IP_POOL,
            &*global,
            json!({"addresses": ["10.9.1.10"], "prefix": 24}),
        ),
        (kinds::PREFIX_POOL, "pool", json!({"prefixes": ["fd09::/64"]})),
        (
            kinds::GLOBAL_PREFIX_POOL,
            &*global,
            json!({"prefixes": ["fd09:0:0:1::/64"]}),
        ),
    ];
    for (index, (kind, pool, spec)) in pools.into_iter().enumerate() {
        scope.pool(kind, pool, spec).await?;
        let claim = format!("claim-{index}");
        scope.claim_in_turn(&[&claim], kind, pool).await?;
        let refused = scope.management.delete(kind, &scope.namespace, pool).await;
        let message = format!("{:#}", refused.expect_err("the pool has an address"));
        let expected =
            "Pool has IPAddresses allocated. Cannot delete Pool until all IPAddresses have been removed.";
        assert!(message.contains(expected), "{message}");
        scope.release(&[&claim]).await?;
        scope.management.delete(kind, &scope.namespace, pool).await?;
        scope.gone(kind, pool).await?;
    }
    scope.finish().await
}

#[tokio::test]
async fn pool_that_is_deleted_nevertheless_waits_for_its_addresses() -> anyhow::Result<()> {
    let scope = Scope::new("leaving").await?;
    let spec = json!({"addresses": ["10.10.0.10-10.10.0.11"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    scope.claim_in_turn(&["claim"], kinds::IP_POOL, "pool").await?;
    let skip = json!({"metadata": {"annotations": {
        "ipam.cluster.x-k8s.io/skip-validate-delete-webhook": "",
    }}});
    scope.patch(kinds::IP_POOL, "pool", &skip).await?;
    scope
        .management
        .delete(kinds::IP_POOL, &scope.namespace, "pool")
        .await?;
    let message = scope
        .pool_says(kinds::IP_POOL, "pool", "False", "Deleting")
        .await?;
    assert!(message.contains("1 address"), "{message}");
    // The pool serves no new claims. Bound claims keep their addresses.
    scope.claim("late", kinds::IP_POOL, "pool").await?;
    scope.waits("late", "PoolNotReady").await?;
    until("the first claim to be as it was", LIMIT, async || {
        let claim = scope.get(kinds::CLAIM, "claim").await?;
        Ok(Look::when(state::is(&claim, "Ready", "True"), || {
            state::line(&claim)
        }))
    })
    .await?;
    scope.release(&["claim"]).await?;
    scope.gone(kinds::IP_POOL, "pool").await?;
    scope.release(&["late"]).await?;
    scope.finish().await
}

#[tokio::test]
async fn pool_that_is_being_moved_is_let_go_where_it_was() -> anyhow::Result<()> {
    let scope = Scope::new("move").await?;
    scope
        .pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.11.0.10"], "prefix": 24}),
        )
        .await?;
    scope.claim_in_turn(&["claim"], kinds::IP_POOL, "pool").await?;
    let moved = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    scope.patch(kinds::IP_POOL, "pool", &moved).await?;
    scope
        .management
        .delete(kinds::IP_POOL, &scope.namespace, "pool")
        .await?;
    scope.release(&["claim"]).await?;
    scope.gone(kinds::IP_POOL, "pool").await?;
    scope.finish().await
}
