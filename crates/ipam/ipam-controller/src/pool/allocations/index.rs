//! Indices of the entries of a pool. They follow from the entries alone, and only [`Index::replace`] changes them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nephele_ipam::Owner;
use tokio::time::Instant;

use super::entry::Keys;
use crate::pool::ranges::Block;

/// A position in the queue: older claims first, then those that this process saw first, then by name.
pub(super) type Position = (Timestamp, Instant, Owner);

/// All indices. Bounded by the entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Claims that wait for any address, in the order in which they are served.
    pub(super) queue: BTreeSet<Position>,
    /// Claims of the queue that have not reported yet that no address is free.
    pub(super) untold: BTreeSet<Position>,
    /// Claims that wait for one address, by that address.
    pub(super) blocked: BTreeMap<Option<Block>, BTreeSet<Owner>>,
    pub(super) blocked_count: usize,
    /// Claims that want to take over an IPAddress.
    pub(super) taking_over: BTreeSet<Owner>,
    /// Names with a decision: at most as many as may be pending.
    pub(super) decided: BTreeSet<Owner>,
    pub(super) decisions: usize,
    /// Names whose claim has a decision.
    pub(super) in_progress: usize,
    pub(super) abandoned: BTreeSet<Owner>,
    pub(super) malformed: BTreeSet<Owner>,
    pub(super) suspects: BTreeSet<Owner>,
    pub(super) orphans: BTreeSet<Owner>,
    /// The number of IPAddresses that this process created and that their claims' status does not name yet.
    pub(super) unpublished: usize,
    /// IPAddresses that are held back, by deletion timestamp.
    pub(super) held: BTreeSet<(Timestamp, Owner)>,
    /// The number of addresses that are in use or decided on.
    pub(super) used: usize,
}

impl Index {
    /// Updates the indices for the entry of this name, whose keys changed from `before` to `after`.
    pub(super) fn replace(&mut self, owner: &Owner, before: &Keys, after: &Keys) {
        if before == after {
            return;
        }
        self.remove(owner, before);
        self.insert(owner, after);
    }

    fn insert(&mut self, owner: &Owner, keys: &Keys) {
        if let Some((created, first_asked)) = keys.position {
            let position = (created, first_asked, owner.clone());
            if keys.untold {
                self.untold.insert(position.clone());
            }
            self.queue.insert(position);
        }
        if let Some(on) = keys.blocked {
            self.blocked.entry(on).or_default().insert(owner.clone());
            self.blocked_count += 1;
        }
        if let Some(since) = keys.held {
            self.held.insert((since, owner.clone()));
        }
        for (set, holds) in self.sets(keys) {
            if holds {
                set.insert(owner.clone());
            }
        }
        self.decisions += keys.decisions;
        self.in_progress += usize::from(keys.in_progress);
        self.unpublished += usize::from(keys.unpublished);
        self.used += keys.used;
    }

    fn remove(&mut self, owner: &Owner, keys: &Keys) {
        if let Some((created, first_asked)) = keys.position {
            let position = (created, first_asked, owner.clone());
            self.untold.remove(&position);
            self.queue.remove(&position);
        }
        if let Some(on) = keys.blocked {
            if let Some(owners) = self.blocked.get_mut(&on) {
                owners.remove(owner);
                if owners.is_empty() {
                    self.blocked.remove(&on);
                }
            }
            self.blocked_count -= 1;
        }
        if let Some(since) = keys.held {
            self.held.remove(&(since, owner.clone()));
        }
        for (set, held) in self.sets(keys) {
            if held {
                set.remove(owner);
            }
        }
        self.decisions -= keys.decisions;
        self.in_progress -= usize::from(keys.in_progress);
        self.unpublished -= usize::from(keys.unpublished);
        self.used -= keys.used;
    }

    /// The sets of names, and whether an entry with these keys is in each.
    fn sets(&mut self, keys: &Keys) -> [(&mut BTreeSet<Owner>, bool); 6] {
        [
            (&mut self.taking_over, keys.taking_over),
            (&mut self.decided, keys.decisions > 0),
            (&mut self.abandoned, keys.abandoned),
            (&mut self.malformed, keys.malformed),
            (&mut self.suspects, keys.suspect),
            (&mut self.orphans, keys.orphan),
        ]
    }

    /// The claims that wait for this block or for one that overlaps it.
    pub(super) fn blocked_on(&self, block: Block) -> Vec<Owner> {
        match block {
            Block::Address(_) => self
                .blocked
                .get(&Some(block))
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            Block::Prefix(_) => {
                let overlapping = self
                    .blocked
                    .iter()
                    .filter(|(on, _)| on.is_some_and(|on| on.overlaps(block)));
                overlapping
                    .flat_map(|(_, owners)| owners.iter().cloned())
                    .collect()
            }
        }
    }
}
