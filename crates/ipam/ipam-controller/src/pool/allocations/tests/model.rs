//! A model of the management API and of claims, in which every request to create an IPAddress may be answered, refused,
//! lost or late, and in which Faults come and go. In any order of events, no two IPAddresses have the same address.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fault::{Faults, Release, Subject, Verdict};

const NAMES: usize = 4;
/// Fewer addresses than names, so that every address is needed again.
const ADDRESSES: &str = "10.0.0.10-10.0.0.12";

#[derive(Debug, Clone)]
enum Step {
    /// A claim of this name is created or reconciled.
    Claim(usize),
    /// The claim is deleted and releases its address.
    Delete(usize),
    /// The status of the pool is written, or that fails.
    Write(bool),
    /// The sender gives up waiting for a request. The request arrives nevertheless.
    GiveUp(usize),
    /// A request arrives. The sender gets the response unless it has given up.
    Arrive(usize),
    /// A webhook refuses a request.
    Refuse(usize),
    /// The watch delivers one more event.
    Watch,
    /// The pool's task looks for leftovers.
    Sweep,
    /// This many seconds pass.
    Pass(u64),
    /// A user creates or changes the Fault of this number.
    Fault(usize),
    /// A user deletes it.
    Heal(usize),
    /// The statuses of all Faults are written.
    Record,
}

const FAULTS: usize = 5;

