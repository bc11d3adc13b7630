//! Claims on pools of addresses: the cases of the in-cluster IPAM provider's own test suite.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kube::ResourceExt as _;
use nephele_api::ipam::{
    GROUP, PoolKind, finalizers,
    v1alpha2::{GlobalInClusterIPPool, InClusterIPPool, InClusterIPPoolSpec},
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_testkit::{ManagementApi, objects::NAMESPACE};
use serde_json::json;

use crate::world::{OTHER, World, claim, is_ready, ready, reservation, settings, spec};

#[tokio::test(start_paused = true)]
async fn a_claim_gets_an_address_and_gives_it_back() {
    let world = World::start().await;
    let pool = world
        .pool("pool", spec(&["10.0.1.1-10.0.1.254"], 24, "10.0.1.2"))
        .await;
    let claim = world.claim("test", PoolKind::InClusterIPPool, "pool").await;
    let address = world.bound("test").await;
    assert_eq!(
        serde_json::to_value(&address.spec).expect("JSON"),
        json!({
            "claimRef": { "name": "test" },
            "poolRef": { "apiGroup": GROUP, "kind": "InClusterIPPool", "name": "pool" },
            "address": "10.0.1.1",
            "prefix": 24,
            "gateway": "10.0.1.2",
        })
    );
    assert_eq!(
        address.metadata.finalizers,
        Some(vec![finalizers::ADDRESS.to_owned()])
    );
    assert_eq!(
        serde_json::to_value(&address.metadata.owner_references).expect("JSON"),
        json!([
            {
                "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "test",
                "uid": claim.metadata.uid, "controller": true, "blockOwnerDeletion": true,
            },
            {
                "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool", "name": "pool",
                "uid": pool.metadata.uid, "controller": false, "blockOwnerDeletion": true,
            },
        ])
    );
    let bound: IPAddressClaim = world.api.get("test").await;
    assert_eq!(
        bound.metadata.finalizers,
        Some(vec![finalizers::CLAIM.to_owned()])
    );
    world.counts("pool", [253, 1, 252, 0]).await;

    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddress>(NAMESPACE, "test").await;
    world.counts("pool", [253, 0, 253, 0]).await;
    let pool: InClusterIPPool = world.api.get("pool").await;
    assert_eq!(pool.metadata.finalizers, Some(vec![finalizers::POOL.to_owned()]));
    world.stop().await;
}

const IP: PoolKind = PoolKind::InClusterIPPool;
const GLOBAL: PoolKind = PoolKind::GlobalInClusterIPPool;

/// Waits until all earlier changes were reconciled: until a claim that is created now has its address.
async fn everything_had_its_turn(world: &World) {
    world.pool("barrier", spec(&["10.255.0.1"], 8, "")).await;
    world.claim("barrier", IP, "barrier").await;
    world.bound("barrier").await;
}

async fn address(world: &World, name: &str) -> String {
    world.bound(name).await.spec.address
}

// C1, Q2, Q4.
#[tokio::test(start_paused = true)]
async fn a_claim_on_another_kind_of_pool_is_left_alone() {
    let world = World::start().await;
    world
        .pool("pool", spec(&["10.0.1.1-10.0.1.254"], 24, "10.0.1.2"))
        .await;
    let mut foreign = claim("kind", IP, "pool");
    foreign.spec.pool_ref.kind = "UnknownIPPool".into();
    let kind = world.api.create(&foreign).await;
    let mut foreign = claim("group", IP, "pool");
    foreign.spec.pool_ref.api_group = "cluster.x-k8s.io".into();
    let group = world.api.create(&foreign).await;
    everything_had_its_turn(&world).await;
    assert_eq!(world.api.get::<IPAddressClaim>("kind").await, kind);
    assert_eq!(world.api.get::<IPAddressClaim>("group").await, group);
    world.stop().await;
}

// E14.
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_group_is_ours_by_its_kind() {
    let api = ManagementApi::start();
    // The schema of v1beta2 refuses a reference without a group.
    let client = api.refusing(|method, path| {
        method == "POST" && path.contains("/v1beta2/") && path.ends_with("/ipaddresses")
    });
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    let mut groupless = claim("test", IP, "pool");
    groupless.spec.pool_ref.api_group = String::new();
    world.api.create(&groupless).await;
    // Cluster API's webhook accepts an IPAddress only with the same reference as in its claim.
    let address = world.bound("test").await;
    assert_eq!(
        (&address.spec.pool_ref, &*address.spec.address),
        (&groupless.spec.pool_ref, "10.0.0.1")
    );
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    assert_eq!(world.addresses().await, []);
    world.stop().await;
}

// That happens while the API server does not know the kind of a pool whose definition is new.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_ip_address_was_refused_is_tried_again_though_nothing_changes() {
    let api = ManagementApi::start();
    let refusals = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refusals);
    let client = api.forbidding(move |method, path| {
        method == "POST" && path.ends_with("/ipaddresses") && counted.fetch_add(1, Ordering::Relaxed) < 3
    });
    let world = World::through(api, client, settings());
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    assert_eq!(address(&world, "test").await, "10.0.0.1");
    assert_eq!(refusals.load(Ordering::Relaxed), 4);
    world.stop().await;
}

