//! All Faults of addresses, and what each has decided about claims. Plain data without a client, a clock or a lock.
//!
//! ```text
//!  ask ──▶ each Fault of the namespace, in order of their names
//!            │ decided before: spared, hit, or hit and over
//!            ▼ not decided: matches? ▶ active? ▶ skipped enough? ▶ draw
//!          hit ──▶ Unrecorded ──the status of the Fault lists it──▶ Held ──until──▶ the next Fault
//!          spared ─────────────────────────────────────────────────────────────▶ the next Fault ──▶ Passes
//! ```
//!
//! A claim notices a hit only after the status of the Fault lists it, so that the next process decides the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nephele_api::cloud::v1alpha1::{AFFECTED_MAX, FaultHit};
use nephele_engine::Seed;
use nephele_fault::Progress;
use nephele_ipam::Owner;
use nephele_model::{Decided, Decisions, Earlier, FaultId, FaultRecord, LastHits, SimTime, Turn};

use super::{
    spec::{AddressFault, Effect},
    subject::Subject,
};
use crate::pool::{Block, PoolKey};

/// How long a claim waits that has met a conflict, before it gets another address.
pub(super) const CONFLICT_LASTS: Duration = Duration::from_secs(5);

/// What Faults say to a claim that wants an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passes,
    /// It is hit, and waits until the status of the Fault says so.
    Unrecorded,
    Held(Hold),
}

/// Why a Fault holds a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) fault: String,
    pub(crate) why: Why,
    /// None if it ends with the Fault.
    pub(crate) until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Slow,
    Exhausted,
    Conflict(Block),
}

/// What Faults say to a claim that gives its address back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Now,
    /// It is hit, and waits until the status of the Fault says so.
    Unrecorded,
    /// The address is free at this time, or when the Fault is gone.
    At(Timestamp),
}

/// The name and the uid of a claim in the namespace of the Fault.
pub(super) type ClaimKey = (String, Box<str>);

/// A claim that a Fault has hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) pool: PoolKey,
    /// The address that no claim gets.
    pub(super) block: Option<Block>,
    pub(super) until: Option<Timestamp>,
    /// Whether the status of the Fault lists it.
    pub(super) recorded: bool,
}

/// What the status of a Fault says that it has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    pub(super) began: Option<Timestamp>,
    pub(super) matched: u64,
    pub(super) hits: u64,
    pub(super) windows: u64,
    pub(super) claims: BTreeMap<ClaimKey, Hit>,
}

/// A Fault, as its object describes it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) fault: AddressFault,
    /// A paused Fault keeps what it has hit, and decides about nothing new.
    pub(super) paused: bool,
}

/// What is known of a claim that a Fault has decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Gone,
    Waiting,
    Bound,
}

/// Every Fault. Bounded by the Faults and the claims that exist.
#[derive(Debug)]
pub(super) struct AddressFaults {
    seed: Seed,
    faults: BTreeMap<FaultId, State>,
    /// The Faults that keep addresses of a pool: those of [`Effect::keeps_addresses`] with a hit there.
    keeping: BTreeMap<PoolKey, BTreeSet<FaultId>>,
    /// Faults whose status has to change.
    changed: BTreeSet<FaultId>,
    /// How many Faults the questions of claims and pools have looked at.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

#[derive(Debug)]
struct State {
    fault: AddressFault,
    decisions: Decisions<ClaimKey>,
    hits: BTreeMap<ClaimKey, Hit>,
    last_hits: LastHits<FaultHit>,
    /// Whether an earlier process may have hit more claims than the status lists.
    is_cut: bool,
    /// When this process got it.
    since: Timestamp,
}

/// What the status of a Fault has to say.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub(super) progress: Progress,
    pub(super) hits: BTreeMap<ClaimKey, Hit>,
    /// When something changes by itself.
    pub(super) next: Option<Timestamp>,
}

pub(super) fn sim(time: Timestamp) -> SimTime {
    SimTime::from_millis(u64::try_from(time.as_millisecond()).unwrap_or_default())
}

fn wall(time: SimTime) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(time.as_millis()).ok()?).ok()
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn key(subject: &Subject) -> ClaimKey {
    (subject.owner.name().to_owned(), subject.uid.clone())
}

