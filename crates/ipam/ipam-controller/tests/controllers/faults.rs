//! Faults of addresses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::ResourceExt as _;
use nephele_api::{
    cloud::v1alpha1::{AffectedClaim, Fault, FaultStatus},
    conditions::{self, types},
    ipam::{
        PoolKind,
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_testkit::{ManagementApi, objects::NAMESPACE};
use serde_json::{Value, json};

use crate::world::{OTHER, World, claim, settings, spec};

const IP: PoolKind = PoolKind::InClusterIPPool;
const NAME: &str = "f";

async fn begin(world: &World, effect: &Value, budget: &Value) -> Fault {
    let spec = json!({ "effect": { "addresses": effect }, "budget": budget });
    begin_as(world, spec).await
}

async fn begin_as(world: &World, spec: Value) -> Fault {
    let fault = Fault::new(NAME, serde_json::from_value(spec).expect("a spec"));
    world.create_in(NAMESPACE, &fault).await;
    // From now on the manager carries it out.
    world
        .eventually::<Fault>(NAMESPACE, NAME, "to begin", |fault| {
            !status(fault).phase.is_empty()
        })
        .await
}

async fn heal(world: &World) {
    world.delete::<Fault>(NAMESPACE, NAME).await;
}

fn status(fault: &Fault) -> FaultStatus {
    fault.status.clone().unwrap_or_default()
}

fn names(claims: &[AffectedClaim]) -> Vec<(&str, &str)> {
    claims
        .iter()
        .map(|claim| (&*claim.name, &*claim.address))
        .collect()
}

/// Waits until the Fault lists these claims, with the address that each keeps.
async fn lists(world: &World, expected: &[(&str, &str)]) -> FaultStatus {
    let listed = |fault: &Fault| names(&status(fault).claims) == expected;
    status(
        &world
            .eventually::<Fault>(NAMESPACE, NAME, "to list its claims", listed)
            .await,
    )
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_exhausted_for_the_claims_that_a_fault_hits_and_serves_them_when_it_is_gone() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    world.claim("before", IP, "pool").await;
    let before = world.bound("before").await;
    begin(
        &world,
        &json!({ "exhausted": {} }),
        &json!({ "skip": 1, "count": 2 }),
    )
    .await;
    world.claim("spared", IP, "pool").await;
    assert_eq!(world.bound("spared").await.spec.address, "10.0.0.2");
    let mut told = Vec::new();
    for name in ["a", "b"] {
        world.claim(name, IP, "pool").await;
        told.push(world.waits(name, "PoolExhausted").await);
    }
    assert_eq!(
        told,
        ["InClusterIPPool default/pool has no address left (Fault f)"; 2]
    );
    world.claim("after", IP, "pool").await;
    assert_eq!(world.bound("after").await.spec.address, "10.0.0.3");
    let exhausted = |fault: &Fault| status(fault).phase == "Exhausted";
    world
        .eventually::<Fault>(NAMESPACE, NAME, "to have no budget left", exhausted)
        .await;
    let said = lists(&world, &[("a", ""), ("b", "")]).await;
    assert_eq!((said.matched, said.hits), (Some(3), Some(2)));
    assert_eq!(
        said.last_hits.iter().map(|hit| &*hit.claim).collect::<Vec<_>>(),
        ["b", "a"]
    );

    // The next process knows whom the Fault has hit.
    let world = world.restart().await;
    world.claim("later", IP, "pool").await;
    assert_eq!(world.bound("later").await.spec.address, "10.0.0.4");
    world.waits("a", "PoolExhausted").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "a").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "a").await;
    lists(&world, &[("b", "")]).await;
    heal(&world).await;
    assert_eq!(world.bound("b").await.spec.address, "10.0.0.5");
    assert_eq!(world.api.get::<IPAddress>("before").await, before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_pool_serves_a_claim_some_time_after_its_creation() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    begin(&world, &json!({ "slow": { "duration": "3s" } }), &json!({})).await;
    let slow = world.claim("a", IP, "pool").await;
    let created = slow.metadata.creation_timestamp.expect("it is created").0;
    let due = created + Duration::from_secs(3);
    let told = world.waits("a", "AllocationDelayed").await;
    assert_eq!(
        told,
        format!("InClusterIPPool default/pool hands out the address at {due} (Fault f)")
    );
    lists(&world, &[("a", "")]).await;
    world.bound("a").await;
    assert!(world.api.clock()() >= due);
    lists(&world, &[]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_in_conflict_is_told_of_and_passed_over_until_the_fault_is_gone() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    begin(&world, &json!({ "conflict": {} }), &json!({ "count": 1 })).await;
    world.claim("a", IP, "pool").await;
    let told = world.waits("a", "AllocationFailed").await;
    assert_eq!(
        told,
        "address 10.0.0.1 is in use outside of InClusterIPPool default/pool (Fault f)"
    );
    assert_eq!(world.bound("a").await.spec.address, "10.0.0.2");
    lists(&world, &[("a", "10.0.0.1")]).await;
    world.counts("pool", [9, 1, 7, 0]).await;

    let world = world.restart().await;
    world.claim("b", IP, "pool").await;
    assert_eq!(world.bound("b").await.spec.address, "10.0.0.3");
    let mut requesting = claim("c", IP, "pool");
    let requested = nephele_api::ipam::annotations::WANTED_ADDRESS.to_owned();
    requesting.annotations_mut().insert(requested, "10.0.0.1".into());
    world.api.create(&requesting).await;
    assert_eq!(
        world.waits("c", "AllocationFailed").await,
        "address 10.0.0.1 is in use outside of the pool"
    );
    heal(&world).await;
    assert_eq!(world.bound("c").await.spec.address, "10.0.0.1");
    world.counts("pool", [9, 3, 6, 0]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_address_is_not_free_before_its_time_or_the_end_of_the_fault() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.2"], 24, "")).await;
    for name in ["a", "b"] {
        world.claim(name, IP, "pool").await;
        world.bound(name).await;
    }
    begin(
        &world,
        &json!({ "lateRelease": { "duration": "1h" } }),
        &json!({}),
    )
    .await;
    world.delete::<IPAddressClaim>(NAMESPACE, "a").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "a").await;
    lists(&world, &[("a", "10.0.0.1")]).await;
    world.claim("c", IP, "pool").await;
    let told = world.waits("c", "PoolExhausted").await;
    assert_eq!(told, "InClusterIPPool default/pool has no address left");

    let world = world.restart().await;
    world.delete::<IPAddressClaim>(NAMESPACE, "b").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "b").await;
    lists(&world, &[("a", "10.0.0.1"), ("b", "10.0.0.2")]).await;
    assert_eq!(world.addresses().await.len(), 2);
    heal(&world).await;
    assert_eq!(world.bound("c").await.spec.address, "10.0.0.1");
    world.gone::<IPAddress>(NAMESPACE, "b").await;

    // A short one passes by itself.
    begin(
        &world,
        &json!({ "lateRelease": { "duration": "2s" } }),
        &json!({}),
    )
    .await;
    world.delete::<IPAddressClaim>(NAMESPACE, "c").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "c").await;
    lists(&world, &[("c", "10.0.0.1")]).await;
    world.gone::<IPAddress>(NAMESPACE, "c").await;
    lists(&world, &[]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_affects_the_pools_and_clusters_that_it_names_in_its_namespace() {
    let world = World::start().await;
    world
        .global_pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, ""))
        .await;
    world.pool("other", spec(&["10.1.0.1-10.1.0.9"], 24, "")).await;
    world.cluster("blue", None, false).await;
    let blue = json!({ "metadata": { "labels": { "team": "blue" } } });
    world.api.patch::<nephele_api::core::Cluster>("blue", &blue).await;
    begin_as(
        &world,
        json!({
            "match": { "pools": ["pool"], "clusterSelector": { "matchLabels": { "team": "blue" } } },
            "effect": { "addresses": { "exhausted": {} } },
        }),
    )
    .await;
    let global = PoolKind::GlobalInClusterIPPool;
    let mut of_blue = claim("hit", global, "pool");
    of_blue.spec.cluster_name = "blue".into();
    world.api.create(&of_blue).await;
    let told = world.waits("hit", "PoolExhausted").await;
    assert_eq!(told, "GlobalInClusterIPPool pool has no address left (Fault f)");
    world.claim("unowned", global, "pool").await;
    world.bound("unowned").await;
    let mut of_other_pool = claim("of-other-pool", IP, "other");
    of_other_pool.spec.cluster_name = "blue".into();
    world.api.create(&of_other_pool).await;
    world.bound("of-other-pool").await;
    world.create_in(OTHER, &claim("elsewhere", global, "pool")).await;
    world.bound_in(OTHER, "elsewhere").await;
    let said = lists(&world, &[("hit", "")]).await;
    assert_eq!(
        (
            said.matched,
            &*said.last_hits[0].cluster,
            &*said.claims[0].pool_kind
        ),
        (Some(1), "blue", global.as_str())
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn windows_and_the_end_of_a_fault_free_its_claims_without_anybody_asking() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    begin(&world, &json!({ "exhausted": {} }), &json!({ "for": "4s" })).await;
    world.claim("a", IP, "pool").await;
    world.waits("a", "PoolExhausted").await;
    world.bound("a").await;
    let expired = |fault: &Fault| status(fault).phase == "Expired" && status(fault).claims.is_empty();
    world
        .eventually::<Fault>(NAMESPACE, NAME, "to be over", expired)
        .await;
    world.stop().await;
}

/// Waits until the Fault says whether it is paused.
async fn pause(world: &World, paused: bool) -> FaultStatus {
    world.set_paused::<Fault>(NAME, paused).await;
    let says = |fault: &Fault| {
        let conditions = status(fault).conditions;
        let found = conditions::find(&conditions, types::PAUSED);
        found.is_some_and(|found| found.status == if paused { "True" } else { "False" })
    };
    status(
        &world
            .eventually::<Fault>(NAMESPACE, NAME, "to say whether it is paused", says)
            .await,
    )
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_paused_fault_wakes_the_claims_that_it_holds_also_after_a_restart() {
    for restarts in [false, true] {
        let world = World::start().await;
        world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
        begin(&world, &json!({ "exhausted": {} }), &json!({ "for": "60s" })).await;
        world.claim("held", IP, "pool").await;
        world.waits("held", "PoolExhausted").await;
        let before = lists(&world, &[("held", "")]).await;
        let mut paused = pause(&world, true).await;
        let edited = json!({ "spec": { "budget": { "for": "1h" } } });
        world.api.patch::<Fault>(NAME, &edited).await;
        let world = if restarts { world.restart().await } else { world };
        // It decides nothing new.
        world.claim("late", IP, "pool").await;
        assert_eq!(world.bound("late").await.spec.address, "10.0.0.1");
        assert_eq!(world.bound("held").await.spec.address, "10.0.0.2");
        let fault: Fault = world.api.get(NAME).await;
        assert_eq!(status(&fault), paused, "nothing was written");
        paused
            .conditions
            .retain(|condition| condition.type_ != types::PAUSED);
        assert_eq!(
            FaultStatus {
                paused_spec: None,
                ..paused
            },
            before
        );
        // The first look catches up.
        pause(&world, false).await;
        world.claim("after", IP, "pool").await;
        world.waits("after", "PoolExhausted").await;
        lists(&world, &[("after", "")]).await;
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_with_a_mistake_says_so_and_one_of_machines_is_left_alone() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    let machines = json!({ "effect": { "notReady": {} } });
    let machines = Fault::new("machines", serde_json::from_value(machines).expect("a spec"));
    let machines = world.create_in(NAMESPACE, &machines).await;
    // The schema of this management API refuses it, as a real one does.
    let unfit = json!({ "match": { "names": ["m"] }, "effect": { "addresses": { "exhausted": {} } } });
    let unfit = Fault::new(NAME, serde_json::from_value(unfit).expect("a spec"));
    let refused = world
        .api
        .api::<Fault>()
        .create(&kube::api::PostParams::default(), &unfit)
        .await;
    if refused.is_ok() {
        let said = world.eventually::<Fault>(NAMESPACE, NAME, "to be invalid", |fault| {
            status(fault).phase == "Invalid"
        });
        let ready = conditions::find(&status(&said.await).conditions, types::READY)
            .cloned()
            .expect("a condition");
        assert_eq!(
            ready.message,
            r#"spec.match.names: "m" is not for a fault of addresses"#
        );
    }
    world.claim("a", IP, "pool").await;
    world.bound("a").await;
    assert_eq!(world.api.get::<Fault>("machines").await, machines);
    world.stop().await;
}

// A provider of IPAM alone has no definition of Faults.
#[tokio::test(start_paused = true)]
async fn claims_are_served_where_faults_are_not_installed_and_faults_are_found_later() {
    let api = ManagementApi::start();
    let installed = Arc::new(AtomicBool::new(false));
    let is_installed = Arc::clone(&installed);
    let client = api.forbidding(move |_, path| {
        path.starts_with("/apis/cloud.nephele.dev/") && !is_installed.load(Ordering::Relaxed)
    });
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    let fault = json!({ "effect": { "addresses": { "exhausted": {} } } });
    world
        .create_in(
            NAMESPACE,
            &Fault::new(NAME, serde_json::from_value(fault).expect("a spec")),
        )
        .await;
    world.claim("a", IP, "pool").await;
    world.bound("a").await;
    installed.store(true, Ordering::Relaxed);
    let begun = |fault: &Fault| status(fault).phase == "Active";
    world
        .eventually::<Fault>(NAMESPACE, NAME, "to begin", begun)
        .await;
    world.claim("b", IP, "pool").await;
    world.waits("b", "PoolExhausted").await;
    world.stop().await;
}
