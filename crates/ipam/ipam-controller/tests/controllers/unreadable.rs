//! Pools, claims, IPAddresses and Faults that do not have the shape of their kind, each beside a good one.

use kube::Resource;
use nephele_api::{
    cloud::v1alpha1::Fault,
    conditions::types,
    ipam::{
        PoolKind,
        v1alpha2::{GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterPrefixPool},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_testkit::ManagementApi;
use serde_json::{Value, json};

use crate::world::{World, prefixes, settings, spec};

/// One object of each kind that cannot be read.
async fn create_all(api: &ManagementApi, name: &str) {
    let ours = |kind: &str| json!({ "apiGroup": "ipam.cluster.x-k8s.io", "kind": kind, "name": "good" });
    let claim = json!({ "poolRef": ours("InClusterIPPool"), "clusterName": 1 });
    let address = json!({ "poolRef": ours("InClusterIPPool"), "address": ["10.0.0.10"] });
    let fault = json!({ "effect": { "addresses": { "exhausted": {} } }, "match": { "pools": "good" } });
    let pool = json!({ "addresses": ["10.0.0.100"], "excludedAddresses": "10.0.0.100", "prefix": 24 });
    api.create_shapeless::<InClusterIPPool>(name, &pool).await;
    api.create_shapeless::<GlobalInClusterIPPool>(name, &Value::Null)
        .await;
    api.create_shapeless::<InClusterPrefixPool>(name, &json!({ "prefixes": 1 }))
        .await;
    api.create_shapeless::<GlobalInClusterPrefixPool>(name, &json!([]))
        .await;
    api.create_shapeless::<IPAddressClaim>(name, &claim).await;
    api.create_shapeless::<IPAddress>(name, &address).await;
    api.create_shapeless::<Fault>(name, &fault).await;
}

/// Waits until an object says that it is invalid. Returns why.
async fn invalid<K: Resource<DynamicType = ()>>(world: &World, name: &str) -> String {
    world
        .api
        .eventually_says::<K>(name, types::READY, "InvalidConfiguration")
        .await
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_says_so_and_hides_no_pool_claim_or_address() {
    let api = ManagementApi::start();
    create_all(&api, "listed").await;
    let world = World::over(api, settings());
    create_all(&world.api, "watched").await;
    world.pool("good", spec(&["10.0.0.10-10.0.0.20"], 24, "")).await;
    world
        .global_pool("good", spec(&["10.1.0.10-10.1.0.20"], 24, ""))
        .await;
    world.prefix_pool("good", prefixes(&["2001:db8::/48"], 64)).await;
    let kinds = [
        PoolKind::InClusterIPPool,
        PoolKind::GlobalInClusterIPPool,
        PoolKind::InClusterPrefixPool,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let name = format!("good-{number}");
        world.claim(&name, kind, "good").await;
        world.bound(&name).await;
    }
    for name in ["listed", "watched"] {
        let said = invalid::<InClusterIPPool>(&world, name).await;
        assert!(said.starts_with("spec.excludedAddresses: "), "{said}");
        let said = invalid::<GlobalInClusterIPPool>(&world, name).await;
        assert!(said.starts_with("spec: "), "{said}");
        let said = invalid::<InClusterPrefixPool>(&world, name).await;
        assert!(said.starts_with("spec.prefixes: "), "{said}");
        invalid::<GlobalInClusterPrefixPool>(&world, name).await;
        let said = invalid::<IPAddressClaim>(&world, name).await;
        assert!(said.starts_with("spec.clusterName: "), "{said}");
        let said = invalid::<Fault>(&world, name).await;
        assert!(said.starts_with("spec.match.pools: "), "{said}");
        // No address of a pool that cannot be read in whole: one of them may be excluded.
        world
            .claim(&format!("of-{name}"), PoolKind::InClusterIPPool, name)
            .await;
        world.waits(&format!("of-{name}"), "PoolNotReady").await;
    }
    world.stop().await;
}
