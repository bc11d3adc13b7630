use std::net::IpAddr;

use nephele_api::ipam::{
    PoolKind,
    v1alpha2::{InClusterIPPoolSpec, PENDING_MAX, PendingAllocation},
};
use tokio::time::Instant;

use super::*;
use crate::{
    address::Finalizers,
    pool::{PoolKey, kinds::PoolSpec},
};

fn key() -> PoolKey {
    PoolKey {
        kind: PoolKind::InClusterIPPool,
        namespace: "ns".into(),
        name: "pool".into(),
    }
}

fn spec(addresses: &str) -> PoolSpec {
    PoolSpec::Addresses(InClusterIPPoolSpec {
        addresses: vec![addresses.into()],
        prefix: 8,
        ..InClusterIPPoolSpec::default()
    })
}

fn owner(name: &str) -> Owner {
    Owner::new("ns", name)
}

fn request(name: &str, created: i64) -> Request {
    Request {
        owner: owner(name),
        uid: format!("uid-of-{name}").into(),
        created: Timestamp::from_second(created).expect("in range"),
        wanted: None,
        published: true,
    }
}

fn wanting(name: &str, created: i64, address: &str) -> Request {
    Request {
        wanted: Some(ip(address)),
        ..request(name, created)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn record(name: &str, address: &str, version: u64) -> Record {
    Record {
        uid: format!("uid-of-address-{name}").into(),
        version,
        block: Some(Block::Address(ip(address))),
        claim_uid: Some(format!("uid-of-{name}").into()),
        owned_by_pool: true,
        is_current: true,
        finalizers: Finalizers::Ours,
        deleted_at: None,
    }
}

/// A pool that was built from this list at version 100.
fn built(addresses: &str, listed: &[(&str, &str)]) -> Allocations {
    let mut pool = Allocations::default();
    let listed = listed
        .iter()
        .map(|(name, address)| (owner(name), record(name, address, 50)))
        .collect();
    pool.begin_rebuild();
    pool.rebuild(listed, 100, &[], &key(), true, Instant::now());
    pool.specify(&spec(addresses));
    pool
}

fn ask(pool: &mut Allocations, request: Request) -> Answer {
    let answer = pool.ask(request, Instant::now());
    pool.check();
    answer
}

/// The address that the claim gets when it asks.
fn granted(pool: &mut Allocations, name: &str) -> Option<String> {
    match ask(pool, request(name, 1)) {
        Answer::Granted { grant, .. } => Some(grant.address.to_string()),
        _ => None,
    }
}

fn choose(pool: &mut Allocations) -> usize {
    let chosen = pool.choose(BATCH_MAX, |_| true, None);
    pool.check();
    chosen
}

/// Decides and writes; returns the claims that are woken.
fn decide(pool: &mut Allocations) -> Vec<Owner> {
    pool.take_woken();
    choose(pool);
    pool.persisted();
    pool.check();
    pool.take_woken()
}

fn pending(pool: &Allocations) -> Vec<(String, String)> {
    pool.pending(&key())
        .into_iter()
        .map(|pending| (pending.name, pending.address))
        .collect()
}

fn refused(message: &str) -> Answer {
    Answer::Refused {
        message: message.into(),
    }
}

mod model;

#[test]
fn nothing_is_told_before_it_is_written() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[]);
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Queued);
    assert_eq!(choose(&mut pool), 1);
    assert_eq!(pending(&pool), [("a".into(), "10.0.0.10".into())]);
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Queued);
    pool.persisted();
    assert_eq!(pool.take_woken(), [owner("a")]);
    // A claim that asks again gets the same address.
    for _ in 0..2 {
        assert_eq!(granted(&mut pool, "a").as_deref(), Some("10.0.0.10"));
    }
}

#[test]
fn what_could_not_be_written_is_free_again_and_asked_for_still() {
    let mut pool = built("10.0.0.10-10.0.0.11", &[]);
    ask(&mut pool, request("a", 1));
    choose(&mut pool);
    pool.unchoose();
    pool.check();
    assert_eq!(
        (pending(&pool), pool.counts().free, pool.waiting()),
        (vec![], 2, 1)
    );
    assert_eq!(decide(&mut pool), [owner("a")]);
    assert_eq!(granted(&mut pool, "a").as_deref(), Some("10.0.0.10"));
}

