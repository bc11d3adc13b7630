//! The address that a claim gets, and its IPAddress.

use nephele_e2e::{
    Scope,
    ipam::{Counts, address_name},
    management::kinds,
};
use serde_json::{Value, json};

#[tokio::test]
async fn claim_gets_the_lowest_address_with_prefix_gateway_owners_and_finalizers() -> anyhow::Result<()> {
    let scope = Scope::new("claim").await?;
    let spec = json!({"addresses": ["10.0.1.3", "10.0.1.2"], "prefix": 24, "gateway": "10.0.1.1"});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 0)).await?;
    scope.claim("claim", kinds::IP_POOL, "pool").await?;
    let address = scope.address("claim").await?;
    assert_eq!(
        address["spec"],
        json!({
            "address": "10.0.1.2", "prefix": 24, "gateway": "10.0.1.1", "claimRef": {"name": "claim"},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "pool"},
        })
    );
    let claim = scope.get(kinds::CLAIM, "claim").await?;
    let pool = scope.get(kinds::IP_POOL, "pool").await?;
    assert_eq!(address_name(&claim), Some("claim"));
    assert_eq!(
        address["metadata"]["ownerReferences"],
        json!([
            {
                "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "claim",
                "uid": claim["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            },
            {
                "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool", "name": "pool",
                "uid": pool["metadata"]["uid"], "controller": false, "blockOwnerDeletion": true,
            },
        ])
    );
    let finalizers = |object: &Value| object["metadata"]["finalizers"].clone();
    assert_eq!(
        finalizers(&address),
        json!(["ipam.cluster.x-k8s.io/ProtectAddress"])
    );
    assert_eq!(
        finalizers(&claim),
        json!(["ipam.cluster.x-k8s.io/ReleaseAddress"])
    );
    assert_eq!(finalizers(&pool), json!(["ipam.cluster.x-k8s.io/ProtectPool"]));
    scope.counts(kinds::IP_POOL, "pool", Counts::of(2, 1)).await?;
    scope.pool_says(kinds::IP_POOL, "pool", "True", "Ready").await?;
    scope.finish().await
}

#[tokio::test]
async fn excluded_and_reserved_addresses_and_the_gateway_are_not_handed_out() -> anyhow::Result<()> {
    let scope = Scope::new("excluded").await?;
    let spec = json!({
        "addresses": ["10.1.1.0/24"], "prefix": 24, "gateway": "10.1.1.1",
        "excludedAddresses": ["10.1.1.2-10.1.1.5", "10.1.1.7", "10.1.1.10-10.1.1.254"],
    });
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let names = ["a", "b", "c"];
    let addresses = scope.claim_in_turn(&names, kinds::IP_POOL, "pool").await?;
    assert_eq!(addresses, ["10.1.1.6", "10.1.1.8", "10.1.1.9"]);
    scope.counts(kinds::IP_POOL, "pool", Counts::of(3, 3)).await?;

    // The first and last address of the subnet are used if the pool allows it. The gateway is never used.
    let ends = json!(["10.1.2.0-10.1.2.1", "10.1.2.255"]);
    let spec = json!({
        "addresses": ends, "prefix": 24, "gateway": "10.1.2.1", "allocateReservedIPAddresses": true,
    });
    scope.pool(kinds::IP_POOL, "all", spec).await?;
    let addresses = scope.claim_in_turn(&["d", "e"], kinds::IP_POOL, "all").await?;
    assert_eq!(addresses, ["10.1.2.0", "10.1.2.255"]);
    scope
        .pool(
            kinds::IP_POOL,
            "none",
            json!({"addresses": ends, "prefix": 24, "gateway": "10.1.2.1"}),
        )
        .await?;
    scope.counts(kinds::IP_POOL, "none", Counts::of(0, 0)).await?;
    scope.finish().await
}

#[tokio::test]
async fn global_pool_gives_no_address_twice_over_two_namespaces() -> anyhow::Result<()> {
    let first = Scope::new("global-a").await?;
    let second = Scope::new("global-b").await?;
    // Global pools have no namespace: all tests share their names.
    let pool = first.namespace.clone();
    let spec = json!({"addresses": ["10.2.0.2-10.2.0.254"], "prefix": 24, "gateway": "10.2.0.1"});
    first.pool(kinds::GLOBAL_IP_POOL, &pool, spec).await?;
    let mut addresses = Vec::new();
    for scope in [&first, &second] {
        scope.claim("test", kinds::GLOBAL_IP_POOL, &pool).await?;
        addresses.push(scope.bound("test").await?);
    }
    assert_eq!(addresses, ["10.2.0.2", "10.2.0.3"]);
    first
        .counts(kinds::GLOBAL_IP_POOL, &pool, Counts::of(253, 2))
        .await?;

    // A namespaced pool of the same name is a different pool.
    let spec = json!({"addresses": ["10.2.0.2"], "prefix": 24});
    second.pool(kinds::IP_POOL, &pool, spec).await?;
    assert_eq!(
        second.claim_in_turn(&["local"], kinds::IP_POOL, &pool).await?,
        ["10.2.0.2"]
    );
    second.finish().await?;
    first
        .counts(kinds::GLOBAL_IP_POOL, &pool, Counts::of(253, 1))
        .await?;
    first.finish().await
}

#[tokio::test]
async fn prefix_pool_gives_prefixes_from_the_lowest_on() -> anyhow::Result<()> {
    let scope = Scope::new("prefix").await?;
    let spec = json!({
        "prefixes": ["fd10::/48", "fd00:0:0:1::/64"], "allocationPrefixLength": 64, "gateway": "fd10::1",
        "excludedPrefixes": ["fd10::1"],
    });
    scope.pool(kinds::PREFIX_POOL, "pool", spec).await?;
    scope
        .counts(kinds::PREFIX_POOL, "pool", Counts::of(65536, 0))
        .await?;
    let addresses = scope
        .claim_in_turn(&["a", "b"], kinds::PREFIX_POOL, "pool")
        .await?;
    assert_eq!(addresses, ["fd00:0:0:1::", "fd10:0:0:1::"]);
    let spec = scope.address("b").await?["spec"].take();
    assert_eq!(
        (&spec["prefix"], &spec["gateway"]),
        (&json!(64), &json!("fd10::1"))
    );

    let global = scope.namespace.clone();
    let spec = json!({"prefixes": ["fd06::/48"], "allocationPrefixLength": 56});
    scope.pool(kinds::GLOBAL_PREFIX_POOL, &global, spec).await?;
    let addresses = scope
        .claim_in_turn(&["c", "d"], kinds::GLOBAL_PREFIX_POOL, &global)
        .await?;
    assert_eq!(addresses, ["fd06::", "fd06:0:0:100::"]);
    scope
        .counts(kinds::GLOBAL_PREFIX_POOL, &global, Counts::of(256, 2))
        .await?;
    scope.finish().await
}

#[tokio::test]
async fn pool_of_more_addresses_than_can_be_counted_is_like_any_other() -> anyhow::Result<()> {
    let scope = Scope::new("large").await?;
    scope
        .pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["fd20::/48"], "prefix": 48}),
        )
        .await?;
    let all = Counts {
        total: i64::MAX,
        free: i64::MAX,
        used: 0,
        out_of_range: 0,
    };
    scope.counts(kinds::IP_POOL, "pool", all).await?;
    // The first address is reserved.
    assert_eq!(
        scope.claim_in_turn(&["a", "b"], kinds::IP_POOL, "pool").await?,
        ["fd20::1", "fd20::2"]
    );
    scope.finish().await
}

