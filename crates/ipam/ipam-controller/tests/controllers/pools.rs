//! Pools: the cases of the in-cluster IPAM provider's own test suite, and the status, Events and metrics of a pool.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use nephele_api::{
    conditions,
    ipam::{
        PoolKind, finalizers,
        v1alpha2::{GlobalInClusterIPPool, InClusterIPPool, InClusterIPPoolSpec},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_ipam_controller::{OverlapPolicy, Settings};
use nephele_testkit::{eventually, eventually_of, objects::NAMESPACE};
use serde_json::json;

use crate::world::{World, counted, counts, reservation, settings, spec};

const IP: PoolKind = PoolKind::InClusterIPPool;
const GLOBAL: PoolKind = PoolKind::GlobalInClusterIPPool;

/// Waits until the pool has this condition.
async fn says(world: &World, pool: &str, kind: &str, reason: &str, message: &str) {
    world
        .eventually::<InClusterIPPool>(NAMESPACE, pool, reason, |pool| {
            let conditions = pool
                .status
                .as_ref()
                .map(|status| &*status.conditions)
                .unwrap_or_default();
            conditions::find(conditions, kind)
                .is_some_and(|condition| condition.reason == reason && condition.message == message)
        })
        .await;
}

// S1-S8, for both kinds.
#[tokio::test(start_paused = true)]
async fn a_pool_counts_what_it_has_and_what_of_it_is_used() {
    type Case = (
        &'static str,
        &'static [&'static str],
        i32,
        &'static str,
        usize,
        [i64; 4],
    );
    let cases: [Case; 8] = [
        ("s1", &["10.0.0.10-10.0.0.20"], 24, "", 1, [11, 1, 10, 0]),
        ("s2", &["10.0.0.10-10.0.0.20"], 24, "", 2, [11, 2, 9, 0]),
        ("s3", &["10.0.0.10-10.0.0.20"], 24, "10.0.0.10", 1, [10, 1, 9, 0]),
        ("s4", &["10.0.0.10-10.0.0.20"], 24, "10.0.0.10", 2, [10, 2, 8, 0]),
        ("s5", &["10.0.0.10-10.0.0.20"], 24, "10.0.0.1", 1, [11, 1, 10, 0]),
        ("s6", &["10.0.0.0-10.0.0.1"], 24, "10.0.0.2", 1, [1, 1, 0, 0]),
        ("s7", &["10.0.0.254-10.0.0.255"], 24, "10.0.0.1", 1, [1, 1, 0, 0]),
        ("s8", &["fe80::ffff"], 120, "fe80::a", 1, [1, 1, 0, 0]),
    ];
    let world = World::start().await;
    for (name, addresses, prefix, gateway, claims, after) in cases {
        let before = [after[0], 0, after[0], 0];
        world.pool(name, spec(addresses, prefix, gateway)).await;
        world.counts(name, before).await;
        world.global_pool(name, spec(addresses, prefix, gateway)).await;
        for number in 0..claims {
            for kind in [IP, GLOBAL] {
                let claim = format!("{name}-{}-{number}", kind.as_str().to_lowercase());
                world.claim(&claim, kind, name).await;
                world.bound(&claim).await;
            }
        }
        world.counts(name, after).await;
        let api: Api<GlobalInClusterIPPool> = Api::all(world.api.client());
        let counts = counts(after);
        let is = |pool: Option<&GlobalInClusterIPPool>| {
            pool.is_some_and(|pool| counted(pool.status.as_ref()) == Some(counts))
        };
        eventually_of(&api, name, "to count so", is).await;
    }
    world.stop().await;
}