#[test]
fn a_decision_is_pending_until_its_ip_address_is_seen() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[]);
    ask(&mut pool, request("a", 1));
    decide(&mut pool);
    assert_eq!(pool.allocation(&owner("a"), "uid-of-a"), Allocation::Decided);
    pool.applied(&owner("a"), record("a", "10.0.0.10", 101));
    assert_eq!(pending(&pool), []);
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Bound);
    let counts = IPAddressCounts {
        total: 11,
        free: 10,
        used: 1,
        out_of_range: 0,
    };
    assert_eq!(pool.counts(), counts);
}

#[test]
fn the_oldest_are_served_first_and_exactly_as_many_as_there_are_addresses() {
    let mut pool = built("10.0.0.10-10.0.0.11", &[("x", "10.0.0.10"), ("y", "10.0.0.11")]);
    // Claims of the same second are served in the order in which they asked.
    for (name, created) in [("c", 3), ("b", 2), ("a2", 1), ("a1", 1), ("d", 4)] {
        assert_eq!(ask(&mut pool, request(name, created)), Answer::Exhausted);
    }
    assert_eq!(decide(&mut pool), []);
    pool.deleted(&owner("x"), "uid-of-address-x");
    assert_eq!(decide(&mut pool), [owner("a2")]);
    pool.deleted(&owner("y"), "uid-of-address-y");
    assert_eq!(decide(&mut pool), [owner("a1")]);
    assert_eq!(decide(&mut pool), []);
    // A younger claim that asks while an address is free does not overtake older claims.
    pool.applied(&owner("a2"), record("a2", "10.0.0.10", 101));
    pool.deleted(&owner("a2"), "uid-of-address-a2");
    assert_eq!(ask(&mut pool, request("e", 9)), Answer::Queued);
    assert_eq!(decide(&mut pool), [owner("e"), owner("b")]);
    assert_eq!(ask(&mut pool, request("e", 9)), Answer::Exhausted);
    assert_eq!(pool.waiting(), 3);
}

#[test]
fn a_claim_that_does_not_want_any_more_is_passed_over() {
    let mut pool = built("10.0.0.10", &[("x", "10.0.0.10")]);
    for (name, created) in [("a", 1), ("b", 2)] {
        assert_eq!(ask(&mut pool, request(name, created)), Answer::Exhausted);
    }
    pool.deleted(&owner("x"), "uid-of-address-x");
    pool.choose(BATCH_MAX, |request| request.owner != owner("a"), None);
    pool.persisted();
    assert_eq!(pool.take_woken(), [owner("b")]);
}

#[test]
fn a_wanted_address_is_waited_for_without_holding_up_others() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[("x", "10.0.0.12")]);
    let wants = [("a", "10.0.0.12"), ("b", "10.0.9.9"), ("c", "10.0.0.15")];
    let all = |pool: &mut Allocations| wants.map(|(name, address)| ask(pool, wanting(name, 1, address)));
    all(&mut pool);
    decide(&mut pool);
    let [taken, outside, other] = all(&mut pool);
    assert_eq!(taken, refused("address 10.0.0.12 is in use by ns/x"));
    assert_eq!(
        outside,
        refused("address 10.0.9.9 cannot be allocated from the pool")
    );
    assert!(matches!(other, Answer::Granted { grant, .. } if grant.address == ip("10.0.0.15")));
    pool.deleted(&owner("x"), "uid-of-address-x");
    assert_eq!(decide(&mut pool), [owner("a")]);
    pool.specify(&spec("10.0.9.0-10.0.9.20"));
    assert_eq!(decide(&mut pool), [owner("b")]);
}

#[test]
fn old_news_of_the_watch_change_nothing() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10")]);
    let before = pool.counts();
    // An IPAddress that is older than the list and not in it.
    pool.applied(&owner("z"), record("z", "10.0.0.19", 99));
    // A version that is older than the one in the list.
    pool.applied(&owner("a"), record("a", "10.0.0.11", 49));
    // Another object of the same name, which was deleted before.
    pool.deleted(&owner("a"), "another-uid");
    assert_eq!(pool.counts(), before);
    // The IPAddress is gone according to the response to its deletion; the watch shows its last change only now.
    pool.released(&owner("a"), "uid-of-address-a");
    pool.applied(&owner("a"), record("a", "10.0.0.10", 120));
    assert_eq!(pool.counts().used, 0);
    pool.deleted(&owner("a"), "uid-of-address-a");
    assert!(pool.gone.is_empty());
}