#[tokio::test]
async fn claim_may_ask_for_an_address() -> anyhow::Result<()> {
    let scope = Scope::new("wanted").await?;
    let spec = json!({"addresses": ["10.3.0.10-10.3.0.20"], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", spec).await?;
    let wanting = |name: &str, address: &str| {
        let mut claim = nephele_e2e::ipam::claim(name, kinds::IP_POOL, "pool");
        claim["metadata"]["annotations"] = json!({"ipam.nephele.dev/address": address});
        claim
    };
    scope
        .management
        .apply(&scope.namespace, &[wanting("first", "10.3.0.15")])
        .await?;
    assert_eq!(scope.bound("first").await?, "10.3.0.15");
    let others = [
        ("taken", "10.3.0.15"),
        ("outside", "10.3.1.1"),
        ("garbage", "10.3.0"),
    ];
    for (name, address) in others {
        scope
            .management
            .apply(&scope.namespace, &[wanting(name, address)])
            .await?;
        let message = scope.waits(name, "AllocationFailed").await?;
        assert!(message.contains(address), "{message}");
    }
    assert_eq!(
        scope.claim_in_turn(&["any"], kinds::IP_POOL, "pool").await?,
        ["10.3.0.10"]
    );
    // The claim is served when the requested address becomes free.
    scope.release(&["first"]).await?;
    assert_eq!(scope.bound("taken").await?, "10.3.0.15");
    scope.finish().await
}
