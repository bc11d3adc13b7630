//! A cluster in which the in-cluster IPAM provider ran until now, with the objects that it leaves.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    ResourceExt as _,
    api::{Api, DeleteParams},
};
use nephele_api::ipam::{
    GROUP, PoolKind, finalizers,
    v1alpha2::InClusterIPPool,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_ipam_controller::Settings;
use nephele_testkit::{ManagementApi, objects::NAMESPACE};
use serde_json::json;

use crate::world::{World, claim, reservation, settings, spec};

/// A claim with the other provider's finalizer, and its IPAddress. The owner references have the versions that the
/// release of the provider used: one for Cluster API's kinds, and one for the provider's own kinds.
async fn bound_before(
    api: &ManagementApi,
    pool: &InClusterIPPool,
    name: &str,
    address: &str,
    versions: [&str; 2],
) {
    let mut made = claim(name, PoolKind::InClusterIPPool, "pool");
    made.finalizers_mut().push(finalizers::CLAIM.into());
    let made = api.create(&made).await;
    let owner = |version: &str, kind: &str, name: &str, uid: Option<String>, controls: bool| OwnerReference {
        api_version: format!("{GROUP}/{version}"),
        kind: kind.into(),
        name: name.into(),
        uid: uid.unwrap_or_default(),
        controller: Some(controls),
        block_owner_deletion: Some(true),
    };
    let mut ip_address = reservation(name, "pool", address);
    ip_address.spec.gateway = "10.0.0.1".into();
    ip_address.metadata.namespace = Some(NAMESPACE.into());
    ip_address.finalizers_mut().push(finalizers::ADDRESS.into());
    *ip_address.owner_references_mut() = vec![
        owner(versions[0], "IPAddressClaim", name, made.uid(), true),
        owner(versions[1], "InClusterIPPool", "pool", pool.uid(), false),
    ];
    api.create(&ip_address).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_in_cluster_provider_gave_stays_and_what_it_did_not_finish_is_finished() {
    let api = ManagementApi::start();
    let mut pool = InClusterIPPool::new("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "10.0.0.1"));
    pool.metadata.namespace = Some(NAMESPACE.into());
    pool.finalizers_mut().push(finalizers::POOL.into());
    let pool = api.create(&pool).await;
    let counts = json!({ "ipAddresses": { "total": 8, "free": 4, "used": 4, "outOfRange": 0 } });
    api.patch_status::<InClusterIPPool>("pool", &counts).await;

    // None has the lowest address that was free. The status of one claim does not name its IPAddress yet, and one claim
    // is being deleted.
    let current = ["v1beta2", "v1alpha2"];
    let given = [
        ("bound", "10.0.0.7", current),
        ("of-before", "10.0.0.5", ["v1beta1", "v1alpha1"]),
        ("untold", "10.0.0.6", current),
        ("leaving", "10.0.0.4", current),
    ];
    for (name, address, versions) in given {
        bound_before(&api, &pool, name, address, versions).await;
        if name != "untold" {
            api.patch_status::<IPAddressClaim>(name, &json!({ "addressRef": { "name": name } }))
                .await;
        }
    }
    let deleted = api
        .api::<IPAddressClaim>()
        .delete("leaving", &DeleteParams::default())
        .await;
    deleted.expect("it is being deleted");
    // The IPAddress of this claim is gone, and the provider was about to remove the claim's finalizer.
    let mut released = claim("released", PoolKind::InClusterIPPool, "pool");
    released.finalizers_mut().push(finalizers::CLAIM.into());
    api.create(&released).await;
    let deleted = api
        .api::<IPAddressClaim>()
        .delete("released", &DeleteParams::default())
        .await;
    deleted.expect("it is being deleted");
    // The provider had not seen this claim yet, or no address was free.
    let mut waiting = claim("waiting", PoolKind::InClusterIPPool, "pool");
    waiting.finalizers_mut().push(finalizers::CLAIM.into());
    api.create(&waiting).await;
    api.create(&claim("new", PoolKind::InClusterIPPool, "pool")).await;
    let before = |name: &'static str| {
        let addresses: Api<IPAddress> = api.api();
        async move { addresses.get(name).await.expect("it is there") }
    };
    let before = [
        before("bound").await,
        before("of-before").await,
        before("untold").await,
    ];

    let world = World::over(api.clone(), settings());
    for ip_address in before {
        let name = ip_address.name_any();
        let mut expected = ip_address.clone();
        for (owner, version) in expected.owner_references_mut().iter_mut().zip(current) {
            owner.api_version = format!("ipam.cluster.x-k8s.io/{version}");
        }
        world.bound(&name).await;
        let is_current = |there: &IPAddress| there.owner_references() == expected.owner_references();
        let what = "to name its owners by the versions of today";
        let there = world
            .eventually::<IPAddress>(NAMESPACE, &name, what, is_current)
            .await;
        if expected != ip_address {
            expected
                .metadata
                .resource_version
                .clone_from(&there.metadata.resource_version);
        }
        // One that needs no other versions is equal in every field, so it was not written.
        assert_eq!(there, expected);
    }
    let addresses = [world.bound("waiting").await, world.bound("new").await].map(|made| made.spec.address);
    let mut addresses = addresses.to_vec();
    addresses.sort();
    world.gone::<IPAddressClaim>(NAMESPACE, "released").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "leaving").await;
    world.gone::<IPAddress>(NAMESPACE, "leaving").await;
    assert_eq!(addresses, ["10.0.0.2", "10.0.0.3"]);
    world.counts("pool", [8, 5, 3, 0]).await;

    world.delete::<IPAddressClaim>(NAMESPACE, "of-before").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "of-before").await;
    world.gone::<IPAddress>(NAMESPACE, "of-before").await;
    world.counts("pool", [8, 4, 4, 0]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_for_a_claim_without_a_group_is_seen_through_in_the_version_that_allows_that() {
    let api = ManagementApi::start();
    let mut pool = InClusterIPPool::new("pool", spec(&["10.0.0.1-10.0.0.9"], 24, "10.0.0.1"));
    pool.metadata.namespace = Some(NAMESPACE.into());
    api.create(&pool).await;
    let mut groupless = claim("claim", PoolKind::InClusterIPPool, "pool");
    groupless.spec.pool_ref.api_group = String::new();
    let groupless = api.create(&groupless).await;
    // Another manager decided and is gone.
    let pending = json!({ "name": "claim", "uid": groupless.uid(), "address": "10.0.0.5" });
    let left = json!({ "allocator": { "holder": "another", "revision": 1 }, "pending": [pending] });
    api.patch_status::<InClusterIPPool>("pool", &left).await;
    // The schema of v1beta2 refuses a reference without a group.
    let client = api.refusing(|method, path| {
        method == "POST" && path.contains("/v1beta2/") && path.ends_with("/ipaddresses")
    });
    let world = World::through(api.clone(), client, settings());
    let created = world
        .eventually::<IPAddress>(NAMESPACE, "claim", "to exist", |_| true)
        .await;
    assert_eq!(
        (&created.spec.pool_ref, &*created.spec.address),
        (&groupless.spec.pool_ref, "10.0.0.5")
    );
    world.stop().await;
}

/// Each would write the pool in turn, for ever.
#[tokio::test(start_paused = true)]
async fn a_decision_about_a_claim_of_another_manager_is_left_to_that_manager() {
    let api = ManagementApi::start();
    let mut pool = InClusterIPPool::new("pool", spec(&["10.0.0.5-10.0.0.6"], 24, ""));
    pool.metadata.namespace = Some(NAMESPACE.into());
    api.create(&pool).await;
    let theirs = api
        .create(&claim("theirs", PoolKind::InClusterIPPool, "pool"))
        .await;
    let pending = json!({ "name": "theirs", "uid": theirs.uid(), "address": "10.0.0.5" });
    let left = json!({ "allocator": { "holder": "another", "revision": 1 }, "pending": [pending] });
    let left = api.patch_status::<InClusterIPPool>("pool", &left).await;
    let settings = Settings {
        watch_filter: Some("mine".into()),
        ..settings()
    };
    let world = World::over(api.clone(), settings);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let is = api.get::<InClusterIPPool>("pool").await;
    assert_eq!(is.status, left.status);
    // The address is not given to anybody else.
    let mut mine = claim("mine", PoolKind::InClusterIPPool, "pool");
    mine.labels_mut()
        .insert(nephele_controller::WATCH_FILTER_LABEL.into(), "mine".into());
    api.create(&mine).await;
    assert_eq!(world.bound("mine").await.spec.address, "10.0.0.6");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn decisions_that_another_manager_adds_while_this_one_cannot_write_are_kept() {
    static IS_READ_ONLY: AtomicBool = AtomicBool::new(true);
    let api = ManagementApi::start();
    let mut pool = InClusterIPPool::new("pool", spec(&["10.0.0.1-10.0.0.9"], 24, ""));
    pool.metadata.namespace = Some(NAMESPACE.into());
    api.create(&pool).await;
    let mut pending = Vec::new();
    for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
        // A paused claim does not ask, so nothing but the decisions gives this manager a reason to write.
        let mut paused = claim(name, PoolKind::InClusterIPPool, "pool");
        paused
            .annotations_mut()
            .insert(nephele_controller::PAUSED_ANNOTATION.into(), String::new());
        let paused = api.create(&paused).await;
        pending.push(json!({ "name": name, "uid": paused.uid(), "address": address }));
    }
    let left = json!({ "allocator": { "holder": "another", "revision": 1 }, "pending": pending[..1] });
    api.patch_status::<InClusterIPPool>("pool", &left).await;
    let client = api.refusing(|method, path| {
        method == "PATCH" && path.ends_with("/pool/status") && IS_READ_ONLY.load(Ordering::Relaxed)
    });
    let world = World::through(api.clone(), client, settings());
    // It has read the decision and tried to write.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let more = json!({ "allocator": { "holder": "another", "revision": 2 }, "pending": pending });
    api.patch_status::<InClusterIPPool>("pool", &more).await;
    IS_READ_ONLY.store(false, Ordering::Relaxed);
    let is_ours = |pool: &InClusterIPPool| {
        let allocator = pool.status.as_ref().and_then(|status| status.allocator.as_ref());
        allocator.is_some_and(|allocator| allocator.holder != "another")
    };
    let taken: InClusterIPPool = world.eventually(NAMESPACE, "pool", "to be ours", is_ours).await;
    let kept = taken.status.expect("a status").pending;
    assert_eq!(serde_json::to_value(kept).expect("JSON"), json!(pending));
    world.stop().await;
}