impl AddressFaults {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            seed,
            faults: BTreeMap::new(),
            keeping: BTreeMap::new(),
            changed: BTreeSet::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// A Fault exists, or its spec has changed. `history` is for one that this process does not know. Returns whether
    /// claims and pools may have new answers.
    pub(super) fn put(
        &mut self,
        id: &FaultId,
        described: Described,
        history: History,
        now: Timestamp,
    ) -> bool {
        let before = self.pools_of(id);
        let is_news = self.put_state(id, described, history, now);
        self.keep(id, before);
        is_news
    }

    fn put_state(&mut self, id: &FaultId, described: Described, history: History, now: Timestamp) -> bool {
        let Described { fault, paused } = described;
        match self.faults.get_mut(id) {
            None => {
                let mut state = State::new(fault, history, now);
                state.decisions.paused = paused;
                self.faults.insert(id.clone(), state);
                true
            }
            Some(state) => {
                let was_paused = mem::replace(&mut state.decisions.paused, paused);
                let before = mem::replace(&mut state.fault, fault);
                if before.effect != state.fault.effect {
                    state.hits.clear();
                }
                // It decides again about claims that still wait. Machines are decided about only once.
                if before != state.fault {
                    state.decisions.forget_all();
                }
                before != state.fault || was_paused != paused
            }
        }
    }

    /// A Fault is gone, or is one of addresses no more. Returns whether it was known.
    pub(super) fn remove(&mut self, id: &FaultId) -> bool {
        self.changed.remove(id);
        let before = self.pools_of(id);
        let is_known = self.faults.remove(id).is_some();
        self.keep(id, before);
        is_known
    }

    /// The pools of which a Fault keeps addresses.
    fn pools_of(&self, id: &FaultId) -> BTreeSet<PoolKey> {
        let state = self
            .faults
            .get(id)
            .filter(|state| state.fault.effect.keeps_addresses());
        state
            .into_iter()
            .flat_map(|state| state.hits.values().map(|hit| hit.pool.clone()))
            .collect()
    }

    /// Notes of which pools a Fault keeps addresses now. It kept some of these before. It has 100 hits at most.
    fn keep(&mut self, id: &FaultId, before: BTreeSet<PoolKey>) {
        let after = self.pools_of(id);
        for pool in before.into_iter().filter(|pool| !after.contains(pool)) {
            if let Some(faults) = self.keeping.get_mut(&pool) {
                faults.remove(id);
                if faults.is_empty() {
                    self.keeping.remove(&pool);
                }
            }
        }
        for pool in after {
            self.keeping.entry(pool).or_default().insert(id.clone());
        }
    }

    /// Every Fault that is known.
    pub(super) fn ids(&self) -> Vec<FaultId> {
        self.faults.keys().cloned().collect()
    }

    /// Time has passed for a Fault: begins a window, ends one, and forgets hits that are over and claims that are gone.
    /// Returns whether claims and pools may have new answers.
    pub(super) fn tick(
        &mut self,
        id: &FaultId,
        now: Timestamp,
        presence: impl Fn(&Owner, &str) -> Presence,
    ) -> bool {
        let before = self.pools_of(id);
        let has_changed = self.tick_state(id, now, presence);
        self.keep(id, before);
        has_changed
    }

    fn tick_state(
        &mut self,
        id: &FaultId,
        now: Timestamp,
        presence: impl Fn(&Owner, &str) -> Presence,
    ) -> bool {
        let Some(state) = self.faults.get_mut(id) else {
            return false;
        };
        let mut has_changed = state.turn(now);
        let effect = state.fault.effect;
        let owner = |name: &str| Owner::new(&id.namespace, name);
        let before = state.hits.len();
        state.hits.retain(|(name, uid), hit| match effect {
            Effect::Slow { .. } | Effect::Exhausted => {
                hit.until.is_none_or(|until| until > now) && presence(&owner(name), uid) == Presence::Waiting
            }
            // The address stays with the Fault, whatever becomes of the claim.
            Effect::Conflict => true,
            Effect::LateRelease(_) => hit.until.is_none_or(|until| until > now),
        });
        state
            .decisions
            .retain(|(name, uid)| match presence(&owner(name), uid) {
                Presence::Waiting => true,
                Presence::Bound => matches!(effect, Effect::LateRelease(_)),
                Presence::Gone => false,
            });
        has_changed |= state.hits.len() != before;
        has_changed
    }