// C2.
#[tokio::test(start_paused = true)]
async fn the_label_of_the_cluster_is_handed_on() {
    let world = World::start().await;
    world.cluster("demo", None, false).await;
    world
        .pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "10.0.0.2"))
        .await;
    let mut labelled = claim("test", IP, "pool");
    labelled
        .labels_mut()
        .insert("cluster.x-k8s.io/cluster-name".into(), "demo".into());
    labelled.labels_mut().insert("another".into(), "label".into());
    world.api.create(&labelled).await;
    let address = world.bound("test").await;
    assert_eq!(
        serde_json::to_value(address.labels()).expect("JSON"),
        json!({ "cluster.x-k8s.io/cluster-name": "demo" })
    );
    assert_eq!(
        (address.spec.address.as_str(), address.spec.prefix),
        ("10.0.0.1", Some(24))
    );
    world.stop().await;
}

// C3, C9.
#[tokio::test(start_paused = true)]
async fn a_claim_reports_a_missing_pool_and_is_served_when_it_arrives() {
    let world = World::start().await;
    world.claim("local", IP, "pool").await;
    world.claim("global", GLOBAL, "pool").await;
    assert_eq!(
        world.waits("local", "PoolNotReady").await,
        "InClusterIPPool default/pool does not exist"
    );
    assert_eq!(
        world.waits("global", "PoolNotReady").await,
        "GlobalInClusterIPPool pool does not exist"
    );
    assert_eq!(world.addresses().await, []);
    world.pool("pool", spec(&["10.0.0.7"], 24, "")).await;
    assert_eq!(address(&world, "local").await, "10.0.0.7");
    world.global_pool("pool", spec(&["10.0.0.8"], 24, "")).await;
    assert_eq!(address(&world, "global").await, "10.0.0.8");
    world.stop().await;
}

