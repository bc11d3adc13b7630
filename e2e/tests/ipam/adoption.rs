//! IPAddresses that are created by hand.

use nephele_e2e::{
    Scope,
    ipam::{Counts, address},
    management::kinds,
    state,
};
use serde_json::json;

#[tokio::test]
async fn address_by_hand_is_kept_for_the_claim_of_its_name() -> anyhow::Result<()> {
    let scope = Scope::new("adoption").await?;
    let spec = json!({"addresses": ["10.4.0.10-10.4.0.11"], "prefix": 24, "gateway": "10.4.0.1"});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let by_hand = address("kept", kinds::IP_POOL, "pool", "10.4.0.10", 24);
    scope
        .management
        .apply(&scope.namespace, std::slice::from_ref(&by_hand))
        .await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 1)).await?;
    assert_eq!(
        scope.claim_in_turn(&["other"], kinds::IP_POOL, "pool").await?,
        ["10.4.0.11"]
    );
    let uid = scope.get(kinds::ADDRESS, "kept").await?["metadata"]["uid"].take();

    scope.claim("kept", kinds::IP_POOL, "pool").await?;
    let adopted = scope.address("kept").await?;
    assert_eq!(adopted["metadata"]["uid"], uid);
    assert_eq!(adopted["spec"], by_hand["spec"]);
    assert_eq!(
        adopted["metadata"]["finalizers"],
        json!(["ipam.cluster.x-k8s.io/ProtectAddress"])
    );
    let owners = adopted["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, Vec::len);
    assert_eq!(owners, 2, "{}", adopted["metadata"]);
    // The IPAddress belongs to the claim from now on, and is deleted with it.
    scope.release(&["kept"]).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 1)).await?;
    scope.finish().await
}

#[tokio::test]
async fn address_that_is_none_of_the_pools_harms_no_claim_and_is_told() -> anyhow::Result<()> {
    let scope = Scope::new("foreign").await?;
    let spec = json!({"addresses": ["10.5.0.10-10.5.0.20"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    // Addresses of the other family, and outside of the pool's subnet.
    let foreign = [
        address("six", kinds::IP_POOL, "pool", "fd00::1", 64),
        address("outside", kinds::IP_POOL, "pool", "10.99.0.1", 24),
    ];
    scope.management.apply(&scope.namespace, &foreign).await?;
    let counts = Counts {
        total: 11,
        free: 11,
        used: 2,
        out_of_range: 2,
    };
    scope.counts(kinds::IP_POOL, "pool", counts).await?;
    assert_eq!(
        scope.claim_in_turn(&["claim"], kinds::IP_POOL, "pool").await?,
        ["10.5.0.10"]
    );
    let counts = Counts {
        free: 10,
        used: 3,
        ..counts
    };
    scope.counts(kinds::IP_POOL, "pool", counts).await?;

    // A pool with addresses out of range can still be changed.
    let annotation = json!({"metadata": {"annotations": {"touched": "yes"}}});
    scope.patch(kinds::IP_POOL, "pool", &annotation).await?;
    for name in ["six", "outside"] {
        scope
            .management
            .delete(kinds::ADDRESS, &scope.namespace, name)
            .await?;
        scope.gone(kinds::ADDRESS, name).await?;
    }
    scope.counts(kinds::IP_POOL, "pool", Counts::of(11, 1)).await?;
    scope.finish().await
}

#[tokio::test]
async fn address_of_the_claims_name_but_of_another_pool_is_told() -> anyhow::Result<()> {
    let scope = Scope::new("rival").await?;
    for (name, addresses) in [("mine", "10.6.0.10"), ("theirs", "10.6.1.10")] {
        scope
            .pool(
                kinds::IP_POOL,
                name,
                json!({"addresses": [addresses], "prefix": 24}),
            )
            .await?;
    }
    let theirs = address("claim", kinds::IP_POOL, "theirs", "10.6.1.10", 24);
    scope.management.apply(&scope.namespace, &[theirs]).await?;
    scope.counts(kinds::IP_POOL, "theirs", Counts::of(1, 1)).await?;
    scope.claim("claim", kinds::IP_POOL, "mine").await?;
    let message = scope.waits("claim", "AllocationFailed").await?;
    assert!(message.contains("theirs"), "{message}");
    assert!(!state::is(
        &scope.get(kinds::CLAIM, "claim").await?,
        "Ready",
        "True"
    ));
    scope
        .management
        .delete(kinds::ADDRESS, &scope.namespace, "claim")
        .await?;
    assert_eq!(scope.bound("claim").await?, "10.6.0.10");
    scope.finish().await
}
