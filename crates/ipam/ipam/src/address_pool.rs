//! The allocator of one pool of addresses.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    address_spec::AddressLayout,
    family::{Family, number},
    free::FreeIntervals,
    holdings::Holdings,
    intervals::Intervals,
    owner::Owner,
    usage::Usage,
};

/// The owners of the addresses of one pool, and the free addresses. Plain data, without Kubernetes objects.
///
/// Allocating and releasing take O(log n), whatever the size of the pool. Memory grows with the addresses in use.
///
/// An address whose IPAddress is held back for a grace period is in use like any other: the allocator has no clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPool {
    layout: AddressLayout,
    /// Allocatable addresses that are neither in use nor set aside.
    free: FreeIntervals,
    holdings: Holdings<IpAddr>,
    quarantined: BTreeSet<IpAddr>,
    /// Addresses in use that are not allocatable.
    out_of_range: usize,
}

/// The result of [`AddressPool::adopt`] or [`crate::PrefixPool::adopt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// Whether the spec allows the address or prefix to be allocated.
    pub in_range: bool,
    /// Other owners of the same address or of an overlapping prefix, sorted. Each of them is a conflict.
    pub also_held_by: Vec<Owner>,
}

/// Why an address was not allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateAddressError {
    /// No address is free. Try again when an address is released, or when the pool grows.
    #[error("no address available")]
    Exhausted,
    /// The wanted address is outside of the pool, excluded, reserved or the gateway.
    #[error("address {0} cannot be allocated from the pool")]
    NotAllocatable(IpAddr),
    /// Another owner has the wanted address.
    #[error("address {address} is in use by {owner}")]
    InUse { address: IpAddr, owner: Owner },
    /// The wanted address is set aside.
    #[error("address {0} is in use outside of the pool")]
    Quarantined(IpAddr),
}

impl AllocateAddressError {
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

impl AddressPool {
    /// An empty pool.
    #[must_use]
    pub fn new(layout: AddressLayout) -> Self {
        let free = FreeIntervals::new(allocatable(&layout));
        Self {
            layout,
            free,
            holdings: Holdings::default(),
            quarantined: BTreeSet::new(),
            out_of_range: 0,
        }
    }

    /// The layout of the pool.
    #[must_use]
    pub fn layout(&self) -> &AddressLayout {
        &self.layout
    }

    /// The address of `owner`: the one it already has, else the wanted one, else the lowest free one.
    ///
    /// # Errors
    /// When no address is free, or the wanted address cannot be allocated. The pool does not change then.
    pub fn allocate(
        &mut self,
        owner: &Owner,
        wanted: Option<IpAddr>,
    ) -> Result<IpAddr, AllocateAddressError> {
        if let Some(address) = self.holdings.key_of(owner) {
            return Ok(address);
        }
        let address = match wanted {
            None => {
                let number = self.free.take_lowest().ok_or(AllocateAddressError::Exhausted)?;
                self.layout.family().address(number)
            }
            Some(address) => {
                self.check_wanted(address)?;
                self.free.take(number(address), number(address));
                address
            }
        };
        self.holdings.insert(owner.clone(), address);
        Ok(address)
    }

    /// The address that [`AddressPool::allocate`] would return.
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn next(&self, owner: &Owner, wanted: Option<IpAddr>) -> Result<IpAddr, AllocateAddressError> {
        match (self.holdings.key_of(owner), wanted) {
            (Some(address), _) => Ok(address),
            (None, Some(address)) => self.check_wanted(address).map(|()| address),
            (None, None) => {
                let number = self.free.lowest().ok_or(AllocateAddressError::Exhausted)?;
                Ok(self.layout.family().address(number))
            }
        }
    }

    fn check_wanted(&self, address: IpAddr) -> Result<(), AllocateAddressError> {
        if !self.layout.allocatable().contains(address) {
            return Err(AllocateAddressError::NotAllocatable(address));
        }
        if let Some(owner) = self.holdings.owners_of(address).next() {
            return Err(AllocateAddressError::InUse {
                address,
                owner: owner.clone(),
            });
        }
        if self.quarantined.contains(&address) {
            return Err(AllocateAddressError::Quarantined(address));
        }
        Ok(())
    }

