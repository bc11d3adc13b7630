//! The state of one pool: the IPAddresses that exist, the decisions without an IPAddress, and the claims that wait.
//!
//! ```text
//!  ask ──▶ Waiting ──choose──▶ Decided ──persisted──▶ Decided, written ──applied──▶ Idle, with an IPAddress
//!            │ ▲                  │                        │
//!    refused ▼ │ freed            └─ unchoose: Waiting     ├─ drop_decision: Idle
//!          Blocked                                         └─ an IPAddress of another claim appears: late
//! ```
//!
//! There is one [`Entry`] for each name, and the state of its claim is one enum. The indices and the addresses in use
//! follow from the entries. Only [`Allocations::change`] changes an entry, and it updates both.
//!
//! This is plain data without a client or a clock. The watch of IPAddresses, the claims and the pool's task change it
//! under the pool's lock; only the task decides. [`Allocations::ask`] never waits: when there is a new answer, the
//! claim is in [`Allocations::take_woken`].

mod ask;
mod batch;
mod entry;
mod index;
mod rebuild;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    time::Duration,
};

use jiff::Timestamp;
use nephele_api::ipam::v1alpha2::IPAddressCounts;
use nephele_ipam::Owner;

pub(crate) use self::{
    ask::{Allocation, Answer},
    entry::Request,
};
use self::{
    entry::{ClaimState, Decision, Entry, Ownership},
    index::Index,
};
use super::ranges::{Block, Grant, PoolRanges};
use crate::address::Record;

/// Claims that one write of the pool serves. More would make each write slower.
pub(crate) const BATCH_MAX: usize = 64;

/// Claims of a pool that have a decision and no IPAddress yet: one batch that is being created, and the next one. More
/// would make each write of the pool longer and no claim faster.
pub(crate) const IN_PROGRESS_MAX: usize = 2 * BATCH_MAX;

/// How long a request to create an IPAddress may take effect after it was sent. An API server works on a request for
/// 60 s at most (`--request-timeout`); the other 30 s are for the network.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(90);

/// The problems of a pool, besides its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// Why the spec is invalid; empty if it is valid.
    pub(crate) fault: String,
    /// Claims that wait for an address.
    pub(crate) waiting: usize,
    pub(crate) malformed: Names,
    pub(crate) contested: Names,
    pub(crate) orphans: Names,
}

/// The number of objects, and the names of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) count: usize,
    pub(crate) first: Vec<String>,
}

/// The most names in a message.
const NAMED_MAX: usize = 3;

impl Names {
    fn of(owners: &BTreeSet<Owner>) -> Self {
        let first = owners.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        Self {
            count: owners.len(),
            first,
        }
    }
}

/// The allocations of one pool. Owned by the pool, behind its lock. Bounded by the claims and IPAddresses that exist.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    /// None before the addresses in use were listed for the first time, and while the spec is invalid.
    ranges: Option<PoolRanges>,
    /// Reason and message why no claim is served although the addresses are known.
    closed: Option<(&'static str, String)>,
    fault: String,
    /// Whether IPAddresses have been listed.
    built: bool,
    entries: BTreeMap<Owner, Entry>,
    index: Index,
    /// IPAddresses that share their address with another IPAddress: all but the first by name.
    contested: BTreeSet<Owner>,
    /// Claims to reconcile, in order. Emptied in each step of the pool's task.
    woken: Vec<Owner>,
    /// Uids of IPAddresses that are gone, although the watch may still show them.
    gone: HashSet<Box<str>>,
    /// The resource version of the list from which the allocations were built.
    floor: u64,
    /// What the watch showed since the list was requested that is being read.
    meanwhile: Option<Meanwhile>,
    /// Whether the watch may have missed a change, so that a new list is needed.
    stale: bool,
}

/// What the watch showed while a list is read, which may be older.
#[derive(Debug, Default)]
struct Meanwhile {
    shown: BTreeMap<Owner, Record>,
    /// Uids of IPAddresses that are gone.
    gone: HashSet<Box<str>>,
}

impl Allocations {
    /// Changes one entry, and with it the indices and the addresses in use.
    fn change<R>(&mut self, owner: &Owner, change: impl FnOnce(&mut Entry) -> R) -> R {
        let mut entry = self.entries.remove(owner).unwrap_or_default();
        let before = entry.keys();
        let result = change(&mut entry);
        let after = if entry.is_empty() {
            entry::Keys::default()
        } else {
            let keys = entry.keys();
            self.entries.insert(owner.clone(), entry);
            keys
        };
        self.index.replace(owner, &before, &after);
        self.occupy(owner, &before.blocks, &after.blocks);
        result
    }

