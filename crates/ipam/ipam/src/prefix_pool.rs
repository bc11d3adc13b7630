//! The allocator of one pool of prefixes.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::Ipv6Addr,
};

use crate::{
    address_pool::Adoption, family::Family, free::FreeIntervals, holdings::Holdings, intervals::Intervals,
    owner::Owner, prefix::Prefix, prefix_spec::PrefixLayout, usage::Usage,
};

/// The owners of the prefixes of one pool, and the free prefixes.
///
/// All allocated prefixes have the same length. So each is a number, its leading bits, and the pool is a set of such
/// numbers. Prefixes of other lengths can only be adopted; they take every number they overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixPool {
    layout: PrefixLayout,
    /// Blocks that are allocatable and have no address in a prefix that is in use or set aside.
    free: FreeIntervals,
    holdings: Holdings<Prefix>,
    quarantined: BTreeSet<Prefix>,
    /// Length → the number of different prefixes in use that have it, which is never 0.
    lengths: BTreeMap<u8, usize>,
    /// Prefixes in use that are not allocatable.
    out_of_range: usize,
}

/// Why a prefix was not allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocatePrefixError {
    /// No prefix is free. Try again when a prefix is released, or when the pool grows.
    #[error("no prefix available")]
    Exhausted,
    /// The wanted prefix is outside of the pool, excluded, not aligned or of another length.
    #[error("prefix {0} cannot be allocated from the pool")]
    NotAllocatable(Prefix),
    /// Another owner has the wanted prefix, or a prefix that overlaps it.
    #[error("prefix {prefix} is in use by {owner}")]
    InUse {
        prefix: Prefix,
        /// The owner of that prefix, or of the one that overlaps it.
        owner: Owner,
    },
    /// The wanted prefix overlaps one that is set aside.
    #[error("prefix {0} is in use outside of the pool")]
    Quarantined(Prefix),
}

impl AllocatePrefixError {
    /// A short name for metrics and reasons, from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::NotAllocatable(_) => "not_allocatable",
            Self::InUse { .. } => "in_use",
            Self::Quarantined(_) => "set_aside",
        }
    }
}

impl PrefixPool {
    /// An empty pool.
    #[must_use]
    pub fn new(layout: PrefixLayout) -> Self {
        let free = FreeIntervals::new(layout.allocatable_blocks());
        let holdings = Holdings::default();
        let quarantined = BTreeSet::new();
        let lengths = BTreeMap::new();
        Self {
            layout,
            free,
            holdings,
            quarantined,
            lengths,
            out_of_range: 0,
        }
    }

    /// The layout of the pool.
    #[must_use]
    pub fn layout(&self) -> &PrefixLayout {
        &self.layout
    }

    /// The prefix of `owner`: the one it already has, else the wanted one, else the lowest free one.
    ///
    /// # Errors
    /// When no prefix is free, or the wanted prefix cannot be allocated. The pool does not change then.
    pub fn allocate(&mut self, owner: &Owner, wanted: Option<Prefix>) -> Result<Prefix, AllocatePrefixError> {
        if let Some(prefix) = self.holdings.key_of(owner) {
            return Ok(prefix);
        }
        let prefix = match wanted {
            None => {
                let block = self.free.take_lowest().ok_or(AllocatePrefixError::Exhausted)?;
                self.layout.prefix(block)
            }
            Some(prefix) => {
                self.check_wanted(prefix)?;
                let (first, last) = self.layout.blocks(prefix);
                self.free.take(first, last);
                prefix
            }
        };
        self.insert(owner.clone(), prefix);
        Ok(prefix)
    }

    /// The prefix that [`PrefixPool::allocate`] would return.
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn next(&self, owner: &Owner, wanted: Option<Prefix>) -> Result<Prefix, AllocatePrefixError> {
        match (self.holdings.key_of(owner), wanted) {
            (Some(prefix), _) => Ok(prefix),
            (None, Some(prefix)) => self.check_wanted(prefix).map(|()| prefix),
            (None, None) => {
                let block = self.free.lowest().ok_or(AllocatePrefixError::Exhausted)?;
                Ok(self.layout.prefix(block))
            }
        }
    }

    fn check_wanted(&self, prefix: Prefix) -> Result<(), AllocatePrefixError> {
        if !self.layout.is_allocatable(prefix) {
            return Err(AllocatePrefixError::NotAllocatable(prefix));
        }
        match self
            .overlapping(prefix)
            .flat_map(|other| self.holdings.owners_of(other))
            .next()
        {
            Some(owner) => Err(AllocatePrefixError::InUse {
                prefix,
                owner: owner.clone(),
            }),
            None if self.quarantined.iter().any(|other| other.overlaps(prefix)) => {
                Err(AllocatePrefixError::Quarantined(prefix))
            }
            None => Ok(()),
        }
    }

    /// Records that `owner` has `prefix`, of any length: for rebuilding a pool from existing prefixes, in any order.
    ///
    /// Never refuses. A prefix that the spec does not allow is counted as out of range, and the prefixes that it
    /// overlaps cannot be allocated. A prefix with several owners stays in use until all have released it. An owner
    /// may have several prefixes; `allocate` returns the lowest.
    pub fn adopt(&mut self, owner: Owner, prefix: Prefix) -> Adoption {
        let in_range = self.layout.is_allocatable(prefix);
        let overlapping = self.owners_overlapping(prefix).into_iter();
        let also_held_by = overlapping.filter(|other| **other != owner).cloned().collect();
        if self.insert(owner, prefix) {
            let (first, last) = self.layout.blocks(prefix);
            self.free.take(first, last);
            self.out_of_range += usize::from(!in_range);
        }
        Adoption {
            in_range,
            also_held_by,
        }
    }