    /// Records that `owner` has `address`: for rebuilding a pool from existing addresses, in any order.
    ///
    /// Never refuses. An address outside of the spec is counted as out of range. An address with several owners stays
    /// in use until all have released it. An owner may have several addresses; `allocate` returns the lowest.
    pub fn adopt(&mut self, owner: Owner, address: IpAddr) -> Adoption {
        let in_range = self.layout.allocatable().contains(address);
        let also_held_by = self
            .holdings
            .owners_of(address)
            .filter(|other| **other != owner)
            .cloned()
            .collect();
        if self.holdings.insert(owner, address) {
            if in_range {
                self.free.take(number(address), number(address));
            } else {
                self.out_of_range += 1;
            }
        }
        Adoption {
            in_range,
            also_held_by,
        }
    }

    /// Releases every address of `owner` and returns them. Addresses without another owner become free.
    pub fn release(&mut self, owner: &Owner) -> Vec<IpAddr> {
        let addresses: Vec<_> = self.holdings.keys_of(owner).collect();
        for address in &addresses {
            self.release_address(owner, *address);
        }
        addresses
    }

    /// Releases one address of `owner`; false when `owner` does not have it.
    pub fn release_address(&mut self, owner: &Owner, address: IpAddr) -> bool {
        let known = self.holdings.has(owner, address);
        if self.holdings.remove(owner, address) {
            if !self.layout.allocatable().contains(address) {
                self.out_of_range -= 1;
            } else if !self.quarantined.contains(&address) {
                self.free.give_back(number(address), number(address));
            }
        }
        known
    }

    /// Sets an address aside: no owner gets it, whoever has it keeps it. It counts neither as free nor as used.
    pub fn quarantine(&mut self, address: IpAddr) {
        self.quarantined.insert(address);
        if self.layout.allocatable().contains(address) {
            self.free.take(number(address), number(address));
        }
    }

    /// Ends what [`AddressPool::quarantine`] began.
    pub fn put_back(&mut self, address: IpAddr) {
        let is_free = self.layout.allocatable().contains(address) && !self.holdings.is_held(address);
        if self.quarantined.remove(&address) && is_free {
            self.free.give_back(number(address), number(address));
        }
    }

    /// The addresses that are set aside, sorted.
    pub fn quarantined(&self) -> impl Iterator<Item = IpAddr> {
        self.quarantined.iter().copied()
    }

    /// Switches to another layout. Addresses in use stay in use, and those set aside stay so.
    pub fn replace_layout(&mut self, layout: AddressLayout) {
        self.layout = layout;
        let family = self.layout.family();
        let taken = (self.holdings.keys())
            .chain(self.quarantined.iter().copied())
            .filter(|address| Family::of(*address) == family)
            .map(|address| (number(address), number(address)));
        self.free = FreeIntervals::new(&allocatable(&self.layout).subtract(&Intervals::new(taken)));
        let allocatable = self.layout.allocatable();
        self.out_of_range = self
            .holdings
            .keys()
            .filter(|address| !allocatable.contains(*address))
            .count();
    }

    /// The address of `owner`, or the lowest if it has several.
    #[must_use]
    pub fn address_of(&self, owner: &Owner) -> Option<IpAddr> {
        self.holdings.key_of(owner)
    }

    /// The owners of `address`, sorted; more than one is a conflict.
    pub fn owners_of(&self, address: IpAddr) -> impl Iterator<Item = &Owner> {
        self.holdings.owners_of(address)
    }

    /// Every address in use with each of its owners, sorted.
    pub fn in_use(&self) -> impl Iterator<Item = (IpAddr, &Owner)> {
        self.holdings
            .iter()
            .flat_map(|(address, owners)| owners.iter().map(move |owner| (address, owner)))
    }

    /// Counts, in addresses.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::new(
            allocatable(&self.layout),
            &self.free,
            self.holdings.pairs(),
            self.out_of_range,
        )
    }
}

/// The allocatable numbers of the layout's family.
fn allocatable(layout: &AddressLayout) -> &Intervals {
    layout.allocatable().intervals(layout.family())
}