#[test]
fn what_happens_while_a_list_is_read_counts_more_than_the_list() {
    let all = [
        ("a", "10.0.0.10"),
        ("b", "10.0.0.11"),
        ("d", "10.0.0.13"),
        ("e", "10.0.0.14"),
    ];
    let mut pool = built("10.0.0.10-10.0.0.20", &all);
    pool.begin_rebuild();
    pool.released(&owner("a"), "uid-of-address-a");
    pool.deleted(&owner("b"), "uid-of-address-b");
    pool.applied(&owner("c"), record("c", "10.0.0.12", 300));
    pool.released(&owner("d"), "uid-of-address-d");
    pool.deleted(&owner("d"), "uid-of-address-d");
    pool.applied(&owner("e"), record("e", "10.0.0.14", 301));
    pool.deleted(&owner("e"), "uid-of-address-e");
    let listed = all.map(|(name, address)| (owner(name), record(name, address, 50)));
    pool.rebuild(listed.into(), 200, &[], &key(), true, Instant::now());
    pool.specify(&spec("10.0.0.10-10.0.0.20"));
    pool.check();
    assert_eq!(pool.entries.keys().cloned().collect::<Vec<_>>(), [owner("c")]);
    assert_eq!(pool.counts().free, 10);
}

fn left(name: &str, uid: &str, address: &str) -> PendingAllocation {
    PendingAllocation {
        name: name.into(),
        uid: uid.into(),
        address: address.into(),
        ..PendingAllocation::default()
    }
}

#[test]
fn what_another_process_decided_on_is_kept_and_told_only_when_it_is_written_again() {
    let mut pool = Allocations::default();
    for (name, created) in [("a", 1), ("b", 2)] {
        assert_eq!(ask(&mut pool, request(name, created)), Answer::Queued);
    }
    pool.begin_rebuild();
    pool.rebuild(
        vec![],
        100,
        &[left("a", "uid-of-a", "10.0.0.10")],
        &key(),
        false,
        Instant::now(),
    );
    pool.specify(&spec("10.0.0.10-10.0.0.20"));
    assert!(pool.has_unwritten(|_, _| false));
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Queued);
    assert_eq!(decide(&mut pool), [owner("a"), owner("b")]);
    let addresses = ["a", "b"].map(|name| granted(&mut pool, name).expect("it is written"));
    assert_eq!(addresses, ["10.0.0.10", "10.0.0.11"]);
}

#[test]
fn what_another_process_decided_on_is_seen_through_by_an_ip_address_that_lost_its_claim() {
    // The IPAddress is held back, or its reference to the claim was removed by force.
    let disowned = Record {
        claim_uid: None,
        ..record("gone", "10.0.0.10", 50)
    };
    let by_hand = Record {
        owned_by_pool: false,
        is_current: true,
        ..disowned.clone()
    };
    for (listed, still_pending) in [
        (disowned, vec![]),
        (by_hand, vec![("gone".into(), "10.0.0.10".into())]),
    ] {
        let mut pool = Allocations::default();
        pool.begin_rebuild();
        let left = [left("gone", "uid-of-gone", "10.0.0.10")];
        pool.rebuild(
            vec![(owner("gone"), listed)],
            100,
            &left,
            &key(),
            false,
            Instant::now(),
        );
        pool.specify(&spec("10.0.0.10-10.0.0.20"));
        pool.check();
        // Another request for the IPAddress may be on its way for some time.
        assert_eq!(pending(&pool), [("gone".into(), "10.0.0.10".into())]);
        pool.expire(Instant::now() + LATE_MAX);
        pool.forget_expired(&owner("gone"), "uid-of-gone");
        pool.check();
        assert_eq!(pending(&pool), still_pending);
    }
}

