//! Updates from the watch of IPAddresses and from responses to writes.

use std::mem;

use nephele_ipam::Owner;

use super::{
    Allocations,
    entry::{ClaimState, KnownAddress, Ownership},
};
use crate::address::Record;

impl Allocations {
    /// An IPAddress of the pool exists, or has changed.
    pub(crate) fn applied(&mut self, owner: &Owner, record: Record) {
        if self.gone.contains(&record.uid) {
            return;
        }
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.shown.insert(owner.clone(), record.clone());
        }
        let known = self.record(owner).map_or(self.floor, |known| known.version);
        if record.version <= known {
            return;
        }
        self.insert(owner, record);
    }

    /// The IPAddress of this uid is gone, according to the watch.
    pub(crate) fn deleted(&mut self, owner: &Owner, uid: &str) {
        let known = self.record(owner).is_some_and(|record| *record.uid == *uid);
        let awaited = self.gone.remove(uid);
        if let Some(meanwhile) = &mut self.meanwhile {
            if meanwhile
                .shown
                .get(owner)
                .is_some_and(|record| *record.uid == *uid)
            {
                meanwhile.shown.remove(owner);
            }
            meanwhile.gone.insert(uid.into());
        }
        if !awaited && !known && self.index.decided.contains(owner) {
            // The response to its creation may come later.
            self.gone.insert(uid.into());
        }
        if known {
            self.remove(owner);
        }
    }

    /// The IPAddress of this uid is gone, according to the response to its deletion. The watch will show that later.
    pub(crate) fn released(&mut self, owner: &Owner, uid: &str) {
        if self.record(owner).is_some_and(|record| *record.uid == *uid) {
            self.gone.insert(uid.into());
            self.remove(owner);
        }
    }

    /// The watch had to start over and may have missed deletions.
    pub(crate) fn relisted(&mut self) {
        self.gone.clear();
        self.stale = true;
    }

    /// This process created the IPAddress of a claim, and is about to write that into the claim's status.
    pub(crate) fn created(&mut self, owner: &Owner, record: Record) {
        let uid = record.uid.clone();
        self.applied(owner, record);
        self.set_unpublished(owner, &uid);
    }

    pub(super) fn set_unpublished(&mut self, owner: &Owner, uid: &str) {
        if !self.entries.contains_key(owner) {
            return;
        }
        self.change(owner, |entry| {
            if let Some(address) = entry
                .address
                .as_mut()
                .filter(|address| *address.record.uid == *uid)
            {
                address.unpublished = true;
            }
        });
    }

    /// The status of the claim names its IPAddress. True if that is new.
    pub(crate) fn published(&mut self, owner: &Owner) -> bool {
        let is_news = self.entries.get(owner).is_some_and(|entry| {
            entry.address.as_ref().is_some_and(|address| address.unpublished)
                || (entry.address.is_some() && entry.decisions().any(|decision| !decision.given_up))
        });
        if !is_news {
            return false;
        }
        self.change(owner, |entry| {
            let Some(address) = &mut entry.address else { return };
            address.unpublished = false;
            let uid = address.record.claim_uid.clone();
            let own = entry.take_decision(|_| true);
            // While the claim exists, its IPAddress has the name, so no other IPAddress can be created.
            let (dropped, kept) = mem::take(&mut entry.late)
                .into_iter()
                .partition(|late| Some(&late.request.uid) == uid.as_ref());
            entry.late = kept;
            let dropped: Vec<_> = dropped;
            for decision in own.into_iter().chain(dropped) {
                entry.give_up(decision);
            }
        });
        true
    }

    pub(super) fn insert(&mut self, owner: &Owner, record: Record) {
        let asks_again = self.change(owner, |entry| {
            let known = entry
                .address
                .take()
                .filter(|known| known.record.uid == record.uid);
            let is_new = known.is_none();
            let mut unpublished = known.is_some_and(|known| known.unpublished);
            let mut ownership = Ownership::Owned;
            if record.is_managed() && record.claim_uid.is_none() && record.deleted_at.is_none() {
                ownership = Ownership::Owned.suspected();
            }
            // From now on the IPAddress takes the address that a decision had reserved.
            let (created, kept) = mem::take(&mut entry.late)
                .into_iter()
                .partition(|late| late.matches(&record));
            entry.late = kept;
            let created: Vec<_> = created;
            for late in created {
                if late.given_up && is_new {
                    // The response was lost, and the claim may be gone.
                    (unpublished, ownership) = (true, Ownership::Owned.suspected());
                }
                entry.give_up_seen(late);
            }
            let mut asks_again = false;
            match mem::take(&mut entry.claim) {
                ClaimState::Idle => {}
                ClaimState::Decided(decision) if decision.matches(&record) => {
                    unpublished |= decision.written || decision.foreign;
                    entry.give_up_seen(*decision);
                }
                ClaimState::Decided(decision) => {
                    if decision.may_be_created() {
                        entry.keep_late(*decision);
                    }
                    asks_again = true;
                }
                ClaimState::TakingOver(queued) => entry.claim = ClaimState::TakingOver(queued),
                ClaimState::Waiting { .. } | ClaimState::Blocked { .. } => asks_again = true,
            }
            entry.address = Some(KnownAddress {
                record,
                unpublished,
                ownership,
            });
            asks_again
        });
        if asks_again {
            self.wake(owner);
        }
    }

    fn remove(&mut self, owner: &Owner) {
        let called = self.change(owner, |entry| {
            entry.address = None;
            entry.claim = match mem::take(&mut entry.claim) {
                // The claim was about to take over the IPAddress.
                ClaimState::TakingOver(queued) => ClaimState::waiting(*queued),
                ClaimState::Decided(decision) if decision.takes_over => {
                    ClaimState::waiting(decision.queued())
                }
                state => state,
            };
            entry.reinstate()
        });
        if called {
            self.wake(owner);
        }
    }
}