// S9-S12. S10's steady state is 1: the address 10.0.0.0 is in use and not in the pool any more.
#[tokio::test(start_paused = true)]
async fn addresses_that_could_not_be_handed_out_any_more_are_counted() {
    type Case = (
        &'static str,
        &'static str,
        &'static [&'static str],
        usize,
        [i64; 4],
    );
    let cases: [Case; 4] = [
        (
            "s9",
            "10.0.0.10-10.0.0.20",
            &["10.0.0.13-10.0.0.20"],
            5,
            [8, 5, 6, 3],
        ),
        (
            "s10",
            "10.0.0.0-10.0.0.255",
            &["10.0.0.1-10.0.0.255"],
            4,
            [253, 4, 250, 1],
        ),
        (
            "s11",
            "10.0.0.0-10.0.0.255",
            &["10.0.0.0", "10.0.0.2-10.0.0.255"],
            5,
            [253, 5, 249, 1],
        ),
        (
            "s12",
            "10.0.0.251-10.0.0.255",
            &["10.0.0.251-10.0.0.254"],
            5,
            [4, 5, 0, 1],
        ),
    ];
    let world = World::start().await;
    for (name, before, after, claims, counts) in cases {
        let spec = InClusterIPPoolSpec {
            allocate_reserved_ip_addresses: true,
            ..spec(&[before], 24, "10.0.0.1")
        };
        world.pool(name, spec).await;
        for number in 0..claims {
            world.claim(&format!("{name}-{number}"), IP, name).await;
            world.bound(&format!("{name}-{number}")).await;
        }
        let shrunk = json!({ "spec": { "addresses": after, "allocateReservedIPAddresses": false } });
        world.api.patch::<InClusterIPPool>(name, &shrunk).await;
        world.counts(name, counts).await;
    }
    world.stop().await;
}