#[test]
fn an_ip_address_that_cannot_be_read_or_exists_twice_is_told_and_stops_no_claim() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10"), ("b", "10.0.0.10")]);
    pool.applied(
        &owner("m"),
        Record {
            block: None,
            ..record("m", "10.0.0.1", 101)
        },
    );
    pool.check();
    let troubles = pool.troubles();
    assert_eq!(
        (troubles.malformed.count, troubles.contested.first),
        (1, vec!["ns/b".to_owned()])
    );
    let counts = IPAddressCounts {
        total: 11,
        free: 10,
        used: 3,
        out_of_range: 0,
    };
    assert_eq!(pool.counts(), counts);
    ask(&mut pool, request("c", 1));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "c").as_deref(), Some("10.0.0.11"));
    // Without the rival, the address belongs to b alone, and is still taken.
    pool.deleted(&owner("a"), "uid-of-address-a");
    pool.check();
    assert_eq!((pool.troubles().contested.count, pool.counts().free), (0, 9));
}

#[test]
fn an_ip_address_made_by_hand_is_taken_over_unless_another_owner_has_its_address() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[("x", "10.0.0.12")]);
    let by_hand = |name: &str, address: &str| Record {
        claim_uid: None,
        owned_by_pool: false,
        is_current: true,
        finalizers: Finalizers::Foreign,
        ..record(name, address, 101)
    };
    pool.applied(&owner("a"), by_hand("a", "10.0.0.11"));
    pool.applied(&owner("b"), by_hand("b", "10.0.0.12"));
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Queued);
    assert_eq!(choose(&mut pool), 1);
    // The address is pending, so no other process can decide on it before the IPAddress is taken over.
    assert_eq!(pending(&pool), [("a".into(), "10.0.0.11".into())]);
    let counts = IPAddressCounts {
        total: 11,
        free: 9,
        used: 3,
        out_of_range: 0,
    };
    assert_eq!(
        (ask(&mut pool, request("a", 1)), pool.counts()),
        (Answer::Queued, counts)
    );
    pool.persisted();
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::TakeOver);
    pool.applied(&owner("a"), record("a", "10.0.0.11", 102));
    assert_eq!(pending(&pool), []);
    let twice = "IPAddress ns/b exists and its address 10.0.0.12 is in use by ns/x";
    assert_eq!(ask(&mut pool, request("b", 1)), refused(twice));
}

#[test]
fn a_pool_that_is_closed_answers_at_once_and_keeps_none_waiting() {
    let mut pool = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10")]);
    assert_eq!(ask(&mut pool, request("b", 1)), Answer::Queued);
    pool.close(Some(("Paused", "paused".into())));
    assert_eq!(pool.take_woken(), [owner("b")]);
    let closed = Answer::Unavailable {
        reason: "Paused",
        message: "paused".into(),
    };
    assert_eq!(ask(&mut pool, request("b", 1)), closed);
    // A bound IPAddress stays bound.
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Bound);
    assert_eq!((choose(&mut pool), pool.waiting()), (0, 0));
}

#[test]
fn a_batch_is_bounded_and_so_is_what_is_pending() {
    let mut pool = built("10.0.0.0/8", &[]);
    for n in 0..PENDING_MAX + 10 {
        pool.ask(request(&format!("c{n}"), 1), Instant::now());
    }
    let mut total = 0;
    loop {
        let chosen = choose(&mut pool);
        if chosen == 0 {
            break;
        }
        assert!(chosen <= BATCH_MAX);
        pool.persisted();
        total += chosen;
    }
    assert_eq!(
        (total, pool.pending(&key()).len(), pool.waiting()),
        (PENDING_MAX, PENDING_MAX, 10)
    );
}

#[test]
fn what_another_process_decided_on_stays_when_a_write_fails() {
    let mut pool = Allocations::default();
    let foreign = [left("a", "uid-of-a", "10.0.0.10")];
    for ours in [false, true] {
        pool.begin_rebuild();
        pool.rebuild(vec![], 100, &foreign, &key(), ours, Instant::now());
        pool.specify(&spec("10.0.0.10-10.0.0.11"));
        ask(&mut pool, request("b", 1));
        choose(&mut pool);
        assert_eq!(pending(&pool).len(), 2);
        pool.unchoose();
        pool.check();
        // The IPAddress of a may be about to be created, so no other claim can have the address.
        assert_eq!(pending(&pool), [("a".into(), "10.0.0.10".into())]);
    }
}

