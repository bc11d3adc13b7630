//! Rebuilds the allocations: from a list of IPAddresses and the pending decisions, and when the spec of the pool
//! changes.

use std::{collections::BTreeMap, mem};

use jiff::Timestamp;
use nephele_api::ipam::v1alpha2::{PENDING_MAX, PendingAllocation};
use nephele_ipam::Owner;
use tokio::time::Instant;

use super::{
    Allocations, LATE_MAX, Meanwhile,
    entry::{ClaimState, Decision, Entry, Queued, Request},
    index::Index,
};
use crate::{
    address::Record,
    pool::{
        PoolKey,
        kinds::PoolSpec,
        ranges::{Block, PoolRanges},
    },
};

/// While there are this many decisions, those of another process that have become IPAddresses are forgotten rather than
/// kept until none of its requests can take effect any more: new claims need half of the room in the pool's status.
const GIVEN_UP_MAX: usize = PENDING_MAX / 2;

/// State that is kept over a rebuild.
#[derive(Default)]
struct Before {
    built: bool,
    decisions: BTreeMap<Owner, Vec<Decision>>,
    /// Uids of IPAddresses that this process created and that their claims' status does not name yet.
    unpublished: Vec<(Owner, Box<str>)>,
}

impl Before {
    fn take(&mut self, owner: &Owner, uid: &str, block: Block) -> Option<Decision> {
        let decisions = self.decisions.get_mut(owner)?;
        let index = decisions.iter().position(|decision| decision.is(uid, block))?;
        Some(decisions.swap_remove(index))
    }
}

impl Allocations {
    /// Starts to collect the IPAddresses that the watch shows while a list is read.
    pub(crate) fn begin_rebuild(&mut self) {
        self.meanwhile = Some(Meanwhile::default());
        self.stale = false;
    }

    /// Ends a rebuild whose list failed.
    pub(crate) fn abandon_rebuild(&mut self) {
        self.meanwhile = None;
        self.stale = true;
    }

    /// Starts again from a list of the pool's IPAddresses and the pending decisions in the pool's status. Decisions
    /// that are in neither are undone. A claim gets the address of another process's decision only after this process
    /// has written the pool itself. `ours` is whether this process was the last to write it.
    pub(crate) fn rebuild(
        &mut self,
        listed: Vec<(Owner, Record)>,
        version: u64,
        pending: &[PendingAllocation],
        pool: &PoolKey,
        ours: bool,
        now: Instant,
    ) {
        let Meanwhile { shown, gone } = self.meanwhile.take().unwrap_or_default();
        let mut before = self.forget();
        self.floor = version;
        for (owner, record) in listed {
            if !self.gone.contains(&record.uid) && !gone.contains(&record.uid) {
                self.insert(&owner, record);
            }
        }
        for (owner, record) in shown {
            self.applied(&owner, record);
        }
        for pending in pending {
            let namespace = pending.namespace.as_deref().unwrap_or(&pool.namespace);
            let owner = Owner::new(namespace, &pending.name);
            let Some(block) = Block::read(pool.kind, &pending.address, pending.prefix) else {
                continue;
            };
            let known = before.take(&owner, &pending.uid, block);
            // For decisions that this process wrote itself, its memory is newer than the status.
            let open =
                !(ours && before.built) || known.as_ref().is_some_and(|known| known.written || known.foreign);
            if open {
                let decision =
                    known.unwrap_or_else(|| listed_decision(&owner, &pending.uid, block, ours, now));
                self.restore(&owner, decision, ours);
            }
        }
        for (owner, uid) in before.unpublished {
            self.set_unpublished(&owner, &uid);
        }
        self.built = true;
    }