    /// Marks the addresses of an entry as in use, and frees those it had before.
    fn occupy(&mut self, owner: &Owner, before: &[Block], after: &[Block]) {
        let Some(ranges) = &mut self.ranges else { return };
        let taken: Vec<Block> = after
            .iter()
            .filter(|block| !before.contains(block))
            .copied()
            .collect();
        let freed: Vec<Block> = before
            .iter()
            .filter(|block| !after.contains(block))
            .copied()
            .collect();
        for block in &taken {
            ranges.adopt(owner, *block);
        }
        for block in &freed {
            ranges.release(owner, *block);
        }
        self.contested.remove(owner);
        for block in taken.iter().chain(&freed).chain(after) {
            self.note_contested(owner, *block);
        }
        for block in freed {
            self.unblock(block);
        }
    }

    /// Records which IPAddresses share this block with another name. `changed` may have lost the block.
    fn note_contested(&mut self, changed: &Owner, block: Block) {
        let Some(ranges) = &self.ranges else { return };
        let owners = ranges.owners(block);
        if owners.len() < 2 && self.contested.is_empty() {
            return;
        }
        for owner in owners.iter().chain([changed]) {
            if self.has_earlier_rival(owner) {
                self.contested.insert(owner.clone());
            } else {
                self.contested.remove(owner);
            }
        }
    }

    /// Whether a name that sorts before this one has the address of this name's IPAddress, too.
    fn has_earlier_rival(&self, owner: &Owner) -> bool {
        let block = self.record(owner).and_then(|record| record.block);
        let (Some(block), Some(ranges)) = (block, &self.ranges) else {
            return false;
        };
        ranges.owners(block).iter().any(|other| other < owner)
    }

    /// Puts the claims that wait for this block back into the queue.
    fn unblock(&mut self, block: Block) {
        for owner in self.index.blocked_on(block) {
            self.requeue(&owner);
        }
    }

    /// Sets exactly these addresses aside, so that no claim gets them.
    pub(crate) fn quarantine(&mut self, blocks: &BTreeSet<Block>) {
        let Some(ranges) = &mut self.ranges else { return };
        for block in ranges.quarantine(blocks) {
            self.unblock(block);
        }
    }

    /// Puts a claim that waits or has a decision back to its position in the queue.
    fn requeue(&mut self, owner: &Owner) {
        let reinstated = self.change(owner, |entry| {
            if let Some(queued) = mem::take(&mut entry.claim).into_queued() {
                entry.claim = match &entry.address {
                    Some(_) => ClaimState::TakingOver(Box::new(queued)),
                    None => ClaimState::waiting(queued),
                };
            }
            entry.reinstate()
        });
        if reinstated {
            self.wake(owner);
        }
    }

    /// Requests a reconcile of the claim.
    fn wake(&mut self, owner: &Owner) {
        self.woken.push(owner.clone());
    }

    /// Takes the claims to reconcile, because something that they wait for has changed.
    pub(crate) fn take_woken(&mut self) -> Vec<Owner> {
        mem::take(&mut self.woken)
    }

    /// The counts for the status of the pool.
    pub(crate) fn counts(&self) -> IPAddressCounts {
        let used = i64::try_from(self.len()).unwrap_or(i64::MAX);
        let Some(ranges) = &self.ranges else {
            return IPAddressCounts {
                total: 0,
                free: 0,
                used,
                out_of_range: used,
            };
        };
        let counts = ranges.counts();
        IPAddressCounts {
            total: counts.total,
            free: counts.free,
            used,
            out_of_range: counts.out_of_range,
        }
    }

    /// The number of addresses that are in use or decided on.
    pub(crate) fn len(&self) -> usize {
        self.index.used
    }