#[test]
fn a_claim_that_was_told_to_wait_is_called_when_its_ip_address_is_found() {
    let mut pool = built("10.0.0.10-10.0.0.10", &[("x", "10.0.0.10")]);
    assert_eq!(ask(&mut pool, request("a", 1)), Answer::Exhausted);
    pool.applied(&owner("a"), record("a", "10.0.0.11", 101));
    assert_eq!((pool.take_woken(), pool.waiting()), (vec![owner("a")], 0));
}

#[test]
fn a_claim_that_asked_before_its_ip_address_was_listed_is_told_that_it_has_one() {
    let mut pool = Allocations::default();
    for (name, created) in [("a", 1), ("x", 2)] {
        assert_eq!(ask(&mut pool, request(name, created)), Answer::Queued);
    }
    pool.begin_rebuild();
    let listed = vec![(owner("x"), record("x", "10.0.0.10", 50))];
    pool.rebuild(listed, 100, &[], &key(), true, Instant::now());
    pool.specify(&spec("10.0.0.10-10.0.0.10"));
    choose(&mut pool);
    assert_eq!(pool.take_woken(), [owner("x"), owner("a")]);
    let answers = [("a", 1), ("x", 2)].map(|(name, created)| ask(&mut pool, request(name, created)));
    assert_eq!(answers, [Answer::Exhausted, Answer::Bound]);
}

/// An IPAddress that another manager creates too late, for a claim that is gone.
fn late(name: &str, address: &str) -> Record {
    Record {
        uid: format!("uid-of-late-address-{name}").into(),
        claim_uid: Some("uid-of-a-former-claim".into()),
        ..record(name, address, 101)
    }
}

#[test]
fn a_decision_outlives_a_late_ip_address_of_a_former_claim() {
    let mut pool = built("10.0.0.10-10.0.0.12", &[]);
    ask(&mut pool, request("a", 1));
    decide(&mut pool);
    pool.applied(&owner("a"), late("a", "10.0.0.12"));
    pool.check();
    // The reconcile of the claim may still create its IPAddress as soon as the late one is gone.
    assert_eq!(pending(&pool), [("a".into(), "10.0.0.10".into())]);
    let counts = IPAddressCounts {
        total: 3,
        free: 1,
        used: 2,
        out_of_range: 0,
    };
    assert_eq!(pool.counts(), counts);
    ask(&mut pool, request("b", 2));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "b").as_deref(), Some("10.0.0.11"));
    pool.deleted(&owner("a"), "uid-of-late-address-a");
    pool.check();
    assert_eq!(granted(&mut pool, "a").as_deref(), Some("10.0.0.10"));
    pool.applied(&owner("a"), record("a", "10.0.0.10", 103));
    assert_eq!(pending(&pool), [("b".into(), "10.0.0.11".into())]);
}

#[test]
fn a_decision_of_another_process_outlives_a_late_ip_address_too() {
    let mut pool = Allocations::default();
    let pending_allocations = [left("a", "uid-of-a", "10.0.0.10")];
    let mut now = Instant::now();
    // Once with a status that another process wrote, then with one that this process wrote.
    for ours in [false, true] {
        pool.begin_rebuild();
        let listed = vec![(owner("a"), late("a", "10.0.0.12"))];
        pool.rebuild(listed, 100, &pending_allocations, &key(), ours, now);
        pool.specify(&spec("10.0.0.10-10.0.0.12"));
        assert_eq!(
            (pool.has_unwritten(|_, _| false), pending(&pool)),
            (!ours, vec![("a".into(), "10.0.0.10".into())])
        );
        // A decision about a claim of another manager is left to that manager.
        assert!(!pool.has_unwritten(|owner, uid| (owner.name(), uid) == ("a", "uid-of-a")));
        pool.persisted();
    }
    ask(&mut pool, request("b", 2));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "b").as_deref(), Some("10.0.0.11"));
    pool.sweep(|_, _| true, |owner, _| *owner != self::owner("a"));
    assert_eq!(pool.take_abandoned(64), [(owner("a"), "uid-of-a".into())]);
    pool.drop_decision(&owner("a"), "uid-of-a");
    // The other process may have sent its request just before this process read its decision.
    assert_eq!(
        (pool.expire(now), pending(&pool).len(), pool.counts().free),
        (Some(now + LATE_MAX), 2, 0)
    );
    now += LATE_MAX;
    // The request may have arrived at the last moment: the management API is asked once more.
    assert_eq!((pool.expire(now), pending(&pool).len()), (None, 2));
    assert_eq!(pool.take_abandoned(64), [(owner("a"), "uid-of-a".into())]);
    pool.forget_expired(&owner("a"), "uid-of-a");
    assert_eq!((pending(&pool).len(), pool.counts().free), (1, 1));
    pool.check();
}