// C4, C5, C6, C7, C10.
#[tokio::test(start_paused = true)]
async fn the_lowest_address_that_may_be_handed_out_is() {
    let world = World::start().await;
    let reserved = ["10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.255"];
    world.pool("c4", spec(&reserved, 24, "10.0.1.1")).await;
    let excluding = InClusterIPPoolSpec {
        excluded_addresses: vec!["10.1.1.2-10.1.1.5".into(), "10.1.1.7".into()],
        ..spec(&["10.1.1.0/24"], 24, "10.1.1.1")
    };
    world.pool("c5", excluding).await;
    world
        .pool("c6", spec(&["10.0.1.3", "10.0.1.2"], 24, "10.0.1.1"))
        .await;
    world.pool("c7", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    world
        .pool("c10", spec(&["10.0.0.50", "10.0.0.128"], 24, "10.0.0.1"))
        .await;
    let cases: [(&str, &[&str]); 5] = [
        ("c4", &["10.0.1.2"]),
        ("c5", &["10.1.1.6", "10.1.1.8", "10.1.1.9"]),
        ("c6", &["10.0.1.2"]),
        ("c7", &["10.0.0.1"]),
        ("c10", &["10.0.0.50", "10.0.0.128"]),
    ];
    for (pool, expected) in cases {
        for (number, expected) in expected.iter().enumerate() {
            let name = format!("{pool}-{number}");
            world.claim(&name, IP, pool).await;
            assert_eq!(address(&world, &name).await, *expected, "{name}");
        }
    }
    assert_eq!(world.bound("c7-0").await.spec.gateway, "");
    world.claim("c4-second", IP, "c4").await;
    assert_eq!(
        world.waits("c4-second", "PoolExhausted").await,
        "InClusterIPPool default/c4 has no address left"
    );
    world.stop().await;
}

// C8, C11, C12, C21.
#[tokio::test(start_paused = true)]
async fn namespaces_share_global_pools_and_nothing_else() {
    let world = World::start().await;
    world
        .global_pool("wide", spec(&["10.0.0.2-10.0.0.254"], 24, "10.0.0.1"))
        .await;
    world.claim("test", GLOBAL, "wide").await;
    assert_eq!(address(&world, "test").await, "10.0.0.2");
    world.create_in(OTHER, &claim("test", GLOBAL, "wide")).await;
    let second = world.bound_in(OTHER, "test").await;
    assert_eq!(
        (second.spec.address.as_str(), second.spec.pool_ref.kind.as_str()),
        ("10.0.0.3", "GlobalInClusterIPPool")
    );

    let one = || spec(&["10.0.0.50"], 24, "");
    world.pool("same", one()).await;
    world.pool_in(OTHER, "same", one()).await;
    world.global_pool("same", one()).await;
    world.claim("local", IP, "same").await;
    world.create_in(OTHER, &claim("local", IP, "same")).await;
    world.claim("global", GLOBAL, "same").await;
    assert_eq!(address(&world, "local").await, "10.0.0.50");
    assert_eq!(world.bound_in(OTHER, "local").await.spec.address, "10.0.0.50");
    assert_eq!(address(&world, "global").await, "10.0.0.50");
    world.stop().await;
}

// C13, C14.
#[tokio::test(start_paused = true)]
async fn a_paused_pool_gives_nothing_and_takes_nothing_back() {
    let world = World::start().await;
    let mut pool = InClusterIPPool::new("pool", spec(&["10.0.0.50"], 24, ""));
    pool.annotations_mut()
        .insert(nephele_controller::PAUSED_ANNOTATION.into(), String::new());
    world.create_in(NAMESPACE, &pool).await;
    world.claim("test", IP, "pool").await;
    assert_eq!(
        world.waits("test", "Paused").await,
        "InClusterIPPool default/pool is paused"
    );
    assert_eq!(world.addresses().await, []);
    world.set_paused::<InClusterIPPool>("pool", false).await;
    assert_eq!(address(&world, "test").await, "10.0.0.50");

    world.set_paused::<InClusterIPPool>("pool", true).await;
    // A new claim reports the pause, so the controllers have seen it.
    world.claim("later", IP, "pool").await;
    world.waits("later", "Paused").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    everything_had_its_turn(&world).await;
    assert!(
        world
            .api
            .get::<IPAddressClaim>("test")
            .await
            .metadata
            .deletion_timestamp
            .is_some()
    );
    world.set_paused::<InClusterIPPool>("pool", false).await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    assert_eq!(address(&world, "later").await, "10.0.0.50");
    world.stop().await;
}

// C15, C16, C17, C18, IPP-19.
#[tokio::test(start_paused = true)]
async fn an_exhausted_pool_serves_the_next_claim_when_an_address_comes_free() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1"], 24, "")).await;
    world.global_pool("pool", spec(&["10.0.0.1"], 24, "")).await;
    for kind in [IP, GLOBAL] {
        let name = |number: u8| format!("{}-{number}", kind.as_str().to_lowercase());
        world.claim(&name(1), kind, "pool").await;
        assert_eq!(address(&world, &name(1)).await, "10.0.0.1");
        world.claim(&name(2), kind, "pool").await;
        world.waits(&name(2), "PoolExhausted").await;
        world.delete::<IPAddressClaim>(NAMESPACE, &name(1)).await;
        assert_eq!(address(&world, &name(2)).await, "10.0.0.1");
        world.gone::<IPAddressClaim>(NAMESPACE, &name(1)).await;
    }
    assert_eq!(world.addresses().await.len(), 2);
    world.stop().await;
}

