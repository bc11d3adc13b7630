use std::net::IpAddr;

use nephele_api::ipam::PoolKind;
use nephele_api::ipam::v1alpha2::{InClusterIPPoolSpec, PENDING_MAX, PendingAllocation};

use super::*;
use crate::address::Finalizers;
use crate::pool::PoolKey;
use crate::pool::kinds::PoolSpec;

fn key() -> PoolKey {
    PoolKey { kind: PoolKind::InClusterIPPool, namespace: "ns".into(), name: "pool".into() }
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
    Request { wanted: Some(ip(address)), ..request(name, created) }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn record(name: &str, address: &str, version: u64) -> Record {
    Record {
        uid: format!("uid-of-address-{name}").into(),
        version,
        place: Some(Place::Address(ip(address))),
        claim_uid: Some(format!("uid-of-{name}").into()),
        owned_by_pool: true,
        finalizers: Finalizers::Ours,
        deleted_at: None,
    }
}

/// A ledger that was built from this list at version 100.
fn built(addresses: &str, listed: &[(&str, &str)]) -> Ledger {
    let mut ledger = Ledger::default();
    let listed = listed.iter().map(|(name, address)| (owner(name), record(name, address, 50))).collect();
    ledger.begin_rebuild();
    ledger.rebuild(listed, 100, &[], &key(), true, Instant::now());
    ledger.specify(&spec(addresses));
    ledger
}

fn ask(ledger: &mut Ledger, request: Request) -> oneshot::Receiver<Answer> {
    ledger.ask(request, Instant::now()).expect_err("it has to wait for the answer")
}

fn answered(answer: &mut oneshot::Receiver<Answer>) -> Option<Answer> {
    answer.try_recv().ok()
}

fn granted(answer: Option<Answer>) -> Option<String> {
    match answer {
        Some(Answer::Granted { grant, .. }) => Some(grant.address.to_string()),
        _ => None,
    }
}

fn decide(ledger: &mut Ledger) -> Vec<Owner> {
    ledger.choose(|_| true);
    ledger.persisted()
}

fn pending(ledger: &Ledger) -> Vec<(String, String)> {
    ledger.pending(&key()).into_iter().map(|pending| (pending.name, pending.address)).collect()
}

#[tokio::test]
async fn nothing_is_told_before_it_is_written() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[]);
    let mut answer = ask(&mut ledger, request("a", 1));
    assert_eq!(ledger.choose(|_| true), 1);
    assert_eq!(pending(&ledger), [("a".into(), "10.0.0.10".into())]);
    assert_eq!(answered(&mut answer), None);
    assert_eq!(ledger.persisted(), []);
    assert_eq!(granted(answered(&mut answer)).as_deref(), Some("10.0.0.10"));
    // Who asks again gets the same.
    assert!(ledger.ask(request("a", 1), Instant::now()).is_ok_and(|answer| granted(Some(answer)).is_some()));
}

#[tokio::test]
async fn what_could_not_be_written_is_free_again_and_asked_for_still() {
    let mut ledger = built("10.0.0.10-10.0.0.11", &[]);
    let mut answer = ask(&mut ledger, request("a", 1));
    ledger.choose(|_| true);
    ledger.unchoose();
    assert_eq!((pending(&ledger), answered(&mut answer)), (vec![], None));
    assert_eq!(ledger.counts().free, 2);
    assert_eq!(decide(&mut ledger), []);
    assert_eq!(granted(answered(&mut answer)).as_deref(), Some("10.0.0.10"));
}

#[tokio::test]
async fn an_intent_is_pending_until_its_ip_address_is_seen() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[]);
    let _answer = ask(&mut ledger, request("a", 1));
    decide(&mut ledger);
    assert_eq!(ledger.standing(&owner("a"), "uid-of-a"), Standing::Decided);
    ledger.applied(owner("a"), record("a", "10.0.0.10", 101));
    assert_eq!(pending(&ledger), []);
    assert_eq!(ledger.ask(request("a", 1), Instant::now()).ok(), Some(Answer::Bound));
    let counts = IPAddressCounts { total: 11, free: 10, used: 1, out_of_range: 0 };
    assert_eq!(ledger.counts(), counts);
}