#[test]
fn a_late_ip_address_is_taken_over_only_once_that_is_decided_on() {
    let mut pool = built("10.0.0.10-10.0.0.12", &[]);
    ask(&mut pool, request("a", 1));
    decide(&mut pool);
    pool.applied(&owner("a"), late("a", "10.0.0.12"));
    let unpublished = || Request {
        published: false,
        ..request("a", 1)
    };
    assert_eq!(ask(&mut pool, unpublished()), Answer::Queued);
    assert_eq!(choose(&mut pool), 1);
    let both = [("a".into(), "10.0.0.12".into()), ("a".into(), "10.0.0.10".into())];
    assert_eq!(
        (ask(&mut pool, unpublished()), pending(&pool)),
        (Answer::Queued, both.to_vec())
    );
    pool.persisted();
    assert_eq!(ask(&mut pool, unpublished()), Answer::TakeOver);
    let taken_over = Record {
        claim_uid: Some("uid-of-a".into()),
        version: 102,
        ..late("a", "10.0.0.12")
    };
    pool.applied(&owner("a"), taken_over);
    // The first decision stays pending until the claim's status names the IPAddress that was taken over.
    assert_eq!(pending(&pool), [("a".into(), "10.0.0.10".into())]);
    pool.published(&owner("a"));
    pool.check();
    let counts = IPAddressCounts {
        total: 3,
        free: 2,
        used: 1,
        out_of_range: 0,
    };
    assert_eq!((pending(&pool), pool.counts()), (vec![], counts));
}

#[test]
fn a_decision_for_a_claim_that_is_gone_does_not_keep_the_next_of_its_name_waiting() {
    let mut pool = Allocations::default();
    ask(&mut pool, request("a", 1));
    pool.begin_rebuild();
    let former = left("a", "uid-of-a-former-claim", "10.0.0.10");
    let now = Instant::now();
    pool.rebuild(vec![], 100, &[former], &key(), false, now);
    pool.specify(&spec("10.0.0.10-10.0.0.12"));
    decide(&mut pool);
    // Both claims have the same name, so only one of them can have an IPAddress.
    assert_eq!(granted(&mut pool, "a").as_deref(), Some("10.0.0.10"));
    let uids = |pool: &Allocations| -> Vec<_> {
        pool.pending(&key())
            .into_iter()
            .map(|pending| pending.uid)
            .collect()
    };
    assert_eq!(uids(&pool), ["uid-of-a", "uid-of-a-former-claim"]);
    pool.drop_decision(&owner("a"), "uid-of-a-former-claim");
    pool.expire(now + LATE_MAX);
    pool.forget_expired(&owner("a"), "uid-of-a-former-claim");
    assert_eq!(uids(&pool), ["uid-of-a"]);
    assert_eq!(granted(&mut pool, "a").as_deref(), Some("10.0.0.10"));
}

#[test]
fn the_address_of_a_refused_ip_address_stays_reserved_while_an_earlier_request_has_no_answer() {
    let mut pool = built("10.0.0.10-10.0.0.11", &[]);
    ask(&mut pool, request("a", 1));
    decide(&mut pool);
    let (a, uid, now) = (owner("a"), "uid-of-a", Instant::now());
    // The first request is lost or late; the second one is refused.
    pool.sending(&a, uid, now);
    let second = pool.sending(&a, uid, now + Duration::from_secs(1));
    pool.answered(&a, uid, second);
    pool.drop_decision(&a, uid);
    ask(&mut pool, request("b", 2));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "b").as_deref(), Some("10.0.0.11"));
    // The first request takes effect after all. Its claim may be gone, so the IPAddress is a suspect.
    pool.applied(&a, record("a", "10.0.0.10", 101));
    pool.check();
    assert_eq!(
        (
            pool.take_suspects(64),
            pool.is_unpublished(&a, "uid-of-address-a")
        ),
        (vec![a], true)
    );
    assert_eq!(pool.troubles().contested.count, 0);
}