// C19, C20, E6.
#[tokio::test(start_paused = true)]
async fn an_ip_address_made_by_hand_is_a_reservation_and_the_claim_of_its_name_gets_it() {
    let world = World::start().await;
    let by_hand = world
        .create_in(NAMESPACE, &reservation("test", "pool", "10.0.0.1"))
        .await;
    let mut owned = reservation("owned", "pool", "10.0.0.2");
    owned.metadata.owner_references = Some(
        serde_json::from_value(json!([
            { "apiVersion": "alpha-dummy", "kind": "dummy-kind", "name": "dummy", "uid": "abc" },
        ]))
        .expect("an owner"),
    );
    // The finalizer keeps the garbage collector from deleting it, because its owner does not exist.
    owned.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    world.create_in(NAMESPACE, &owned).await;
    world
        .pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "10.0.0.254"))
        .await;
    world.counts("pool", [253, 2, 251, 0]).await;
    world.claim("another", IP, "pool").await;
    assert_eq!(address(&world, "another").await, "10.0.0.3");

    let claim = world.claim("test", IP, "pool").await;
    let adopted = world.bound("test").await;
    assert_eq!(adopted.spec, by_hand.spec);
    assert_eq!(adopted.metadata.uid, by_hand.metadata.uid);
    assert_eq!(adopted.finalizers(), [finalizers::ADDRESS]);
    let owners = |address: &IPAddress| -> Vec<(String, Option<bool>)> {
        let owners = address.owner_references().iter();
        owners
            .map(|owner| (owner.kind.clone(), owner.controller))
            .collect()
    };
    let ours = [
        ("IPAddressClaim".to_owned(), Some(true)),
        ("InClusterIPPool".to_owned(), Some(false)),
    ];
    assert_eq!(owners(&adopted), ours);
    assert_eq!(
        adopted.owner_references()[0].uid,
        claim.metadata.uid.unwrap_or_default()
    );

    world.stop().await;
}

// C22-C28, C31, IPP-08.
#[tokio::test(start_paused = true)]
async fn a_paused_cluster_stops_its_claims_both_ways() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    for (name, paused, annotated) in [
        ("spec", Some(true), false),
        ("annotation", None, true),
        ("both", Some(true), true),
    ] {
        world.cluster(name, paused, annotated).await;
        let mut by_name = claim(&format!("{name}-name"), IP, "pool");
        by_name.spec.cluster_name = name.into();
        world.api.create(&by_name).await;
        let mut by_label = claim(&format!("{name}-label"), IP, "pool");
        by_label
            .labels_mut()
            .insert("cluster.x-k8s.io/cluster-name".into(), name.into());
        world.api.create(&by_label).await;
        for claim in [format!("{name}-name"), format!("{name}-label")] {
            world.waits(&claim, "Paused").await;
        }
        // Another change of the Cluster does not wake its claims.
        let touched = json!({ "metadata": { "annotations": { "example.com/touched": "" } } });
        world
            .api
            .patch::<nephele_api::core::Cluster>(name, &touched)
            .await;
    }
    everything_had_its_turn(&world).await;
    assert_eq!(world.addresses().await.len(), 1);
    for name in ["spec", "annotation", "both"] {
        let unpaused = json!({
            "metadata": { "annotations": { nephele_controller::PAUSED_ANNOTATION: null } }, "spec": { "paused": false },
        });
        world
            .api
            .patch::<nephele_api::core::Cluster>(name, &unpaused)
            .await;
        for claim in [format!("{name}-name"), format!("{name}-label")] {
            world.bound(&claim).await;
        }
    }
    // A paused Cluster stops the release of addresses, too.
    world
        .api
        .patch::<nephele_api::core::Cluster>("spec", &json!({ "spec": { "paused": true } }))
        .await;
    let mut later = claim("later", IP, "pool");
    later.spec.cluster_name = "spec".into();
    world.api.create(&later).await;
    world.waits("later", "Paused").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "spec-name").await;
    world.claim("after", IP, "pool").await;
    world.bound("after").await;
    assert!(
        world
            .api
            .get::<IPAddressClaim>("spec-name")
            .await
            .metadata
            .deletion_timestamp
            .is_some()
    );
    world
        .api
        .patch::<nephele_api::core::Cluster>("spec", &json!({ "spec": { "paused": false } }))
        .await;
    world.gone::<IPAddressClaim>(NAMESPACE, "spec-name").await;
    world.stop().await;
}

// C22, C29, C32, IPP-07.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_there_is_waited_for() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    let mut named = claim("named", IP, "pool");
    named.spec.cluster_name = "missing".into();
    named.metadata.finalizers = Some(vec![finalizers::CLAIM.into()]);
    let named = world.api.create(&named).await;
    let mut labelled = claim("labelled", IP, "pool");
    labelled
        .labels_mut()
        .insert("cluster.x-k8s.io/cluster-name".into(), "unfindable".into());
    let labelled = world.api.create(&labelled).await;
    everything_had_its_turn(&world).await;
    assert_eq!(world.api.get::<IPAddressClaim>("named").await, named);
    assert_eq!(world.api.get::<IPAddressClaim>("labelled").await, labelled);
    world.cluster("missing", None, false).await;
    world.bound("named").await;
    assert_eq!(world.api.get::<IPAddressClaim>("labelled").await, labelled);
    world.stop().await;
}