    /// Decides about a claim that wants an address. `next` is the address that it would get now.
    pub(super) fn ask(
        &mut self,
        subject: &Subject,
        pool: &PoolKey,
        next: Option<Block>,
        now: Timestamp,
    ) -> Verdict {
        let Self {
            seed,
            faults,
            keeping,
            changed,
            ..
        } = self;
        for (id, state) in of_namespace(faults, subject.owner.namespace()) {
            match state.answer(id, subject, pool, next, seed, now) {
                Answer::NextFault => {}
                Answer::Verdict(verdict) => return verdict,
                Answer::Undecided { until, block } => {
                    changed.insert(id.clone());
                    let hit = Hit {
                        pool: pool.clone(),
                        block,
                        until,
                        recorded: false,
                    };
                    if state.decide(id, subject, hit, seed, now) {
                        if state.fault.effect.keeps_addresses() {
                            keeping.entry(pool.clone()).or_default().insert(id.clone());
                        }
                        return Verdict::Unrecorded;
                    }
                }
            }
        }
        Verdict::Passes
    }

    /// Whether a claim can get this address now. If not, it has to ask.
    pub(super) fn lets_pass(&self, subject: &Subject, pool: &PoolKey, next: Block, now: Timestamp) -> bool {
        let namespace = subject.owner.namespace();
        let faults = self.faults.range(first_of(namespace)..);
        let mut faults = faults.take_while(|(id, _)| id.namespace == namespace);
        faults.all(|(id, state)| {
            self.look_at_one();
            matches!(
                state.answer(id, subject, pool, Some(next), &self.seed, now),
                Answer::NextFault
            )
        })
    }

    /// Decides about a claim that gives its address back.
    pub(super) fn release(
        &mut self,
        subject: &Subject,
        pool: &PoolKey,
        block: Option<Block>,
        released_at: Timestamp,
        now: Timestamp,
    ) -> Release {
        let Self {
            seed,
            faults,
            keeping,
            changed,
            ..
        } = self;
        for (id, state) in of_namespace(faults, subject.owner.namespace()) {
            let Effect::LateRelease(duration) = state.fault.effect else {
                continue;
            };
            if !state.is_in_force(now) || !state.fits(subject, pool) {
                continue;
            }
            if let Some(hit) = state.hits.get(&key(subject)) {
                match hit.until.filter(|until| *until > now) {
                    Some(_) if !hit.recorded => return Release::Unrecorded,
                    Some(until) => return Release::At(until),
                    None => continue,
                }
            }
            let until = later(released_at, duration);
            if until <= now || !state.can_decide(subject, now) {
                continue;
            }
            changed.insert(id.clone());
            let hit = Hit {
                pool: pool.clone(),
                block,
                until: Some(until),
                recorded: false,
            };
            if state.decide(id, subject, hit, seed, now) {
                keeping.entry(pool.clone()).or_default().insert(id.clone());
                return Release::Unrecorded;
            }
        }
        Release::Now
    }

    /// Until when addresses of a pool are held back after their claims, by the names of the claims.
    pub(super) fn late(&self, pool: &PoolKey, now: Timestamp) -> BTreeMap<Owner, (Option<Block>, Timestamp)> {
        let late = |state: &&State| matches!(state.fault.effect, Effect::LateRelease(_));
        let held = self.hits_of(pool, now, late);
        held.filter_map(|(owner, hit)| Some((owner, (hit.block, hit.until?))))
            .collect()
    }

    /// The addresses of a pool that no claim gets.
    pub(super) fn quarantined(&self, pool: &PoolKey, now: Timestamp) -> BTreeSet<Block> {
        let in_conflict = |state: &&State| state.fault.effect == Effect::Conflict;
        self.hits_of(pool, now, in_conflict)
            .filter_map(|(_, hit)| hit.block)
            .collect()
    }