#[test]
fn the_address_of_a_lost_request_stays_reserved_until_its_ip_address_was_looked_for() {
    let mut pool = built("10.0.0.10-10.0.0.11", &[]);
    ask(&mut pool, request("a", 1));
    decide(&mut pool);
    let (a, uid, now) = (owner("a"), "uid-of-a", Instant::now());
    // The first request takes effect, but its response is lost and the watch is behind. A webhook refuses the second.
    pool.sending(&a, uid, now);
    pool.expire(now + LATE_MAX);
    let second = pool.sending(&a, uid, now + LATE_MAX);
    pool.answered(&a, uid, second);
    pool.drop_decision(&a, uid);
    ask(&mut pool, request("b", 2));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "b").as_deref(), Some("10.0.0.11"));
    assert_eq!(pool.take_abandoned(64), [(a.clone(), uid.into())]);
    // The pool's task reads that there is no IPAddress.
    pool.forget_expired(&a, uid);
    pool.check();
    ask(&mut pool, request("c", 3));
    decide(&mut pool);
    assert_eq!(granted(&mut pool, "c").as_deref(), Some("10.0.0.10"));
}

#[test]
fn an_ip_address_that_another_process_creates_a_second_time_is_taken_back() {
    let mut pool = Allocations::default();
    pool.begin_rebuild();
    let listed = vec![(owner("a"), record("a", "10.0.0.10", 101))];
    let pending = [left("a", "uid-of-a", "10.0.0.10")];
    pool.rebuild(listed, 102, &pending, &key(), false, Instant::now());
    pool.specify(&spec("10.0.0.10-10.0.0.11"));
    // The claim is deleted, and its IPAddress with it. Then the first of two requests to create it takes effect.
    pool.released(&owner("a"), "uid-of-address-a");
    pool.deleted(&owner("a"), "uid-of-address-a");
    let second = Record {
        uid: "uid-of-second-address-a".into(),
        ..record("a", "10.0.0.10", 103)
    };
    pool.applied(&owner("a"), second);
    pool.check();
    assert_eq!(pool.take_suspects(64), [owner("a")]);
    assert!(pool.is_unpublished(&owner("a"), "uid-of-second-address-a"));
}

#[test]
fn decisions_that_have_become_ip_addresses_leave_room_for_new_claims() {
    let names: Vec<_> = (0..PENDING_MAX).map(|n| format!("c{n}")).collect();
    let address = |n: usize| format!("10.0.{}.{}", n / 256, n % 256);
    let listed = names
        .iter()
        .enumerate()
        .map(|(n, name)| (owner(name), record(name, &address(n), 50)));
    let pending = names
        .iter()
        .enumerate()
        .map(|(n, name)| left(name, &format!("uid-of-{name}"), &address(n)));
    let listed = listed.collect();
    let pending = pending.collect::<Vec<_>>();
    let mut pool = Allocations::default();
    pool.begin_rebuild();
    pool.rebuild(listed, 100, &pending, &key(), false, Instant::now());
    pool.specify(&spec("10.0.0.0/16"));
    assert_eq!(pool.pending(&key()).len(), PENDING_MAX / 2);
    for n in 0..PENDING_MAX {
        pool.ask(request(&format!("new{n}"), 1), Instant::now());
    }
    let chosen: usize = std::iter::from_fn(|| Some(choose(&mut pool)).filter(|chosen| *chosen > 0)).sum();
    assert_eq!(chosen, PENDING_MAX / 2);
}

#[test]
fn the_ip_address_of_a_decision_of_another_process_is_taken_back_when_its_claim_is_gone() {
    let mut pool = Allocations::default();
    pool.begin_rebuild();
    let listed = vec![(owner("a"), record("a", "10.0.0.10", 101))];
    let pending = [left("a", "uid-of-a", "10.0.0.10")];
    pool.rebuild(listed, 102, &pending, &key(), false, Instant::now());
    assert!(pool.is_unpublished(&owner("a"), "uid-of-address-a"));
    // The claim exists after all, and its status names the IPAddress.
    pool.published(&owner("a"));
    assert!(!pool.is_unpublished(&owner("a"), "uid-of-address-a"));
}