#[tokio::test]
async fn the_oldest_are_served_first_and_exactly_as_many_as_there_are_addresses() {
    let mut ledger = built("10.0.0.10-10.0.0.11", &[("x", "10.0.0.10"), ("y", "10.0.0.11")]);
    for (name, created) in [("c", 3), ("b", 2), ("a2", 1), ("a1", 1), ("d", 4)] {
        assert_eq!(ledger.ask(request(name, created), Instant::now()).ok(), Some(Answer::Exhausted));
    }
    assert_eq!(decide(&mut ledger), []);
    ledger.deleted(&owner("x"), "uid-of-address-x");
    assert_eq!(decide(&mut ledger), [owner("a1")]);
    ledger.deleted(&owner("y"), "uid-of-address-y");
    assert_eq!(decide(&mut ledger), [owner("a2")]);
    assert_eq!(decide(&mut ledger), []);
    // Somebody younger who asks only now does not get ahead.
    ledger.applied(owner("a1"), record("a1", "10.0.0.10", 101));
    ledger.deleted(&owner("a1"), "uid-of-address-a1");
    let mut late = ask(&mut ledger, request("e", 9));
    assert_eq!(decide(&mut ledger), [owner("b")]);
    ledger.choose(|_| true);
    assert_eq!(answered(&mut late), Some(Answer::Exhausted));
    assert_eq!(ledger.waiting(), 3);
}

#[tokio::test]
async fn a_claim_that_does_not_want_any_more_is_passed_over() {
    let mut ledger = built("10.0.0.10", &[("x", "10.0.0.10")]);
    for (name, created) in [("a", 1), ("b", 2)] {
        assert_eq!(ledger.ask(request(name, created), Instant::now()).ok(), Some(Answer::Exhausted));
    }
    ledger.deleted(&owner("x"), "uid-of-address-x");
    ledger.choose(|request| request.owner != owner("a"));
    assert_eq!(ledger.persisted(), [owner("b")]);
}

#[tokio::test]
async fn a_wanted_address_is_waited_for_without_holding_up_others() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("x", "10.0.0.12")]);
    let mut taken = ask(&mut ledger, wanting("a", 1, "10.0.0.12"));
    let mut outside = ask(&mut ledger, wanting("b", 2, "10.0.9.9"));
    let mut other = ask(&mut ledger, wanting("c", 3, "10.0.0.15"));
    decide(&mut ledger);
    let refused = |message: &str| Some(Answer::Refused { message: message.into() });
    assert_eq!(answered(&mut taken), refused("address 10.0.0.12 is in use by ns/x"));
    assert_eq!(answered(&mut outside), refused("address 10.0.9.9 cannot be allocated from the pool"));
    assert_eq!(granted(answered(&mut other)).as_deref(), Some("10.0.0.15"));
    ledger.deleted(&owner("x"), "uid-of-address-x");
    assert_eq!(decide(&mut ledger), [owner("a")]);
    ledger.specify(&spec("10.0.9.0-10.0.9.20"));
    assert_eq!(decide(&mut ledger), [owner("b")]);
}

#[tokio::test]
async fn old_news_of_the_watch_change_nothing() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10")]);
    let before = ledger.counts();
    // Older than the list, which does not have it.
    ledger.applied(owner("z"), record("z", "10.0.0.19", 99));
    // Older than what the list has.
    ledger.applied(owner("a"), record("a", "10.0.0.11", 49));
    // Another object of the name, long gone.
    ledger.deleted(&owner("a"), "another-uid");
    assert_eq!(ledger.counts(), before);
    // It is gone by the answer to its deletion; the watch tells of its last change only now.
    ledger.released(&owner("a"), "uid-of-address-a");
    ledger.applied(owner("a"), record("a", "10.0.0.10", 120));
    assert_eq!(ledger.counts().used, 0);
    ledger.deleted(&owner("a"), "uid-of-address-a");
    assert!(ledger.gone.is_empty());
}

#[tokio::test]
async fn what_happens_while_a_list_is_read_counts_more_than_the_list() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10"), ("b", "10.0.0.11")]);
    ledger.begin_rebuild();
    ledger.released(&owner("a"), "uid-of-address-a");
    ledger.deleted(&owner("b"), "uid-of-address-b");
    ledger.applied(owner("c"), record("c", "10.0.0.12", 300));
    let listed = ["a", "b"]
        .map(|name| (owner(name), record(name, if name == "a" { "10.0.0.10" } else { "10.0.0.11" }, 50)));
    ledger.rebuild(listed.into(), 200, &[], &key(), true, Instant::now());
    ledger.specify(&spec("10.0.0.10-10.0.0.20"));
    assert_eq!(ledger.records.keys().cloned().collect::<Vec<_>>(), [owner("c")]);
    assert_eq!(ledger.counts().free, 10);
}