    /// Forgets everything except the claims that wait. Claims with a decision wait again, at their position.
    fn forget(&mut self) -> Before {
        let mut before = Before {
            built: self.built,
            ..Before::default()
        };
        let entries = mem::take(&mut self.entries);
        self.index = Index::default();
        self.contested.clear();
        self.ranges = None;
        for (
            owner,
            Entry {
                address, claim, late, ..
            },
        ) in entries
        {
            if let Some(address) = address.filter(|address| address.unpublished) {
                before.unpublished.push((owner.clone(), address.record.uid));
            }
            let mut decisions = late;
            let queued = match claim {
                ClaimState::Decided(decision) => {
                    let request = decision.request.clone();
                    let queued = Queued {
                        request,
                        first_asked: decision.first_asked,
                    };
                    decisions.push(*decision);
                    Some(queued)
                }
                state => state.into_queued(),
            };
            if let Some(queued) = queued {
                self.change(&owner, |entry| entry.claim = ClaimState::waiting(queued));
            }
            if !decisions.is_empty() {
                before.decisions.insert(owner, decisions);
            }
        }
        before
    }

    /// Restores a decision that the status of the pool names.
    fn restore(&mut self, owner: &Owner, mut decision: Decision, ours: bool) {
        decision.foreign |= !ours;
        decision.written = ours;
        decision.takes_over = false;
        let has_room = self.index.decisions < GIVEN_UP_MAX;
        let called = self.change(owner, |entry| {
            if entry.record().is_some_and(|record| decision.has_become(record)) {
                if decision.foreign
                    && let Some(address) = &mut entry.address
                {
                    // A request of the other process took effect. It is unknown whether that process also wrote the
                    // claim's status. If not, the claim may be gone.
                    address.unpublished = true;
                }
                // Another request may still take effect once the name is free again. This process knows which of its
                // own requests have no response yet; those of the other process may all be on their way.
                if !decision.foreign || has_room {
                    entry.give_up_seen(decision);
                }
                return false;
            }
            let uid = entry.claim.queued().map(|queued| &queued.request.uid);
            let is_claims = match &entry.claim {
                ClaimState::Decided(_) => false,
                _ => uid.is_none_or(|uid| *uid == decision.request.uid),
            };
            if entry.address.is_some() || !is_claims || decision.given_up {
                entry.keep_late(decision);
                return false;
            }
            // The claim may have asked before: its request has more details than the status of the pool.
            let called = ours && uid.is_some();
            if let Some(queued) = mem::take(&mut entry.claim).into_queued() {
                (decision.request, decision.first_asked) = (queued.request, queued.first_asked);
            }
            entry.claim = ClaimState::Decided(Box::new(decision));
            called
        });
        if called {
            self.wake(owner);
        }
    }

    /// Looks for leftovers, in memory only: IPAddresses whose claim does not exist according to `is_known`, and
    /// decisions whose claim this process does not reconcile, according to `is_here`.
    pub(crate) fn sweep(
        &mut self,
        is_known: impl Fn(&Owner, &str) -> bool,
        is_here: impl Fn(&Owner, &str) -> bool,
    ) {
        let is_suspect = |owner: &Owner, record: &Record| {
            let known = record
                .claim_uid
                .as_deref()
                .is_some_and(|uid| is_known(owner, uid));
            record.is_managed() && record.deleted_at.is_none() && !known
        };
        let records = self
            .entries
            .iter()
            .filter_map(|(owner, entry)| Some((owner, entry.record()?)));
        let suspects: Vec<Owner> = records
            .filter(|(owner, record)| is_suspect(owner, record))
            .map(|(owner, _)| owner.clone())
            .collect();
        let is_abandoned = |owner: &Owner, decision: &Decision| {
            // A decision of another process is not always written by this one.
            let is_known = decision.written || decision.foreign;
            is_known && !decision.given_up && !is_here(owner, &decision.request.uid)
        };
        let abandoned: Vec<Owner> = self
            .decisions()
            .filter(|(owner, decision)| is_abandoned(owner, decision))
            .map(|(owner, _)| owner.clone())
            .collect();
        for owner in suspects {
            // A known orphan is checked again: its claim may have been created again.
            self.suspect(&owner);
        }
        for owner in abandoned {
            self.abandon(&owner);
        }
    }