fn fault(number: usize) -> serde_json::Value {
    let fault = |effect, budget| json!({ "effect": { "addresses": effect }, "budget": budget });
    match number {
        0 => fault(
            json!({ "slow": { "duration": "40s", "jitter": "1" } }),
            json!({ "probability": "0.5" }),
        ),
        1 => fault(json!({ "exhausted": {} }), json!({ "skip": 1, "count": 2 })),
        2 => fault(json!({ "conflict": {} }), json!({ "for": "200s" })),
        3 => fault(json!({ "lateRelease": { "duration": "50s" } }), json!({})),
        _ => fault(
            json!({ "conflict": {} }),
            json!({ "schedule": { "every": "60s", "for": "30s" } }),
        ),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..NAMES;
    prop_oneof![
        8 => which.clone().prop_map(Step::Claim),
        2 => which.clone().prop_map(Step::Delete),
        5 => prop::bool::weighted(0.8).prop_map(Step::Write),
        2 => which.clone().prop_map(Step::GiveUp),
        4 => which.clone().prop_map(Step::Arrive),
        1 => which.prop_map(Step::Refuse),
        4 => Just(Step::Watch),
        1 => Just(Step::Sweep),
        1 => (1..60_u64).prop_map(Step::Pass),
        1 => (0..FAULTS).prop_map(Step::Fault),
        1 => (0..FAULTS).prop_map(Step::Heal),
        4 => Just(Step::Record),
    ]
}

/// A request to create an IPAddress that has not arrived yet.
#[derive(Debug, Clone)]
struct Request {
    name: usize,
    uid: String,
    address: IpAddr,
    until: Instant,
    given_up: bool,
}

enum News {
    Applied(Owner, Record),
    Deleted(Owner, Box<str>),
}

struct World {
    pool: Allocations,
    now: Instant,
    /// The uid of each claim, and whether its status names its IPAddress.
    claims: [Option<(String, bool)>; NAMES],
    faults: Faults,
    /// The time of the wall clock in seconds, and when each claim was created.
    seconds: u64,
    created: [u64; NAMES],
    addresses: BTreeMap<Owner, Record>,
    requests: Vec<Request>,
    news: std::collections::VecDeque<News>,
    count: u64,
}

fn name(index: usize) -> Owner {
    owner(&format!("claim-{index}"))
}

impl World {
    fn new() -> Self {
        Self {
            pool: built(ADDRESSES, &[]),
            now: Instant::now(),
            claims: Default::default(),
            faults: Faults::new("model"),
            seconds: 0,
            created: [0; NAMES],
            addresses: BTreeMap::new(),
            requests: Vec::new(),
            news: std::collections::VecDeque::new(),
            count: 100,
        }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.seconds.try_into().expect("small")).expect("in range")
    }

    fn subject(&self, index: usize, uid: &str) -> Subject {
        Subject {
            owner: name(index),
            uid: uid.into(),
            created: Timestamp::from_second(self.created[index].try_into().expect("small"))
                .expect("in range"),
            has_requested: false,
            cluster: String::new(),
            labels: BTreeMap::new(),
            was_told: false,
        }
    }

    /// Decides as the pool's task does. No claim gets an address that a Fault keeps from all.
    fn choose(&mut self) {
        let mut pool = mem::take(&mut self.pool);
        let faults = &self.faults;
        let now = self.wall();
        let quarantined = faults.quarantined(&key(), now);
        pool.quarantine(&quarantined);
        let before: Vec<_> = pool.decisions().map(|(_, decision)| decision.block).collect();
        let subject = |request: &super::Request| {
            let index = (0..NAMES)
                .find(|index| name(*index) == request.owner)
                .expect("a name of the model");
            self.subject(index, &request.uid)
        };
        let wants =
            |request: &super::Request| self.claims.iter().flatten().any(|(uid, _)| **uid == *request.uid);
        let lets_pass =
            |request: &super::Request, next| faults.lets_pass(&subject(request), &key(), next, now);
        pool.choose(BATCH_MAX, wants, Some(&lets_pass));
        let chosen = pool.decisions().map(|(_, decision)| decision.block);
        let kept: Vec<_> = chosen
            .filter(|block| !before.contains(block) && quarantined.contains(block))
            .collect();
        assert!(kept.is_empty(), "{kept:?} are in conflict");
        self.pool = pool;
    }

    /// The status of the pool is written with what was decided.
    fn write(&mut self) {
        self.choose();
        self.pool.persisted();
        // The reconcile of a claim that was woken may come at any later time.
        self.pool.take_woken();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Claim(index) => self.claim(*index),
            Step::Delete(index) => self.delete(*index),
            Step::Write(true) => self.write(),
            Step::Write(false) => {
                self.choose();
                self.pool.unchoose();
            }
            Step::Fault(number) => {
                let now = self.wall();
                self.faults.put("ns", &number.to_string(), fault(*number), now);
            }
            Step::Heal(number) => self.faults.take_away("ns", &number.to_string()),
            Step::Record => {
                let now = self.wall();
                self.faults.record(now);
            }
            Step::GiveUp(index) => {
                if let Some(request) = self.requests.get_mut(*index) {
                    request.given_up = true;
                }
            }
            Step::Arrive(index) if *index < self.requests.len() => self.arrive(*index),
            Step::Refuse(index) if *index < self.requests.len() => {
                let request = self.requests.remove(*index);
                if !request.given_up {
                    self.pool
                        .answered(&name(request.name), &request.uid, request.until);
                    self.pool.drop_decision(&name(request.name), &request.uid);
                }
            }
            Step::Arrive(_) | Step::Refuse(_) => {}
            Step::Watch => self.watch(),
            Step::Sweep => self.sweep(),
            Step::Pass(seconds) => {
                self.now += Duration::from_secs(*seconds);
                self.seconds += seconds;
                // The API server ends requests after their time limit.
                self.requests.retain(|request| request.until > self.now);
                self.pool.expire(self.now);
            }
        }
    }

    fn claim(&mut self, index: usize) {
        if self.claims[index].is_none() {
            self.claims[index] = Some((format!("uid-{}", self.next()), false));
            self.created[index] = self.seconds;
        }
        let (uid, published) = self.claims[index].clone().expect("created above");
        if self
            .requests
            .iter()
            .any(|request| request.uid == uid && !request.given_up)
        {
            // The reconcile of the claim waits for the response.
            return;
        }
        let request = super::Request {
            owner: name(index),
            uid: uid.as_str().into(),
            created: Timestamp::UNIX_EPOCH,
            wanted: None,
            published,
        };
        if !published && self.pool.is_undecided(&request) {
            let next = self.pool.next(&request);
            let now = self.wall();
            let verdict = self.faults.ask(&self.subject(index, &uid), &key(), next, now);
            self.pool.quarantine(&self.faults.quarantined(&key(), now));
            if verdict != Verdict::Passes {
                self.pool.withdraw(&name(index));
                return;
            }
        }
        match self.pool.ask(request, self.now) {
            Answer::Granted { grant, .. } => {
                let until = self.pool.sending(&name(index), &uid, self.now);
                let address = grant.address;
                self.requests.push(Request {
                    name: index,
                    uid,
                    address,
                    until,
                    given_up: false,
                });
            }
            Answer::Bound => self.publish(index),
            Answer::TakeOver => {
                let version = self.next();
                let Some(record) = self.addresses.get_mut(&name(index)) else {
                    return;
                };
                record.claim_uid = Some(uid.as_str().into());
                record.version = version;
                let record = record.clone();
                self.news.push_back(News::Applied(name(index), record.clone()));
                self.pool.applied(&name(index), record);
                self.publish(index);
            }
            Answer::Queued
            | Answer::Exhausted
            | Answer::Refused { .. }
            | Answer::Held(_)
            | Answer::Unrecorded
            | Answer::Unavailable { .. } => {}
        }
    }

    fn publish(&mut self, index: usize) {
        if let Some((_, published)) = &mut self.claims[index] {
            *published = true;
            self.pool.published(&name(index));
        }
    }

    fn arrive(&mut self, index: usize) {
        let Request {
            name: claim,
            uid,
            address,
            until,
            given_up,
        } = self.requests.remove(index);
        let owner = name(claim);
        let existing = self.addresses.get(&owner).cloned();
        let created = existing.is_none().then(|| {
            let version = self.next();
            let record = Record {
                uid: format!("uid-of-address-{version}").into(),
                version,
                claim_uid: Some(uid.as_str().into()),
                ..record("x", &address.to_string(), version)
            };
            self.addresses.insert(owner.clone(), record.clone());
            self.news.push_back(News::Applied(owner.clone(), record.clone()));
            record
        });
        if given_up {
            return;
        }
        self.pool.answered(&owner, &uid, until);
        match (created, existing) {
            (Some(record), _) => self.pool.created(&owner, record),
            (None, Some(record)) => self.pool.applied(&owner, record),
            (None, None) => {}
        }
        if self.claims[claim]
            .as_ref()
            .is_none_or(|(current, _)| *current != uid)
        {
            // The claim is gone, so the write of its status fails.
            self.pool.suspect(&owner);
        }
    }

    fn delete(&mut self, index: usize) {
        let Some((uid, _)) = self.claims[index].clone() else {
            return;
        };
        if self
            .requests
            .iter()
            .any(|request| request.uid == uid && !request.given_up)
        {
            return;
        }
        self.pool.withdraw(&name(index));
        if self.pool.allocation(&name(index), &uid) == Allocation::BeingWritten {
            return;
        }
        let its_own = self
            .addresses
            .get(&name(index))
            .filter(|record| record.claim_uid.as_deref() == Some(&*uid));
        if let Some(record) = its_own.cloned() {
            let now = self.wall();
            match self
                .faults
                .release(&self.subject(index, &uid), &key(), record.block, now, now)
            {
                Release::Now => {}
                Release::Unrecorded => return,
                Release::At(_) => {
                    let version = self.next();
                    let held = Record {
                        version,
                        claim_uid: None,
                        deleted_at: Some(now),
                        ..record
                    };
                    self.addresses.insert(name(index), held.clone());
                    self.news.push_back(News::Applied(name(index), held.clone()));
                    self.pool.applied(&name(index), held);
                }
            }
        }
        self.delete_address(&name(index), Some(&uid));
        self.pool.drop_decision(&name(index), &uid);
        self.claims[index] = None;
    }

    /// Deletes an IPAddress; if there is a uid, only the IPAddress of the claim with this uid.
    fn delete_address(&mut self, owner: &Owner, claim_uid: Option<&str>) {
        let Some(record) = self.addresses.get(owner) else {
            return;
        };
        if claim_uid.is_some() && record.claim_uid.as_deref() != claim_uid {
            return;
        }
        let uid = record.uid.clone();
        self.addresses.remove(owner);
        self.news.push_back(News::Deleted(owner.clone(), uid.clone()));
        self.pool.released(owner, &uid);
    }

    fn watch(&mut self) {
        match self.news.pop_front() {
            Some(News::Applied(owner, record)) => self.pool.applied(&owner, record),
            Some(News::Deleted(owner, uid)) => self.pool.deleted(&owner, &uid),
            None => {}
        }
    }

    fn sweep(&mut self) {
        let uids: Vec<String> = self.claims.iter().flatten().map(|(uid, _)| uid.clone()).collect();
        let is_here = |_: &Owner, uid: &str| uids.iter().any(|known| known == uid);
        self.pool.sweep(is_here, is_here);
        for (owner, uid) in self.pool.take_abandoned(64) {
            let its_own = self
                .addresses
                .get(&owner)
                .filter(|record| record.claim_uid.as_deref() == Some(&uid));
            match its_own.cloned() {
                Some(record) => self.pool.applied(&owner, record),
                None if is_here(&owner, &uid) => {}
                None => self.pool.drop_decision(&owner, &uid),
            }
            self.pool.forget_expired(&owner, &uid);
        }
        let late = self.faults.late(&key(), self.wall());
        let now = self.wall();
        let held: Vec<Owner> = self.pool.held().map(|(_, owner)| owner.clone()).collect();
        for owner in held
            .into_iter()
            .filter(|owner| late.get(owner).is_none_or(|(_, until)| *until <= now))
        {
            self.delete_address(&owner, None);
        }
        for owner in self.pool.take_suspects(64) {
            let Some(record) = self.pool.record(&owner).cloned() else {
                continue;
            };
            let has_claim = (0..NAMES).any(|index| name(index) == owner && self.claims[index].is_some());
            let claimed = record
                .claim_uid
                .as_deref()
                .is_some_and(|uid| is_here(&owner, uid));
            let orphan = !claimed && (!has_claim || self.pool.is_unpublished(&owner, &record.uid));
            self.pool.set_orphan(&owner, &record.uid, orphan);
            if orphan {
                self.delete_address(&owner, record.claim_uid.as_deref());
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        self.pool.check();
        let mut holders = BTreeMap::new();
        for (owner, record) in &self.addresses {
            let other = holders.insert(record.block, owner);
            prop_assert!(other.is_none(), "{:?} is {owner}'s and {other:?}'s", record.block);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_address_is_given_twice_however_late_a_request_arrives(steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check()?;
        }
        // All pending requests arrive. After that no address stays reserved for a request that cannot arrive any more.
        while !world.requests.is_empty() {
            world.step(&Step::Arrive(0));
            world.check()?;
        }
        for step in [Step::Write(true), Step::Sweep, Step::Pass(LATE_MAX.as_secs()), Step::Sweep, Step::Sweep] {
            while !world.news.is_empty() {
                world.watch();
            }
            world.step(&step);
            world.check()?;
        }
        // When all Faults are gone, a claim waits only if no address is free.
        for number in 0..FAULTS {
            world.step(&Step::Heal(number));
        }
        world.step(&Step::Sweep);
        for _ in 0..2 {
            for index in (0..NAMES).filter(|index| world.claims[*index].is_some()).collect::<Vec<_>>() {
                world.claim(index);
            }
            world.step(&Step::Write(true));
            while !world.requests.is_empty() {
                world.step(&Step::Arrive(0));
            }
            world.check()?;
        }
        prop_assert!(world.pool.waiting() == 0 || world.pool.counts().free == 0, "{:?}", world.pool.counts());
        let here = |owner: &Owner| (0..NAMES).any(|index| name(index) == *owner && world.claims[index].is_some());
        let reserved: Vec<_> = world.pool.decisions().filter(|(owner, _)| !here(owner)).collect();
        prop_assert!(reserved.is_empty(), "{reserved:?}");
    }
}