#[tokio::test]
async fn what_another_process_decided_on_is_kept_and_told_only_when_it_is_written_anew() {
    let left = PendingAllocation {
        name: "a".into(),
        uid: "uid-of-a".into(),
        address: "10.0.0.10".into(),
        ..PendingAllocation::default()
    };
    let mut ledger = Ledger::default();
    let mut first = ask(&mut ledger, request("a", 1));
    let mut second = ask(&mut ledger, request("b", 2));
    ledger.begin_rebuild();
    ledger.rebuild(vec![], 100, &[left], &key(), false, Instant::now());
    ledger.specify(&spec("10.0.0.10-10.0.0.20"));
    assert!(ledger.has_unwritten());
    assert_eq!(ledger.tell_decided(), []);
    assert_eq!(answered(&mut first), None);
    decide(&mut ledger);
    assert_eq!(granted(answered(&mut first)).as_deref(), Some("10.0.0.10"));
    assert_eq!(granted(answered(&mut second)).as_deref(), Some("10.0.0.11"));
}

#[tokio::test]
async fn an_ip_address_that_cannot_be_read_or_is_there_twice_is_told_and_stops_nobody() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10"), ("b", "10.0.0.10")]);
    ledger.applied(owner("m"), Record { place: None, ..record("m", "10.0.0.1", 101) });
    let troubles = ledger.troubles();
    assert_eq!((troubles.malformed.count, troubles.contested.first), (1, vec!["ns/b".to_owned()]));
    let counts = IPAddressCounts { total: 11, free: 10, used: 3, out_of_range: 0 };
    assert_eq!(ledger.counts(), counts);
    let mut answer = ask(&mut ledger, request("c", 1));
    decide(&mut ledger);
    assert_eq!(granted(answered(&mut answer)).as_deref(), Some("10.0.0.11"));
    // With the rival gone the address is one's own, and still taken.
    ledger.deleted(&owner("a"), "uid-of-address-a");
    assert_eq!((ledger.troubles().contested.count, ledger.counts().free), (0, 9));
}

#[tokio::test]
async fn an_ip_address_made_by_hand_is_taken_over_unless_its_address_is_somebody_elses() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("x", "10.0.0.12")]);
    let by_hand = |name: &str, address: &str| Record {
        claim_uid: None,
        owned_by_pool: false,
        finalizers: Finalizers::Foreign,
        ..record(name, address, 101)
    };
    ledger.applied(owner("a"), by_hand("a", "10.0.0.11"));
    ledger.applied(owner("b"), by_hand("b", "10.0.0.12"));
    let mut answer = ask(&mut ledger, request("a", 1));
    assert_eq!(ledger.choose(|_| true), 1);
    // Nobody else can decide on the address between this and the taking over.
    assert_eq!(pending(&ledger), [("a".into(), "10.0.0.11".into())]);
    let counts = IPAddressCounts { total: 11, free: 9, used: 3, out_of_range: 0 };
    assert_eq!((answered(&mut answer), ledger.counts()), (None, counts));
    ledger.persisted();
    assert_eq!(answered(&mut answer), Some(Answer::Adopt));
    ledger.applied(owner("a"), record("a", "10.0.0.11", 102));
    assert_eq!(pending(&ledger), []);
    let Ok(Answer::Refused { message }) = ledger.ask(request("b", 1), Instant::now()) else {
        panic!("two claims would have the address")
    };
    assert_eq!(message, "IPAddress ns/b is there and its address 10.0.0.12 is in use by ns/x");
}

#[tokio::test]
async fn a_pool_that_is_closed_answers_at_once_and_keeps_nobody_waiting() {
    let mut ledger = built("10.0.0.10-10.0.0.20", &[("a", "10.0.0.10")]);
    let mut answer = ask(&mut ledger, request("b", 1));
    let closed = Answer::Unavailable { reason: "Paused", message: "paused".into() };
    ledger.close(Some(("Paused", "paused".into())));
    assert_eq!(answered(&mut answer), Some(closed.clone()));
    assert_eq!(ledger.ask(request("b", 1), Instant::now()).ok(), Some(closed));
    // What is bound stays so.
    assert_eq!(ledger.ask(request("a", 1), Instant::now()).ok(), Some(Answer::Bound));
    assert_eq!((ledger.choose(|_| true), ledger.waiting()), (0, 0));
}