    /// Takes up to `max` names, with the uids of their claims, whose decisions the pool's task has to complete because
    /// no claim will.
    pub(crate) fn take_abandoned(&mut self, max: usize) -> Vec<(Owner, Box<str>)> {
        let owners: Vec<Owner> = self.index.abandoned.iter().take(max).cloned().collect();
        let mut abandoned = Vec::new();
        for owner in owners {
            let mut uids: Vec<Box<str>> = self.change(&owner, |entry| {
                entry.abandoned = false;
                let open = entry
                    .decisions()
                    .filter(|decision| !decision.given_up || decision.is_expired());
                open.map(|decision| decision.request.uid.clone()).collect()
            });
            uids.sort();
            uids.dedup();
            abandoned.extend(uids.into_iter().map(|uid| (owner.clone(), uid)));
        }
        abandoned
    }

    /// Whether there are decisions that the pool's task has to complete.
    pub(crate) fn has_abandoned(&self) -> bool {
        !self.index.abandoned.is_empty()
    }

    /// Leaves the decisions of this name to the pool's task.
    pub(crate) fn abandon(&mut self, owner: &Owner) {
        if self.index.decided.contains(owner) {
            self.change(owner, |entry| entry.abandoned = true);
        }
    }

    /// Switches to this spec.
    pub(crate) fn specify(&mut self, spec: &PoolSpec) {
        let outcome = match &mut self.ranges {
            Some(ranges) => ranges.respecify(spec),
            None => PoolRanges::new(spec).map(|ranges| self.fill(ranges)),
        };
        self.fault = match outcome {
            Ok(()) => String::new(),
            Err(error) => {
                self.ranges = None;
                self.contested.clear();
                error.to_string()
            }
        };
        if self.ranges.is_none() {
            self.send_away();
        }
        let blocked: Vec<Owner> = self.index.blocked.values().flatten().cloned().collect();
        for owner in blocked {
            self.requeue(&owner);
        }
    }

    fn fill(&mut self, mut ranges: PoolRanges) {
        for (owner, entry) in &self.entries {
            for block in entry.keys().blocks {
                ranges.adopt(owner, block);
            }
        }
        self.ranges = Some(ranges);
        let contested = self
            .entries
            .keys()
            .filter(|owner| self.has_earlier_rival(owner))
            .cloned();
        self.contested = contested.collect();
    }

    /// Stops serving claims, with this reason and message, or serves claims again if there is none.
    pub(crate) fn close(&mut self, closed: Option<(&'static str, String)>) {
        self.closed = closed;
        if self.closed.is_some() {
            self.send_away();
        }
    }

    /// Empties the queue. The claims are reconciled, and report why they cannot be served.
    fn send_away(&mut self) {
        let waits = |entry: &Entry| entry.claim.queued().is_some();
        let waiting: Vec<Owner> = self
            .entries
            .iter()
            .filter(|(_, entry)| waits(entry))
            .map(|(owner, _)| owner.clone())
            .collect();
        for owner in waiting {
            self.withdraw(&owner);
            self.wake(&owner);
        }
    }
}

/// A decision that this process knows only from the status of the pool.
fn listed_decision(owner: &Owner, uid: &str, block: Block, ours: bool, now: Instant) -> Decision {
    let request = Request {
        owner: owner.clone(),
        uid: uid.into(),
        created: Timestamp::UNIX_EPOCH,
        wanted: None,
        published: false,
    };
    let mut decision = Decision::new(
        Queued {
            request,
            first_asked: now,
        },
        block,
        false,
    );
    decision.foreign = !ours;
    // The process that made the decision may have just sent the request to create the IPAddress.
    decision.unanswered.push(now + LATE_MAX);
    decision
}