// S13.
#[tokio::test(start_paused = true)]
async fn a_pool_stays_until_its_last_address_is_gone() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.10-10.0.0.20"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    world.bound("test").await;
    world.delete::<InClusterIPPool>(NAMESPACE, "pool").await;
    says(
        &world,
        "pool",
        "Ready",
        "Deleting",
        "Waiting for 1 address to be released",
    )
    .await;
    // The pool serves no claim while it is being deleted.
    world.claim("late", IP, "pool").await;
    assert_eq!(
        world.waits("late", "PoolNotReady").await,
        "InClusterIPPool default/pool is being deleted"
    );
    let pool: InClusterIPPool = world.api.get("pool").await;
    assert_eq!(pool.metadata.finalizers, Some(vec![finalizers::POOL.to_owned()]));
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<InClusterIPPool>(NAMESPACE, "pool").await;
    world.claim("later", IP, "pool").await;
    assert_eq!(
        world.waits("later", "PoolNotReady").await,
        "InClusterIPPool default/pool does not exist"
    );
    world.delete::<IPAddressClaim>(NAMESPACE, "late").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "late").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_pool_says_how_many_wait() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.10"], 24, "")).await;
    for name in ["a", "b", "c"] {
        world.claim(name, IP, "pool").await;
    }
    says(
        &world,
        "pool",
        "Ready",
        "PoolExhausted",
        "No address is free, and 2 claims wait",
    )
    .await;
    world
        .api
        .patch::<InClusterIPPool>(
            "pool",
            &json!({ "spec": { "addresses": ["10.0.0.10-10.0.0.20"] } }),
        )
        .await;
    says(&world, "pool", "Ready", "Ready", "").await;
    for name in ["a", "b", "c"] {
        world.bound(name).await;
    }
    // Counts of claims that wait may have changed in between, as they came. Events are published in the background.
    let exhausted = [
        "Warning",
        "PoolExhausted",
        "No address is free, and 2 claims wait",
    ]
    .map(str::to_owned);
    let served = ["Normal", "Ready", "The pool serves claims"].map(str::to_owned);
    let told = async || {
        let story = world.api.story("InClusterIPPool", "pool").await;
        if story.contains(&exhausted) && story.last() == Some(&served) {
            Ok(())
        } else {
            Err(story)
        }
    };
    eventually("the Events of the pool", told).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_spec_is_reported_until_it_is_corrected() {
    let world = World::start().await;
    // Such a spec is only possible without the webhook.
    world.pool("pool", spec(&["10.0.0.20-10.0.0.10"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    let message = world.waits("test", "PoolNotReady").await;
    assert!(
        message.contains("provided address is not a valid IP, range, nor CIDR"),
        "{message}"
    );
    world
        .eventually::<InClusterIPPool>(NAMESPACE, "pool", "to be invalid", |pool| {
            let conditions = pool
                .status
                .as_ref()
                .map(|status| &*status.conditions)
                .unwrap_or_default();
            conditions::find(conditions, "Ready").is_some_and(|ready| ready.reason == "InvalidConfiguration")
        })
        .await;
    world
        .api
        .patch::<InClusterIPPool>(
            "pool",
            &json!({ "spec": { "addresses": ["10.0.0.10-10.0.0.20"] } }),
        )
        .await;
    assert_eq!(world.bound("test").await.spec.address, "10.0.0.10");
    // A bound address stays bound with any spec, and can be released.
    world
        .api
        .patch::<InClusterIPPool>("pool", &json!({ "spec": { "addresses": ["nonsense"] } }))
        .await;
    world.claim("late", IP, "pool").await;
    world.waits("late", "PoolNotReady").await;
    world.bound("test").await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
    world.stop().await;
}

// Defect 15.
#[tokio::test(start_paused = true)]
async fn a_malformed_ip_address_is_told_and_stops_no_claim() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.10-10.0.0.20"], 24, "")).await;
    world
        .create_in(NAMESPACE, &reservation("bad", "pool", "ten"))
        .await;
    world
        .create_in(NAMESPACE, &reservation("one", "pool", "10.0.0.10"))
        .await;
    world
        .create_in(NAMESPACE, &reservation("two", "pool", "10.0.0.10"))
        .await;
    let message = "1 IPAddresses cannot be read: default/bad; \
                   1 IPAddresses have an address that another one has too: default/two";
    says(&world, "pool", "Ready", "Ready", message).await;
    world.claim("test", IP, "pool").await;
    assert_eq!(world.bound("test").await.spec.address, "10.0.0.11");
    world.claim("bad", IP, "pool").await;
    let message = world.waits("bad", "AllocationFailed").await;
    assert_eq!(
        message,
        "IPAddress default/bad exists and its address cannot be read"
    );
    world.delete::<IPAddress>(NAMESPACE, "bad").await;
    assert_eq!(world.bound("bad").await.spec.address, "10.0.0.12");
    world.stop().await;
}

/// Removes a bound claim by force, so that its IPAddress is an orphan.
async fn orphan(world: &World) {
    world.pool("pool", spec(&["10.0.0.10-10.0.0.20"], 24, "")).await;
    world.claim("test", IP, "pool").await;
    world.bound("test").await;
    // While the status names the decision, the claim may not know its address, and the next manager would reclaim it.
    let nothing_pending = |pool: &InClusterIPPool| {
        pool.status
            .as_ref()
            .is_some_and(|status| status.pending.is_empty())
    };
    world
        .eventually(NAMESPACE, "pool", "to name no decision", nothing_pending)
        .await;
    // The pause keeps the controllers from releasing the address before the finalizers are removed.
    let patch = json!({ "metadata": { "annotations": { nephele_controller::PAUSED_ANNOTATION: "" } } });
    world.api.patch::<IPAddressClaim>("test", &patch).await;
    world.delete::<IPAddressClaim>(NAMESPACE, "test").await;
    world.strip::<IPAddressClaim>("test").await;
    world.gone::<IPAddressClaim>(NAMESPACE, "test").await;
}

// E13.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_told_of_and_goes_when_it_is_deleted() {
    let world = World::start().await;
    orphan(&world).await;
    let world = world.restart().await;
    says(
        &world,
        "pool",
        "Ready",
        "Ready",
        "1 IPAddresses have no claim any more: default/test",
    )
    .await;
    world.counts("pool", [11, 1, 10, 0]).await;
    let events = Api::<Event>::namespaced(world.api.client(), NAMESPACE);
    let orphaned = |event: &Event| event.reason.as_deref() == Some("Orphaned");
    let told = events.list(&ListParams::default()).await.expect("a list");
    assert!(told.items.iter().any(orphaned), "{:?}", told.items);
    world.delete::<IPAddress>(NAMESPACE, "test").await;
    world.gone::<IPAddress>(NAMESPACE, "test").await;
    says(&world, "pool", "Ready", "Ready", "").await;
    world.stop().await;
}

// E13.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_taken_over_by_a_claim_of_its_name() {
    let world = World::start().await;
    orphan(&world).await;
    let before: IPAddress = world.api.get("test").await;
    world.claim("test", IP, "pool").await;
    assert_eq!(world.bound("test").await.metadata.uid, before.metadata.uid);
    world.stop().await;
}