#[tokio::test]
async fn a_batch_is_bounded_and_so_is_what_is_pending() {
    let mut ledger = built("10.0.0.0/8", &[]);
    let answers: Vec<_> =
        (0..PENDING_MAX + 10).map(|n| ask(&mut ledger, request(&format!("c{n}"), 1))).collect();
    let mut total = 0;
    loop {
        let chosen = ledger.choose(|_| true);
        if chosen == 0 {
            break;
        }
        assert!(chosen <= BATCH_MAX);
        ledger.persisted();
        total += chosen;
    }
    assert_eq!(
        (total, ledger.pending(&key()).len(), answers.len()),
        (PENDING_MAX, PENDING_MAX, PENDING_MAX + 10)
    );
}

#[tokio::test]
async fn what_another_process_decided_on_stays_when_a_write_fails() {
    let mut ledger = Ledger::default();
    let elsewhere = PendingAllocation {
        namespace: None,
        name: "a".into(),
        uid: "uid-of-a".into(),
        address: "10.0.0.10".into(),
        prefix: None,
    };
    for ours in [false, true] {
        ledger.begin_rebuild();
        ledger.rebuild(vec![], 100, std::slice::from_ref(&elsewhere), &key(), ours, Instant::now());
        ledger.specify(&spec("10.0.0.10-10.0.0.11"));
        let _answer = ask(&mut ledger, request("b", 1));
        ledger.choose(|_| true);
        assert_eq!(pending(&ledger).len(), 2);
        ledger.unchoose();
        // It may be about to make its IPAddress, so nobody else can have the address.
        assert_eq!(pending(&ledger), [("a".into(), "10.0.0.10".into())]);
    }
}

#[tokio::test]
async fn a_claim_that_was_told_to_wait_is_called_when_its_ip_address_is_found() {
    let mut ledger = built("10.0.0.10-10.0.0.10", &[("x", "10.0.0.10")]);
    assert_eq!(ledger.ask(request("a", 1), Instant::now()).ok(), Some(Answer::Exhausted));
    ledger.applied(owner("a"), record("a", "10.0.0.11", 101));
    assert_eq!((ledger.take_calls(), ledger.waiting()), (vec![owner("a")], 0));
}

#[tokio::test]
async fn a_claim_that_asked_before_its_ip_address_was_listed_is_told_that_it_has_one() {
    let mut ledger = Ledger::default();
    let mut waits = ask(&mut ledger, request("a", 1));
    let mut bound = ask(&mut ledger, request("x", 2));
    ledger.begin_rebuild();
    let listed = vec![(owner("x"), record("x", "10.0.0.10", 50))];
    ledger.rebuild(listed, 100, &[], &key(), true, Instant::now());
    ledger.specify(&spec("10.0.0.10-10.0.0.10"));
    ledger.choose(|_| true);
    assert_eq!((answered(&mut waits), answered(&mut bound)), (Some(Answer::Exhausted), Some(Answer::Bound)));
}

/// What a manager that decided for a claim that is gone meanwhile makes too late.
fn late(name: &str, address: &str) -> Record {
    Record {
        uid: format!("uid-of-late-address-{name}").into(),
        claim_uid: Some("uid-of-a-former-claim".into()),
        ..record(name, address, 101)
    }
}

#[tokio::test]
async fn an_intent_outlives_a_late_ip_address_of_a_former_claim() {
    let mut ledger = built("10.0.0.10-10.0.0.12", &[]);
    let _answer = ask(&mut ledger, request("a", 1));
    decide(&mut ledger);
    ledger.applied(owner("a"), late("a", "10.0.0.12"));
    // Whoever was told may still be about to make the IPAddress, as soon as the other one is gone.
    assert_eq!(pending(&ledger), [("a".into(), "10.0.0.10".into())]);
    let counts = IPAddressCounts { total: 3, free: 1, used: 2, out_of_range: 0 };
    assert_eq!(ledger.counts(), counts);
    let mut other = ask(&mut ledger, request("b", 2));
    decide(&mut ledger);
    assert_eq!(granted(answered(&mut other)).as_deref(), Some("10.0.0.11"));
    ledger.deleted(&owner("a"), "uid-of-late-address-a");
    let again = ledger.ask(Request { published: false, ..request("a", 1) }, Instant::now());
    assert_eq!(granted(again.ok()).as_deref(), Some("10.0.0.10"));
    ledger.applied(owner("a"), record("a", "10.0.0.10", 103));
    assert_eq!(pending(&ledger), [("b".into(), "10.0.0.11".into())]);
}