    /// Releases every prefix of `owner` and returns them.
    pub fn release(&mut self, owner: &Owner) -> Vec<Prefix> {
        let prefixes: Vec<_> = self.holdings.keys_of(owner).collect();
        for prefix in &prefixes {
            self.release_prefix(owner, *prefix);
        }
        prefixes
    }

    /// Releases one prefix of `owner`; false when `owner` does not have it.
    pub fn release_prefix(&mut self, owner: &Owner, prefix: Prefix) -> bool {
        if !self.holdings.has(owner, prefix) {
            return false;
        }
        if self.holdings.remove(owner, prefix) {
            match self.lengths.entry(prefix.length()) {
                Entry::Occupied(mut count) if *count.get() > 1 => *count.get_mut() -= 1,
                Entry::Occupied(count) => drop(count.remove()),
                Entry::Vacant(_) => unreachable!("every prefix in use was counted"),
            }
            self.out_of_range -= usize::from(!self.layout.is_allocatable(prefix));
            self.give_back(prefix);
        }
        true
    }

    /// Makes the blocks of a prefix free that no other prefix takes.
    fn give_back(&mut self, prefix: Prefix) {
        let still_taken = self.overlapping(prefix).chain(self.quarantined.iter().copied());
        let still_taken = Intervals::new(still_taken.map(|other| self.layout.blocks(other)));
        let allocatable =
            Intervals::new([self.layout.blocks(prefix)]).intersect(self.layout.allocatable_blocks());
        for &(first, last) in allocatable.subtract(&still_taken).as_slice() {
            self.free.give_back(first, last);
        }
    }

    /// Sets a prefix aside: no owner gets it or one that overlaps it, whoever has one keeps it. It counts neither as free nor
    /// as used.
    pub fn quarantine(&mut self, prefix: Prefix) {
        self.quarantined.insert(prefix);
        let (first, last) = self.layout.blocks(prefix);
        self.free.take(first, last);
    }

    /// Ends what [`PrefixPool::quarantine`] began.
    pub fn put_back(&mut self, prefix: Prefix) {
        if self.quarantined.remove(&prefix) {
            self.give_back(prefix);
        }
    }

    /// The prefixes that are set aside, sorted.
    pub fn quarantined(&self) -> impl Iterator<Item = Prefix> {
        self.quarantined.iter().copied()
    }

    /// Switches to another layout. Prefixes in use stay in use, and those set aside stay so.
    pub fn replace_layout(&mut self, layout: PrefixLayout) {
        self.layout = layout;
        let taken = self.holdings.keys().chain(self.quarantined.iter().copied());
        let taken = Intervals::new(taken.map(|prefix| self.layout.blocks(prefix)));
        self.free = FreeIntervals::new(&self.layout.allocatable_blocks().subtract(&taken));
        self.out_of_range = self
            .holdings
            .keys()
            .filter(|prefix| !self.layout.is_allocatable(*prefix))
            .count();
    }

    /// The prefix of `owner`, or the lowest if it has several.
    #[must_use]
    pub fn prefix_of(&self, owner: &Owner) -> Option<Prefix> {
        self.holdings.key_of(owner)
    }

    /// The owners of exactly `prefix`, sorted; more than one is a conflict.
    pub fn owners_of(&self, prefix: Prefix) -> impl Iterator<Item = &Owner> {
        self.holdings.owners_of(prefix)
    }

    /// The owners of prefixes that overlap `prefix`, sorted.
    #[must_use]
    pub fn owners_overlapping(&self, prefix: Prefix) -> Vec<&Owner> {
        // Two prefixes in one block may be disjoint if they are longer than the pool's prefixes.
        let overlapping = self.overlapping(prefix).filter(|other| other.overlaps(prefix));
        let mut owners: Vec<_> = overlapping
            .flat_map(|other| self.holdings.owners_of(other))
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Every prefix in use with each of its owners, sorted.
    pub fn in_use(&self) -> impl Iterator<Item = (Prefix, &Owner)> {
        self.holdings
            .iter()
            .flat_map(|(prefix, owners)| owners.iter().map(move |owner| (prefix, owner)))
    }

    /// Counts, in prefixes.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::new(
            self.layout.allocatable_blocks(),
            &self.free,
            self.holdings.pairs(),
            self.out_of_range,
        )
    }

    /// Adds a pair; true when the prefix had no owner before.
    fn insert(&mut self, owner: Owner, prefix: Prefix) -> bool {
        let first = self.holdings.insert(owner, prefix);
        if first {
            *self.lengths.entry(prefix.length()).or_default() += 1;
        }
        first
    }

    /// Prefixes in use that share a block with `prefix`.
    fn overlapping(&self, prefix: Prefix) -> impl Iterator<Item = Prefix> {
        // A prefix that is longer than the pool's prefixes shares its block with its neighbours.
        let whole = Prefix::new(
            prefix.base(),
            prefix.length().min(self.layout.allocation_prefix_length()),
        );
        let (_, last) = whole.range().numbers();
        let inside = self
            .holdings
            .range(whole..=Prefix::new(Ipv6Addr::from_bits(last), Family::V6.bits()));
        // A prefix that contains `whole` is `whole` cut to a shorter length.
        let around = self
            .lengths
            .range(..whole.length())
            .map(move |(length, _)| Prefix::new(whole.base(), *length));
        around.filter(|outer| self.holdings.is_held(*outer)).chain(inside)
    }
}
