//! Claims on pools of prefixes: the cases of the in-cluster IPAM provider's own test suite.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, api::PostParams};
use nephele_api::ipam::{
    PoolKind,
    v1alpha2::{GlobalInClusterPrefixPool, InClusterPrefixPool, InClusterPrefixPoolSpec},
    v1beta2::IPAddressClaim,
};
use nephele_testkit::objects::NAMESPACE;
use serde_json::json;

use crate::world::{OTHER, World, claim, counted, counts, prefixes};

const PREFIX: PoolKind = PoolKind::InClusterPrefixPool;
const GLOBAL: PoolKind = PoolKind::GlobalInClusterPrefixPool;

async fn counts_so(world: &World, pool: &str, wanted: [i64; 4]) {
    let wanted = counts(wanted);
    let is = |pool: &InClusterPrefixPool| counted(pool.status.as_ref()) == Some(wanted);
    world
        .eventually::<InClusterPrefixPool>(NAMESPACE, pool, "to count so", is)
        .await;
}

/// Base address, length and gateway of the prefix of a new claim.
async fn prefix(world: &World, name: &str, pool: &str) -> (String, Option<i32>, String) {
    world.claim(name, PREFIX, pool).await;
    let spec = world.bound(name).await.spec;
    (spec.address, spec.prefix, spec.gateway)
}

// D1, D3, D4, S14, S15.
#[tokio::test(start_paused = true)]
async fn the_lowest_prefix_that_may_be_handed_out_is() {
    let world = World::start().await;
    let with_gateway = InClusterPrefixPoolSpec {
        gateway: "fd10::1".into(),
        ..prefixes(&["fd00::/62"], 64)
    };
    world.prefix_pool("d1", with_gateway).await;
    counts_so(&world, "d1", [4, 0, 4, 0]).await;
    let of = |address: &str, length: i32, gateway: &str| (address.into(), Some(length), gateway.into());
    assert_eq!(prefix(&world, "d1-1", "d1").await, of("fd00::", 64, "fd10::1"));
    counts_so(&world, "d1", [4, 1, 3, 0]).await;
    assert_eq!(
        prefix(&world, "d1-2", "d1").await,
        of("fd00:0:0:1::", 64, "fd10::1")
    );

    world.prefix_pool("d3", prefixes(&["fd06::/48"], 56)).await;
    counts_so(&world, "d3", [256, 0, 256, 0]).await;
    assert_eq!(prefix(&world, "d3-1", "d3").await, of("fd06::", 56, ""));
    counts_so(&world, "d3", [256, 1, 255, 0]).await;
    assert_eq!(prefix(&world, "d3-2", "d3").await, of("fd06:0:0:100::", 56, ""));

    world
        .prefix_pool("d4", prefixes(&["fd00:0:0:1::/64", "fd10::/48"], 64))
        .await;
    assert_eq!(prefix(&world, "d4-1", "d4").await, of("fd00:0:0:1::", 64, ""));
    assert_eq!(prefix(&world, "d4-2", "d4").await, of("fd10::", 64, ""));
    world.stop().await;
}

// D2.
#[tokio::test(start_paused = true)]
async fn a_paused_pool_gives_nothing() {
    let world = World::start().await;
    world.prefix_pool("pool", prefixes(&["fd04::/63"], 64)).await;
    world.set_paused::<InClusterPrefixPool>("pool", true).await;
    world.claim("test", PREFIX, "pool").await;
    world.waits("test", "Paused").await;
    world.set_paused::<InClusterPrefixPool>("pool", false).await;
    assert_eq!(world.bound("test").await.spec.address, "fd04::");
    world.stop().await;
}

// D5, S18.
#[tokio::test(start_paused = true)]
async fn a_global_pool_serves_every_namespace_and_waits_for_all_to_go() {
    let world = World::start().await;
    let pool = GlobalInClusterPrefixPool {
        metadata: ObjectMeta {
            name: Some("pool".into()),
            ..ObjectMeta::default()
        },
        spec: prefixes(&["fd01::/63"], 64),
        status: None,
    };
    let api: Api<GlobalInClusterPrefixPool> = Api::all(world.api.client());
    api.create(&PostParams::default(), &pool).await.expect("a pool");
    world.claim("test", GLOBAL, "pool").await;
    assert_eq!(world.bound("test").await.spec.address, "fd01::");
    world.create_in(OTHER, &claim("test", GLOBAL, "pool")).await;
    assert_eq!(world.bound_in(OTHER, "test").await.spec.address, "fd01:0:0:1::");

    api.delete("pool", &kube::api::DeleteParams::default())
        .await
        .expect("deleted");
    world.delete::<IPAddressClaim>(OTHER, "test").await;
    world.gone::<IPAddressClaim>(OTHER, "test").await;
    assert!(api.get_opt("pool").await.expect("an answer").is_some());
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    nephele_testkit::eventually_of(&api, "pool", "to be gone", |pool| pool.is_none()).await;
    world.stop().await;
}

// D6, D7, S18.
#[tokio::test(start_paused = true)]
async fn a_released_prefix_goes_to_the_claim_that_waits() {
    let world = World::start().await;
    world.prefix_pool("pool", prefixes(&["fd07::/64"], 64)).await;
    assert_eq!(prefix(&world, "first", "pool").await.0, "fd07::");
    world.claim("second", PREFIX, "pool").await;
    world.waits("second", "PoolExhausted").await;
    counts_so(&world, "pool", [1, 1, 0, 0]).await;
    assert_eq!(world.addresses().await.len(), 1);
    world.delete::<IPAddressClaim>(NAMESPACE, "first").await;
    assert_eq!(world.bound("second").await.spec.address, "fd07::");
    world.delete::<InClusterPrefixPool>(NAMESPACE, "pool").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "second").await;
    world.gone::<InClusterPrefixPool>(NAMESPACE, "pool").await;
    world.stop().await;
}

// S16, S17.
#[tokio::test(start_paused = true)]
async fn a_prefix_that_could_not_be_handed_out_any_more_is_counted() {
    let world = World::start().await;
    for pool in ["fd01", "fd03"] {
        world
            .prefix_pool(pool, prefixes(&[&format!("{pool}::/62")], 64))
            .await;
        prefix(&world, &format!("{pool}-claim"), pool).await;
    }
    let shrunk = json!({ "spec": { "prefixes": ["fd01:0:0:1::/64"] } });
    world.api.patch::<InClusterPrefixPool>("fd01", &shrunk).await;
    counts_so(&world, "fd01", [1, 1, 1, 1]).await;
    let excluding = json!({ "spec": { "excludedPrefixes": ["fd03::/64"], "gateway": "fd03:0:0:1::1" } });
    world.api.patch::<InClusterPrefixPool>("fd03", &excluding).await;
    counts_so(&world, "fd03", [3, 1, 3, 1]).await;
    world.stop().await;
}