#[tokio::test]
async fn an_intent_of_somebody_else_outlives_a_late_ip_address_too() {
    let left = PendingAllocation {
        name: "a".into(),
        uid: "uid-of-a".into(),
        address: "10.0.0.10".into(),
        ..PendingAllocation::default()
    };
    let mut ledger = Ledger::default();
    // Once as another process left it, then as this one did.
    for ours in [false, true] {
        ledger.begin_rebuild();
        let listed = vec![(owner("a"), late("a", "10.0.0.12"))];
        ledger.rebuild(listed, 100, std::slice::from_ref(&left), &key(), ours, Instant::now());
        ledger.specify(&spec("10.0.0.10-10.0.0.12"));
        assert_eq!(
            (ledger.has_unwritten(), pending(&ledger)),
            (!ours, vec![("a".into(), "10.0.0.10".into())])
        );
        ledger.persisted();
    }
    let mut other = ask(&mut ledger, request("b", 2));
    decide(&mut ledger);
    assert_eq!(granted(answered(&mut other)).as_deref(), Some("10.0.0.11"));
    ledger.sweep(|_, _| true, |owner, _| *owner != self::owner("a"));
    assert_eq!(ledger.take_abandoned(), [(owner("a"), "uid-of-a".into())]);
    ledger.drop_intent(&owner("a"), "uid-of-a");
    assert_eq!((pending(&ledger).len(), ledger.counts().free), (1, 1));
}

#[tokio::test]
async fn a_late_ip_address_is_taken_over_only_once_that_is_decided_on() {
    let mut ledger = built("10.0.0.10-10.0.0.12", &[]);
    let _answer = ask(&mut ledger, request("a", 1));
    decide(&mut ledger);
    ledger.applied(owner("a"), late("a", "10.0.0.12"));
    let unpublished = Request { published: false, ..request("a", 1) };
    let mut answer = ask(&mut ledger, unpublished);
    assert_eq!(ledger.choose(|_| true), 1);
    let both = [("a".into(), "10.0.0.12".into()), ("a".into(), "10.0.0.10".into())];
    assert_eq!((answered(&mut answer), pending(&ledger)), (None, both.to_vec()));
    ledger.persisted();
    assert_eq!(answered(&mut answer), Some(Answer::Adopt));
    let taken_over = Record { claim_uid: Some("uid-of-a".into()), version: 102, ..late("a", "10.0.0.12") };
    ledger.applied(owner("a"), taken_over);
    // One that is made of the first decision would be another's as long as the claim is not told of this one.
    assert_eq!(pending(&ledger), [("a".into(), "10.0.0.10".into())]);
    ledger.published(&owner("a"));
    let counts = IPAddressCounts { total: 3, free: 2, used: 1, out_of_range: 0 };
    assert_eq!((pending(&ledger), ledger.counts()), (vec![], counts));
}

#[tokio::test]
async fn an_intent_for_a_claim_that_is_gone_is_not_lost_to_the_next_of_its_name() {
    let left = PendingAllocation {
        name: "a".into(),
        uid: "uid-of-a-former-claim".into(),
        address: "10.0.0.10".into(),
        ..PendingAllocation::default()
    };
    let mut ledger = Ledger::default();
    let mut answer = ask(&mut ledger, request("a", 1));
    ledger.begin_rebuild();
    ledger.rebuild(vec![], 100, &[left], &key(), false, Instant::now());
    ledger.specify(&spec("10.0.0.10-10.0.0.12"));
    decide(&mut ledger);
    assert_eq!(answered(&mut answer), Some(Answer::Failed));
    let uids: Vec<_> = ledger.pending(&key()).into_iter().map(|pending| pending.uid).collect();
    assert_eq!(uids, ["uid-of-a-former-claim"]);
    ledger.drop_intent(&owner("a"), "uid-of-a-former-claim");
    let mut answer = ask(&mut ledger, request("a", 1));
    decide(&mut ledger);
    assert_eq!(granted(answered(&mut answer)).as_deref(), Some("10.0.0.10"));
}