// E13.
#[tokio::test(start_paused = true)]
async fn orphans_are_reclaimed_when_told_to() {
    let world = World::start().await;
    orphan(&world).await;
    let reclaiming = Settings {
        reclaim_orphans: true,
        ..settings()
    };
    let world = World::over(world.stop().await, reclaiming);
    world.gone::<IPAddress>(NAMESPACE, "test").await;
    world.counts("pool", [11, 0, 11, 0]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pools_that_overlap_are_told_of_on_both_when_asked_to() {
    let world = World::start_with(Settings {
        overlap: OverlapPolicy::Warn,
        ..settings()
    })
    .await;
    world.pool("a", spec(&["10.0.0.10-10.0.0.20"], 24, "")).await;
    world.pool("b", spec(&["10.0.0.20-10.0.0.30"], 24, "")).await;
    let told = |other: &str| format!("has addresses in common with InClusterIPPool default/{other}");
    says(&world, "a", "Overlapping", "AddressesInCommon", &told("b")).await;
    says(&world, "b", "Overlapping", "AddressesInCommon", &told("a")).await;
    world
        .api
        .patch::<InClusterIPPool>("b", &json!({ "spec": { "addresses": ["10.0.0.21"] } }))
        .await;
    for pool in ["a", "b"] {
        world
            .eventually::<InClusterIPPool>(NAMESPACE, pool, "not to overlap", |pool| {
                let conditions = pool
                    .status
                    .as_ref()
                    .map(|status| &*status.conditions)
                    .unwrap_or_default();
                !conditions.is_empty() && conditions::find(conditions, "Overlapping").is_none()
            })
            .await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_of_each_pool_while_it_is_there() {
    let world = World::start().await;
    world.pool("pool", spec(&["10.0.0.10"], 24, "")).await;
    for name in ["a", "b"] {
        world.claim(name, IP, "pool").await;
    }
    says(
        &world,
        "pool",
        "Ready",
        "PoolExhausted",
        "No address is free, and 1 claim waits",
    )
    .await;
    let metrics = || {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&world.registry.gather())
            .expect("text");
        let ours = text
            .lines()
            .filter(|line| line.starts_with("nephele_ipam_") && !line.ends_with(" 0"));
        let told = ours.filter(|line| !line.contains("_seconds_bucket") && !line.contains("_seconds_sum"));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_pool = "{kind=\"InClusterIPPool\",name=\"pool\",namespace=\"default\"} 1";
    let expected = [
        "nephele_ipam_allocation_seconds_count{kind=\"InClusterIPPool\"} 1".to_owned(),
        "nephele_ipam_claims_bound_total{kind=\"InClusterIPPool\"} 1".to_owned(),
        format!("nephele_ipam_pool_addresses_total{of_pool}"),
        format!("nephele_ipam_pool_addresses_used{of_pool}"),
        format!("nephele_ipam_pool_claims_waiting{of_pool}"),
    ];
    // The claim that has the address is counted after its status was written.
    let counted = async || {
        let counted = metrics();
        if counted == expected { Ok(()) } else { Err(counted) }
    };
    eventually("the metrics", counted).await;
    for name in ["a", "b"] {
        world.delete::<IPAddressClaim>(NAMESPACE, name).await;
        world.gone::<IPAddressClaim>(NAMESPACE, name).await;
    }
    world.delete::<InClusterIPPool>(NAMESPACE, "pool").await;
    world.gone::<InClusterIPPool>(NAMESPACE, "pool").await;
    // A claim reports the missing pool only after all parts of the controllers know that it is gone.
    world.claim("late", IP, "pool").await;
    world.waits("late", "PoolNotReady").await;
    assert!(
        metrics()
            .iter()
            .all(|line| !line.starts_with("nephele_ipam_pool_")),
        "{:?}",
        metrics()
    );
    world.stop().await;
}
