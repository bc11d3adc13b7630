//! Addresses that were released and are held back until the grace period is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, SystemTime},
};

/// Bounded by the addresses of the pool: an address is released once before it can be allocated again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    released_at: BTreeMap<IpAddr, SystemTime>,
    /// The same pairs, longest held first.
    queue: BTreeSet<(SystemTime, IpAddr)>,
}

impl Holds {
    pub(crate) fn count(&self) -> usize {
        self.released_at.len()
    }

    pub(crate) fn released_at(&self, address: IpAddr) -> Option<SystemTime> {
        self.released_at.get(&address).copied()
    }

    /// Ascending by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, SystemTime)> {
        self.released_at.iter().map(|(address, released_at)| (*address, *released_at))
    }

    /// Of two releases of one address the later counts.
    pub(crate) fn insert(&mut self, address: IpAddr, released_at: SystemTime) {
        if self.released_at(address).is_some_and(|known| known >= released_at) {
            return;
        }
        self.remove(address);
        self.released_at.insert(address, released_at);
        self.queue.insert((released_at, address));
    }

    pub(crate) fn remove(&mut self, address: IpAddr) {
        if let Some(released_at) = self.released_at.remove(&address) {
            self.queue.remove(&(released_at, address));
        }
    }

    /// Takes out the one held longest, if it was released `grace_period` before `now` or earlier.
    pub(crate) fn pop_over(&mut self, now: SystemTime, grace_period: Duration) -> Option<IpAddr> {
        let remaining = self.next_over_in(now, grace_period)?;
        if remaining > Duration::ZERO {
            return None;
        }
        let (_, address) = self.queue.pop_first()?;
        self.released_at.remove(&address);
        Some(address)
    }

    /// How long after `now` the next one is free.
    pub(crate) fn next_over_in(&self, now: SystemTime, grace_period: Duration) -> Option<Duration> {
        let (released_at, _) = self.queue.first()?;
        // A release in the future comes from a clock that was set back: then all of the time to it is added.
        Some(match now.duration_since(*released_at) {
            Ok(held) => grace_period.saturating_sub(held),
            Err(early) => grace_period.saturating_add(early.duration()),
        })
    }
}