    fn hits_of<'a>(
        &'a self,
        pool: &'a PoolKey,
        now: Timestamp,
        wanted: impl Fn(&&State) -> bool + 'a,
    ) -> impl Iterator<Item = (Owner, &'a Hit)> {
        let faults = self.keeping.get(pool).into_iter().flatten();
        let faults = faults.filter_map(move |id| {
            self.look_at_one();
            self.faults
                .get_key_value(id)
                .filter(|(_, state)| wanted(state) && state.is_in_force(now))
        });
        let hits = faults.flat_map(|(FaultId { namespace, .. }, state)| {
            state
                .hits
                .iter()
                .map(move |((name, _), hit)| (Owner::new(namespace, name), hit))
        });
        hits.filter(move |(_, hit)| hit.pool == *pool)
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests count"))]
    fn look_at_one(&self) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
    }

    /// A claim has its address, or is gone.
    pub(super) fn left(&mut self, owner: &Owner, uid: &str) {
        let Self { faults, changed, .. } = self;
        for (id, state) in of_namespace(faults, owner.namespace()) {
            if matches!(state.fault.effect, Effect::LateRelease(_) | Effect::Conflict) {
                continue;
            }
            let key = (owner.name().to_owned(), uid.into());
            state.decisions.forget(&key);
            if state.hits.remove(&key).is_some() {
                changed.insert(id.clone());
            }
        }
    }

    /// A Fault whose status has to change.
    pub(super) fn take_changed(&mut self) -> Option<FaultId> {
        self.changed.pop_first()
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(super) fn observe(&self, id: &FaultId, now: Timestamp) -> Option<Observation> {
        let state = self.faults.get(id)?;
        let State {
            fault: AddressFault { budget, .. },
            decisions,
            hits,
            last_hits,
            ..
        } = state;
        let record = &decisions.record;
        let progress = Progress {
            phase: budget.phase(record, sim(now)),
            began: wall(record.began)?,
            matched: record.matched,
            hits: record.hits,
            windows: record.windows,
            last_hits: last_hits.newest_first().cloned().collect(),
        };
        let change = budget.next_change(record, sim(now)).and_then(wall);
        let ends = hits.values().filter_map(|hit| hit.until);
        let next = ends.chain(change).filter(|at| *at > now).min();
        Some(Observation {
            progress,
            hits: hits.clone(),
            next,
        })
    }

    /// The status of a Fault lists these claims. Returns those for which that is new.
    pub(super) fn recorded(&mut self, id: &FaultId, listed: &BTreeMap<ClaimKey, Hit>) -> Vec<Owner> {
        let Some(state) = self.faults.get_mut(id) else {
            return Vec::new();
        };
        let is_new = |(key, hit): &(&ClaimKey, &mut Hit)| !hit.recorded && listed.contains_key(*key);
        let recorded = state.hits.iter_mut().filter(is_new).map(|((name, _), hit)| {
            hit.recorded = true;
            Owner::new(&id.namespace, name)
        });
        recorded.collect()
    }
}

fn of_namespace<'a>(
    faults: &'a mut BTreeMap<FaultId, State>,
    namespace: &str,
) -> impl Iterator<Item = (&'a FaultId, &'a mut State)> {
    let namespace = namespace.to_owned();
    faults
        .range_mut(first_of(&namespace)..)
        .take_while(move |(id, _)| id.namespace == namespace)
}

/// Where the Faults of a namespace begin.
fn first_of(namespace: &str) -> FaultId {
    FaultId {
        namespace: namespace.to_owned(),
        name: String::new(),
    }
}

/// What one Fault says to a claim that wants an address.
enum Answer {
    /// It does not hold the claim.
    NextFault,
    Verdict(Verdict),
    /// It has to decide. If it hits the claim, the hit ends at this time and concerns this address.
    Undecided {
        until: Option<Timestamp>,
        block: Option<Block>,
    },
}

impl State {
    /// A Fault that has done what its status says.
    fn new(fault: AddressFault, history: History, now: Timestamp) -> Self {
        let History {
            began,
            matched,
            hits,
            windows,
            claims,
        } = history;
        let record = FaultRecord {
            began: sim(began.unwrap_or(now)),
            matched,
            hits,
            windows,
        };
        Self {
            fault,
            // No status lists the claims that passed because of the number to skip.
            decisions: Decisions::new(record, BTreeSet::new()),
            is_cut: claims.len() >= AFFECTED_MAX,
            hits: claims,
            last_hits: LastHits::default(),
            since: now,
        }
    }

    fn is_in_force(&self, now: Timestamp) -> bool {
        self.decisions.is_in_force(&self.fault.budget, sim(now))
    }

    /// Lets time pass, and forgets what a window that is over has hit. Returns whether claims may have new answers.
    fn turn(&mut self, now: Timestamp) -> bool {
        let turn = self.decisions.turn(&self.fault.budget, sim(now));
        if turn == Turn::Continues {
            return false;
        }
        let had_hits = !self.hits.is_empty();
        self.hits.clear();
        turn == Turn::Begins || had_hits
    }

    fn fits(&self, subject: &Subject, pool: &PoolKey) -> bool {
        let AddressFault { pools, clusters, .. } = &self.fault;
        (pools.is_empty() || pools.contains(&pool.name)) && clusters.fits(&subject.labels)
    }