// C30.
#[tokio::test(start_paused = true)]
async fn a_claim_goes_although_its_cluster_went_before() {
    let world = World::start().await;
    world.cluster("demo", None, false).await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    let mut named = claim("test", IP, "pool");
    named.spec.cluster_name = "demo".into();
    world.api.create(&named).await;
    world.bound("test").await;
    world
        .delete::<nephele_api::core::Cluster>(NAMESPACE, "demo")
        .await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    assert_eq!(world.addresses().await, []);
    world.stop().await;
}

// C33, E10.
#[tokio::test(start_paused = true)]
async fn a_paused_claim_stays_as_it_is_over_a_restart() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    let mut paused = claim("test", IP, "pool");
    paused
        .annotations_mut()
        .insert(nephele_controller::PAUSED_ANNOTATION.into(), String::new());
    world.api.create(&paused).await;
    world.waits("test", "Paused").await;
    let before = world.api.get::<IPAddressClaim>("test").await;
    assert_eq!(before.metadata.finalizers, None);
    let world = world.restart().await;
    everything_had_its_turn(&world).await;
    assert_eq!(world.api.get::<IPAddressClaim>("test").await, before);
    world.set_paused::<IPAddressClaim>("test", false).await;
    assert_eq!(address(&world, "test").await, "10.0.0.1");
    world.stop().await;
}

fn with_grace(addresses: &str, seconds: i32) -> InClusterIPPoolSpec {
    InClusterIPPoolSpec {
        address_reuse_grace_period_seconds: Some(seconds),
        ..spec(&[addresses], 24, "")
    }
}

// C34, over a restart, and without keeping the claim.
#[tokio::test(start_paused = true)]
async fn a_released_address_is_held_back_without_holding_its_claim() {
    let world = World::start().await;
    world.pool("pool", with_grace("10.0.0.10-10.0.0.11", 2)).await;
    world.claim("test", IP, "pool").await;
    world.bound("test").await;
    // With this decision the pool is written again, without the one for `test`: of a decision that is in the status,
    // the next manager would keep the address until no request of this one can arrive any more.
    world.claim("other", IP, "pool").await;
    world.bound("other").await;
    world.claim("next", IP, "pool").await;
    world.waits("next", "PoolExhausted").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    let held: IPAddress = world.api.get("test").await;
    let released_at = held
        .metadata
        .deletion_timestamp
        .clone()
        .expect("its deletion was asked for")
        .0;
    assert!(
        held.owner_references()
            .iter()
            .all(|owner| owner.kind != "IPAddressClaim")
    );
    world.counts("pool", [2, 2, 0, 0]).await;
    let world = world.restart().await;
    let next = world.bound("next").await;
    let waited = next
        .metadata
        .creation_timestamp
        .clone()
        .expect("made")
        .0
        .duration_since(released_at);
    assert!(waited >= jiff::SignedDuration::from_secs(2), "{waited:?}");
    assert_eq!(next.spec.address, "10.0.0.10");
    world.stop().await;
}

// C35.
#[tokio::test(start_paused = true)]
async fn nothing_is_held_back_of_a_pool_that_goes() {
    let world = World::start().await;
    world.pool("pool", with_grace("10.0.0.50-10.0.0.51", 300)).await;
    for name in ["test", "earlier"] {
        world.claim(name, IP, "pool").await;
        world.bound(name).await;
    }
    world.delete::<IPAddressClaim>(NAMESPACE, "earlier").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "earlier").await;
    world.delete::<InClusterIPPool>(NAMESPACE, "pool").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<InClusterIPPool>(NAMESPACE, "pool").await;
    assert_eq!(world.addresses().await, []);
    world.stop().await;
}

// E20, IPP-22.
#[tokio::test(start_paused = true)]
async fn a_claim_that_lost_its_status_gets_the_same_address_again() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.254"], 24, "")).await;
    world.claim("first", IP, "pool").await;
    world.bound("first").await;
    world.claim("test", IP, "pool").await;
    let before = world.bound("test").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "first").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "first").await;
    world
        .api
        .patch_status::<IPAddressClaim>("test", &json!({ "addressRef": null, "conditions": null }))
        .await;
    assert_eq!(world.bound("test").await, before);
    world.stop().await;
}

