use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::{reflector, watcher::Event};
use nephele_api::ipam::{PoolKind, v1beta2::IPAddressClaimSpec};

use super::*;

fn pool(name: &str) -> PoolKey {
    PoolKey {
        kind: PoolKind::InClusterIPPool,
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn claim(name: &str, created: i64) -> IPAddressClaim {
    let mut claim = IPAddressClaim::new(name, IPAddressClaimSpec::default());
    claim.metadata.namespace = Some("ns".into());
    claim.metadata.creation_timestamp = Some(Time(Timestamp::from_second(created).expect("in range")));
    claim
}

/// The claims to reconcile now, if only these claims exist.
fn due(queue: &ClaimQueue, existing: &[&str]) -> Vec<String> {
    let (store, mut writer) = reflector::store();
    for name in existing {
        writer.apply_watcher_event(&Event::Apply(claim(name, 0)));
    }
    let mut due = std::pin::pin!(queue.listen(store));
    let mut names = Vec::new();
    while let Some(Some(claim)) = due.next().now_or_never() {
        names.push(claim.name);
    }
    names
}

#[tokio::test]
async fn pools_are_served_in_rotation_and_the_claims_of_one_by_age() {
    let queue = ClaimQueue::new(2);
    let take = |name: &str, created, of: &str| queue.slot(&pool(of), &claim(name, created));
    let all = ["a3", "a4", "a5", "b1"];
    let first = take("a1", 1, "a").expect("a slot is free");
    let second = take("a2", 1, "a").expect("a slot is free");
    // The claims do not arrive in the order of their age, and one arrives twice.
    for (name, created, of) in [
        ("a5", 5, "a"),
        ("a4", 4, "a"),
        ("a3", 3, "a"),
        ("b1", 9, "b"),
        ("a3", 3, "a"),
    ] {
        assert!(take(name, created, of).is_none());
    }
    assert_eq!(due(&queue, &all), Vec::<String>::new());
    drop(first);
    assert_eq!(due(&queue, &all), ["a3"]);
    drop(second);
    assert_eq!(due(&queue, &all), ["b1"]);
    let third = take("a3", 3, "a");
    assert!(third.is_some());
    // The claim b1 needs no slot any more, so the next claim gets it.
    queue.decline(&Owner::new("ns", "b1"));
    assert_eq!(due(&queue, &all), ["a4"]);
}

#[tokio::test]
async fn a_slot_reserved_for_a_claim_that_is_gone_goes_to_the_next() {
    let queue = ClaimQueue::new(1);
    let running = queue.slot(&pool("a"), &claim("a1", 1)).expect("a slot is free");
    for (name, created) in [("gone", 2), ("a3", 3)] {
        assert!(queue.slot(&pool("a"), &claim(name, created)).is_none());
    }
    drop(running);
    assert_eq!(due(&queue, &["a3"]), ["a3"]);
    assert!(queue.slot(&pool("a"), &claim("a3", 3)).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_is_not_used_ends() {
    let queue = ClaimQueue::new(1);
    let running = queue.slot(&pool("a"), &claim("a1", 1)).expect("a slot is free");
    for (name, created) in [("lost", 2), ("a3", 3)] {
        assert!(queue.slot(&pool("a"), &claim(name, created)).is_none());
    }
    drop(running);
    assert_eq!(due(&queue, &["lost", "a3"]), ["lost"]);
    tokio::time::advance(RESERVATION_LASTS).await;
    assert_eq!(due(&queue, &["lost", "a3"]), ["a3"]);
}