    fn answer(
        &self,
        id: &FaultId,
        subject: &Subject,
        pool: &PoolKey,
        next: Option<Block>,
        seed: &Seed,
        now: Timestamp,
    ) -> Answer {
        let is_late = matches!(self.fault.effect, Effect::LateRelease(_));
        if is_late || !self.is_in_force(now) || !self.fits(subject, pool) {
            return Answer::NextFault;
        }
        if let Some(hit) = self.hits.get(&key(subject)) {
            let is_over = hit.until.is_some_and(|until| until <= now);
            return match (is_over, hit.recorded) {
                (true, _) => Answer::NextFault,
                (false, false) => Answer::Verdict(Verdict::Unrecorded),
                (false, true) => self.hold(id, hit).map_or(Answer::NextFault, Answer::Verdict),
            };
        }
        if !self.can_decide(subject, now) {
            return Answer::NextFault;
        }
        match self.fault.effect {
            Effect::Slow { base, jitter } => {
                let FaultId { namespace, name } = id;
                let drawn = seed.fraction(&["address-delay", namespace, name, subject.owner.name()], 0);
                let until = later(subject.created, base.saturating_add(base.mul_f64(jitter * drawn)));
                // An older claim is not hit.
                if until <= now {
                    return Answer::NextFault;
                }
                Answer::Undecided {
                    until: Some(until),
                    block: None,
                }
            }
            Effect::Exhausted => Answer::Undecided {
                until: None,
                block: None,
            },
            Effect::Conflict => match next {
                None => Answer::NextFault,
                // No other address would do.
                Some(_) if subject.has_requested => Answer::Undecided {
                    until: None,
                    block: next,
                },
                Some(_) => Answer::Undecided {
                    until: Some(later(now, CONFLICT_LASTS)),
                    block: next,
                },
            },
            Effect::LateRelease(_) => Answer::NextFault,
        }
    }

    fn hold(&self, FaultId { name, .. }: &FaultId, hit: &Hit) -> Option<Verdict> {
        let why = match self.fault.effect {
            Effect::Slow { .. } => Why::Slow,
            Effect::Exhausted => Why::Exhausted,
            Effect::Conflict => Why::Conflict(hit.block?),
            Effect::LateRelease(_) => return None,
        };
        Some(Verdict::Held(Hold {
            fault: name.clone(),
            why,
            until: hit.until,
        }))
    }

    /// Whether it may hit a claim about which it has not decided yet.
    fn can_decide(&self, subject: &Subject, now: Timestamp) -> bool {
        let Self {
            fault: AddressFault { budget, .. },
            decisions,
            ..
        } = self;
        // The list in the status has to be complete: without it, the addresses would be free after a restart.
        let is_full = self.fault.effect.keeps_addresses() && self.hits.len() >= AFFECTED_MAX;
        !is_full && decisions.is_undecided(budget, &key(subject), sim(now), self.earlier(subject))
    }

    /// What an earlier process has decided about a claim.
    fn earlier(&self, subject: &Subject) -> Earlier {
        if !subject.was_told || subject.created > self.since {
            return Earlier::Nothing;
        }
        // A claim may have been told something before the Fault was about it. So other than with machines, not every claim that
        // is not listed was spared, and the draw is made again even where the list is complete. While the Fault is paused, such
        // a claim may have come after the pause. And the draw alone does not tell where the first claims are skipped, because
        // no status lists these.
        let is_drawn = self.fault.budget.skip == 0 && (self.is_cut || !self.decisions.paused);
        if is_drawn { Earlier::Drawn } else { Earlier::Listed }
    }

    /// Decides about a claim. Returns whether it hits it.
    fn decide(
        &mut self,
        FaultId { namespace, name }: &FaultId,
        subject: &Subject,
        hit: Hit,
        seed: &Seed,
        now: Timestamp,
    ) -> bool {
        let earlier = self.earlier(subject);
        let budget = &self.fault.budget;
        let draw = |window| {
            let drawn = seed.fraction(&["address", namespace, name, subject.owner.name()], window);
            drawn < budget.probability.probability()
        };
        match self
            .decisions
            .decide(budget, &key(subject), sim(now), earlier, draw)
        {
            Decided::PassedOver => return false,
            Decided::Hit => self.last_hits.push(FaultHit {
                time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
                cluster: subject.cluster.clone(),
                claim: subject.owner.name().to_owned(),
                ..FaultHit::default()
            }),
            Decided::HitBefore => {}
        }
        self.hits.insert(key(subject), hit);
        true
    }
}

#[cfg(test)]
mod tests;