// E18.
#[tokio::test(start_paused = true)]
async fn a_claim_reports_and_waits_for_an_ip_address_of_its_name_and_another_pool() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.1"], 24, "")).await;
    let mut foreign = reservation("test", "elsewhere", "10.9.9.9");
    foreign.spec.pool_ref.kind = "OtherPool".into();
    world.create_in(NAMESPACE, &foreign).await;
    world.claim("test", IP, "pool").await;
    let message = world.waits("test", "AllocationFailed").await;
    assert_eq!(
        message,
        "IPAddress default/test exists and is of another pool, OtherPool elsewhere"
    );
    // The waiting claim blocks no other claim.
    world.claim("another", IP, "pool").await;
    assert_eq!(address(&world, "another").await, "10.0.0.1");
    world.delete::<IPAddressClaim>(NAMESPACE, "another").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "another").await;
    world.delete::<IPAddress>(NAMESPACE, "test").await;
    assert_eq!(address(&world, "test").await, "10.0.0.1");
    world.stop().await;
}

// Defect 14.
#[tokio::test(start_paused = true)]
async fn a_claim_takes_no_ip_address_along_that_is_not_its_own() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1"], 24, "")).await;
    world.claim("holder", IP, "pool").await;
    world.bound("holder").await;
    // The holder has its address, so the claim of its name cannot take it over.
    let by_hand = world
        .create_in(NAMESPACE, &reservation("test", "pool", "10.0.0.1"))
        .await;
    world.claim("test", IP, "pool").await;
    let message = world.waits("test", "AllocationFailed").await;
    assert_eq!(
        message,
        "IPAddress default/test exists and its address 10.0.0.1 is in use by default/holder"
    );
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    assert_eq!(world.api.get::<IPAddress>("test").await, by_hand);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wanted_address_is_had_or_the_reason_why_not() {
    let world = World::start().await;
    world
        .pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "10.0.0.5"))
        .await;
    let wanting = |name: &str, wanted: &str| {
        let mut claim = claim(name, IP, "pool");
        claim
            .annotations_mut()
            .insert("ipam.nephele.dev/address".into(), wanted.into());
        claim
    };
    world.api.create(&wanting("first", "10.0.0.7")).await;
    assert_eq!(address(&world, "first").await, "10.0.0.7");
    for (name, wanted, message) in [
        ("taken", "10.0.0.7", "address 10.0.0.7 is in use by default/first"),
        (
            "outside",
            "10.0.1.7",
            "address 10.0.1.7 cannot be allocated from the pool",
        ),
        (
            "gateway",
            "10.0.0.5",
            "address 10.0.0.5 cannot be allocated from the pool",
        ),
    ] {
        world.api.create(&wanting(name, wanted)).await;
        assert_eq!(world.waits(name, "AllocationFailed").await, message);
    }
    world.api.create(&wanting("malformed", "ten")).await;
    assert!(
        world
            .waits("malformed", "AllocationFailed")
            .await
            .contains("is not an address")
    );
    // Claims that cannot be served block no other claim.
    world.claim("plain", IP, "pool").await;
    assert_eq!(address(&world, "plain").await, "10.0.0.1");
    world.delete::<IPAddressClaim>(NAMESPACE, "first").await;
    assert_eq!(address(&world, "taken").await, "10.0.0.7");
    // A waiting claim can be deleted.
    world.delete::<IPAddressClaim>(NAMESPACE, "outside").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "outside").await;
    world.stop().await;
}