    /// The number of claims that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.index.queue.len() + self.index.blocked_count
    }

    /// Whether a claim waits that can probably be served.
    pub(crate) fn has_work(&self) -> bool {
        let free = self.has_free();
        let Index {
            taking_over,
            untold,
            queue,
            ..
        } = &self.index;
        self.closed.is_none()
            && self.ranges.is_some()
            && (!taking_over.is_empty() || !untold.is_empty() || (free && !queue.is_empty()))
    }

    fn has_free(&self) -> bool {
        self.ranges
            .as_ref()
            .is_some_and(|ranges| ranges.counts().free > 0)
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale || !self.built
    }

    /// The number of claims that have a decision and no IPAddress yet.
    pub(crate) fn in_progress(&self) -> usize {
        self.index.in_progress
    }

    /// Whether a decision is not complete: it has no IPAddress, or the claim's status does not name the IPAddress.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.index.decisions > 0 || self.index.unpublished > 0
    }

    /// Every decision with its name: at most as many as may be pending.
    fn decisions(&self) -> impl Iterator<Item = (&Owner, &Decision)> {
        let entries = self
            .index
            .decided
            .iter()
            .filter_map(|owner| self.entries.get_key_value(owner));
        entries.flat_map(|(owner, entry)| entry.decisions().map(move |decision| (owner, decision)))
    }

    /// Whether there is a decision that this process has to write. Decisions of other processes about claims that are theirs
    /// are left to them: otherwise both would write the pool in turn.
    pub(crate) fn has_unwritten(&self, is_theirs: impl Fn(&Owner, &str) -> bool) -> bool {
        let is_left =
            |owner: &Owner, decision: &Decision| decision.foreign && is_theirs(owner, &decision.request.uid);
        self.decisions()
            .any(|(owner, decision)| !decision.written && !is_left(owner, decision))
    }

    /// The allocator, if there is one.
    pub(crate) fn ranges(&self) -> Option<&PoolRanges> {
        self.ranges.as_ref()
    }

    /// The grant of a written decision for the claim, whichever process decided.
    pub(crate) fn decided(&self, owner: &Owner, uid: &str) -> Option<Grant> {
        let decision = self.entries.get(owner)?.decision()?;
        let is_such = decision.written && !decision.takes_over && *decision.request.uid == *uid;
        is_such.then(|| self.ranges.as_ref().map(|ranges| ranges.grant(decision.block)))?
    }

    /// The IPAddresses that are held back, the earliest first.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Timestamp, &Owner)> {
        self.index.held.iter().map(|(since, owner)| (*since, owner))
    }

    pub(crate) fn record(&self, owner: &Owner) -> Option<&Record> {
        self.entries.get(owner)?.record()
    }

    /// Takes up to `max` names whose claim may be gone.
    pub(crate) fn take_suspects(&mut self, max: usize) -> Vec<Owner> {
        let suspects: Vec<Owner> = self.index.suspects.iter().take(max).cloned().collect();
        for owner in &suspects {
            self.set_ownership(owner, Ownership::believed);
        }
        suspects
    }

    /// Whether there are names whose claim may be gone.
    pub(crate) fn has_suspects(&self) -> bool {
        !self.index.suspects.is_empty()
    }

    /// The claim of an IPAddress may be gone.
    pub(crate) fn suspect(&mut self, owner: &Owner) {
        self.set_ownership(owner, Ownership::suspected);
    }

    fn set_ownership(&mut self, owner: &Owner, change: impl FnOnce(Ownership) -> Ownership) {
        if !self.entries.contains_key(owner) {
            return;
        }
        self.change(owner, |entry| {
            if let Some(address) = &mut entry.address {
                address.ownership = change(address.ownership);
            }
        });
    }

    /// Whether this process created an IPAddress that the claim's status does not name yet.
    pub(crate) fn is_unpublished(&self, owner: &Owner, uid: &str) -> bool {
        let address = self.entries.get(owner).and_then(|entry| entry.address.as_ref());
        address.is_some_and(|address| address.unpublished && *address.record.uid == *uid)
    }

    /// Whether another name has the address of an IPAddress, too.
    pub(crate) fn is_contested(&self, owner: &Owner) -> bool {
        let block = self.record(owner).and_then(|record| record.block);
        block
            .zip(self.ranges.as_ref())
            .is_some_and(|(block, ranges)| ranges.rival(owner, block).is_some())
    }

    /// Records whether the claim of an IPAddress is gone, according to the management API.
    pub(crate) fn set_orphan(&mut self, owner: &Owner, uid: &str, orphan: bool) {
        if self.record(owner).is_some_and(|record| *record.uid == *uid) {
            self.set_ownership(owner, |_| {
                if orphan {
                    Ownership::Orphan
                } else {
                    Ownership::Owned
                }
            });
        }
    }

    pub(crate) fn orphans(&self) -> impl Iterator<Item = &Owner> {
        self.index.orphans.iter()
    }

    pub(crate) fn troubles(&self) -> Troubles {
        Troubles {
            fault: self.fault.clone(),
            waiting: self.waiting(),
            malformed: Names::of(&self.index.malformed),
            contested: Names::of(&self.contested),
            orphans: Names::of(&self.index.orphans),
        }
    }

    /// Panics if an index, a count or the allocator does not match the entries.
    #[cfg(test)]
    fn check(&self) {
        let mut index = Index::default();
        for (owner, entry) in &self.entries {
            assert!(!entry.is_empty(), "{owner} is kept for nothing");
            index.replace(owner, &entry::Keys::default(), &entry.keys());
            if let Some(ranges) = &self.ranges {
                for block in entry.keys().blocks {
                    assert!(ranges.owners(block).contains(owner), "{owner} has {block:?}");
                }
            }
        }
        assert_eq!(self.index, index);
        let contested: BTreeSet<Owner> = self
            .entries
            .keys()
            .filter(|owner| self.has_earlier_rival(owner))
            .cloned()
            .collect();
        assert_eq!(self.contested, contested);
    }
}

#[cfg(test)]
mod tests;
