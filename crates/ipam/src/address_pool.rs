//! The allocator of one pool of addresses.

use std::net::IpAddr;

use crate::{
    address_spec::AddressLayout,
    family::{Family, number},
    free::FreeIntervals,
    holdings::Holdings,
    intervals::Intervals,
    owner::Owner,
    usage::Usage,
};

/// Who holds which address of one pool, and what is free. Plain data: it knows no objects.
///
/// Allocating and releasing take O(log n), whatever the size of the pool; its memory goes with what is in use.
///
/// An address whose IPAddress is held back for a grace period is in use like any other: the allocator knows no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPool {
    layout: AddressLayout,
    /// Allocatable and not in use.
    free: FreeIntervals,
    holdings: Holdings<IpAddr>,
    /// Addresses in use that are not allocatable.
    out_of_range: usize,
}

/// What [`AddressPool::adopt`] or [`crate::PrefixPool::adopt`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// Whether the spec would allow to allocate it.
    pub in_range: bool,
    /// Others that hold the same, or for prefixes one that overlaps; ascending. More than none is a conflict.
    pub also_held_by: Vec<Owner>,
}

/// Why an address was not allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateAddressError {
    /// Nothing is free. Worth another try when something is released, or when the pool grows.
    #[error("no address available")]
    Exhausted,
    /// The wanted address is outside, excluded, reserved or the gateway.
    #[error("address {0} cannot be allocated from the pool")]
    NotAllocatable(IpAddr),
    /// Someone else has the wanted address.
    #[error("address {address} is in use by {owner}")]
    InUse {
        /// The wanted address.
        address: IpAddr,
        /// Who has it.
        owner: Owner,
    },
}

impl AllocateAddressError {
    /// A word for metrics and reasons, of a closed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::NotAllocatable(_) => "not_allocatable",
            Self::InUse { .. } => "in_use",
        }
    }
}

impl AddressPool {
    /// A pool of which nothing is in use.
    #[must_use]
    pub fn new(layout: AddressLayout) -> Self {
        let free = FreeIntervals::new(allocatable(&layout));
        Self { layout, free, holdings: Holdings::default(), out_of_range: 0 }
    }

    /// What the pool was made from.
    #[must_use]
    pub fn layout(&self) -> &AddressLayout {
        &self.layout
    }

    /// The address of `owner`: the one it has, whatever it wants, else the wanted one, else the lowest that is free.
    ///
    /// # Errors
    /// Nothing is free, or the wanted address is not. Nothing changes then.
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

    fn check_wanted(&self, address: IpAddr) -> Result<(), AllocateAddressError> {
        if !self.layout.allocatable().contains(address) {
            return Err(AllocateAddressError::NotAllocatable(address));
        }
        if let Some(owner) = self.holdings.owners_of(address).next() {
            return Err(AllocateAddressError::InUse { address, owner: owner.clone() });
        }
        Ok(())
    }

    /// Takes note that `owner` has `address`: for rebuilding a pool from what exists, in any order.
    ///
    /// Never refuses: an address outside of the spec is counted, one that others have stays in use until all have
    /// released it, and an owner may have several, of which the lowest is the answer to `allocate`.
    pub fn adopt(&mut self, owner: Owner, address: IpAddr) -> Adoption {
        let in_range = self.layout.allocatable().contains(address);
        let also_held_by =
            self.holdings.owners_of(address).filter(|other| **other != owner).cloned().collect();
        if self.holdings.insert(owner, address) {
            if in_range {
                self.free.take(number(address), number(address));
            } else {
                self.out_of_range += 1;
            }
        }
        Adoption { in_range, also_held_by }
    }

    /// Gives back every address of `owner`, and says which those were. What nobody else has is free.
    pub fn release(&mut self, owner: &Owner) -> Vec<IpAddr> {
        let addresses: Vec<_> = self.holdings.keys_of(owner).collect();
        for address in &addresses {
            self.release_address(owner, *address);
        }
        addresses
    }

    /// Gives back one address of `owner`; false when `owner` does not have it.
    pub fn release_address(&mut self, owner: &Owner, address: IpAddr) -> bool {
        let known = self.holdings.has(owner, address);
        if self.holdings.remove(owner, address) {
            if self.layout.allocatable().contains(address) {
                self.free.give_back(number(address), number(address));
            } else {
                self.out_of_range -= 1;
            }
        }
        known
    }

    /// Goes by another spec from now on. What is in use stays so.
    pub fn replace_layout(&mut self, layout: AddressLayout) {
        self.layout = layout;
        let family = self.layout.family();
        let taken = (self.holdings.keys())
            .filter(|address| Family::of(*address) == family)
            .map(|address| (number(address), number(address)));
        self.free = FreeIntervals::new(&allocatable(&self.layout).subtract(&Intervals::new(taken)));
        let allocatable = self.layout.allocatable();
        self.out_of_range = self.holdings.keys().filter(|address| !allocatable.contains(*address)).count();
    }

    /// The address `owner` has, the lowest of several.
    #[must_use]
    pub fn address_of(&self, owner: &Owner) -> Option<IpAddr> {
        self.holdings.key_of(owner)
    }

    /// Who has `address`, ascending; more than one is a conflict.
    pub fn owners_of(&self, address: IpAddr) -> impl Iterator<Item = &Owner> {
        self.holdings.owners_of(address)
    }

    /// Every address in use and an owner of it, ascending by address and owner.
    pub fn in_use(&self) -> impl Iterator<Item = (IpAddr, &Owner)> {
        self.holdings.iter().flat_map(|(address, owners)| owners.iter().map(move |owner| (address, owner)))
    }

    /// Counts.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::new(allocatable(&self.layout), &self.free, self.holdings.pairs(), self.out_of_range)
    }
}

/// The allocatable numbers of the layout's one family.
fn allocatable(layout: &AddressLayout) -> &Intervals {
    layout.allocatable().intervals(layout.family())
}