// E8: exactly as many claims as addresses become free, by age.
#[tokio::test(start_paused = true)]
async fn waiting_claims_are_served_in_order_as_addresses_come_free() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.2"], 24, "")).await;
    for name in ["a", "b"] {
        world.claim(name, IP, "pool").await;
        world.bound(name).await;
    }
    // Created in the same second or in this order, so the order by age and then by name is this one.
    for name in ["w1", "w2", "w3", "w4"] {
        world.claim(name, IP, "pool").await;
        world.waits(name, "PoolExhausted").await;
    }
    for (freed, served) in [("a", "w1"), ("b", "w2"), ("w1", "w3")] {
        world.delete::<IPAddressClaim>(NAMESPACE, freed).await;
        world.bound(served).await;
        let claims = ["w1", "w2", "w3", "w4"].iter().filter(|name| **name > served);
        for name in claims {
            assert!(
                !is_ready(&world.api.get::<IPAddressClaim>(name).await),
                "{name} came before its turn"
            );
        }
    }
    // A pool that grows serves the rest.
    let grown = json!({ "spec": { "addresses": ["10.0.0.1-10.0.0.3"] } });
    world.api.patch::<InClusterIPPool>("pool", &grown).await;
    world.bound("w4").await;
    let last = ready(&world.api.get::<IPAddressClaim>("w4").await)
        .expect("said")
        .clone();
    assert_eq!(
        (last.status.as_str(), last.reason.as_str()),
        ("True", "AddressAllocated")
    );
    world.stop().await;
}

// Situation of 3.6: a client also removes the finalizer of an IPAddress.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_ip_address_was_taken_away_gets_another() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    let before = world.bound("test").await;
    world.delete::<IPAddress>(NAMESPACE, "test").await;
    let held: IPAddress = world.api.get("test").await;
    assert!(
        held.metadata.deletion_timestamp.is_some(),
        "the finalizer holds it"
    );
    world.strip::<IPAddress>("test").await;
    let again = world
        .eventually::<IPAddress>(NAMESPACE, "test", "to be made again", |address| {
            address.metadata.uid != before.metadata.uid
        })
        .await;
    assert_eq!(again.spec, before.spec);
    world.stop().await;
}

// Defect 19.
#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_without_our_finalizer_is_not_written() {
    let world = World::start().await;
    let mut going = claim("test", IP, "pool");
    going.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    let mut paused = going.clone();
    paused
        .annotations_mut()
        .insert(nephele_controller::PAUSED_ANNOTATION.into(), String::new());
    world.api.create(&paused).await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.set_paused::<IPAddressClaim>("test", false).await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    everything_had_its_turn(&world).await;
    let left: IPAddressClaim = world.api.get("test").await;
    assert_eq!(
        left.metadata.finalizers,
        Some(vec!["example.com/keep".to_owned()])
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_global_pool_that_is_paused_serves_when_it_is_not() {
    let world = World::start().await;
    world
        .global_pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, ""))
        .await;
    let paused = |value: serde_json::Value| json!({ "metadata": { "annotations": { nephele_controller::PAUSED_ANNOTATION: value } } });
    world
        .patch_global::<GlobalInClusterIPPool>("pool", &paused(json!("")))
        .await;
    world.claim("test", GLOBAL, "pool").await;
    world.waits("test", "Paused").await;
    world
        .patch_global::<GlobalInClusterIPPool>("pool", &paused(json!(null)))
        .await;
    world.bound("test").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn owners_and_finalizers_of_an_ip_address_that_were_taken_away_or_outdated_are_restored() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    let before = world.bound("test").await;
    let kept = |address: &IPAddress| {
        let mut owners = address.metadata.owner_references.clone().unwrap_or_default();
        owners.sort_by_key(|owner| owner.controller != Some(true));
        (
            owners,
            address.metadata.finalizers.clone(),
            address.metadata.uid.clone(),
            address.spec.clone(),
        )
    };
    let by_pool = &before.owner_references()[1];
    let by_claim = &before.owner_references()[0];
    let mut outdated = before.owner_references().to_vec();
    for owner in &mut outdated {
        owner.api_version = "ipam.cluster.x-k8s.io/v1alpha1".to_owned();
    }
    for taken in [
        json!({ "ownerReferences": [outdated[0], by_pool] }),
        json!({ "ownerReferences": [by_claim, outdated[1]] }),
        json!({ "ownerReferences": null }),
        json!({ "ownerReferences": [by_pool] }),
        json!({ "ownerReferences": [by_claim] }),
        json!({ "finalizers": null }),
        json!({ "ownerReferences": null, "finalizers": null }),
    ] {
        world
            .api
            .patch::<IPAddress>("test", &json!({ "metadata": taken }))
            .await;
        let after = world
            .eventually::<IPAddress>(NAMESPACE, "test", "to be as it was", |address| {
                kept(address).0 == kept(&before).0 && !address.finalizers().is_empty()
            })
            .await;
        assert_eq!(kept(&after), kept(&before), "{taken}");
    }
    world.stop().await;
}
