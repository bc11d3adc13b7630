//! Whether a spec may replace another while addresses of the pool are in use.

use std::net::IpAddr;

use crate::{
    address_range::AddressRange, address_set::AddressSet, address_spec::AddressPoolSpec, prefix::Prefix,
    prefix_spec::PrefixPoolSpec,
};

/// Why a new spec is refused, in the words of the in-cluster provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// These addresses are in use and allowed by the old spec, but not by the new one.
    #[error("pool addresses do not contain allocated addresses: [{}]", listed(.0.ranges().map(whole)))]
    AddressesInUse(AddressSet),
    /// The length of allocated prefixes was changed.
    #[error("spec.allocationPrefixLength is immutable")]
    AllocationPrefixLengthImmutable,
    /// These prefixes are in use and allowed by the old spec, but not by the new one; sorted as text.
    #[error("existing allocations become non-allocatable: [{}]", listed(.0.iter().cloned()))]
    PrefixesInUse(Vec<String>),
}

fn whole(range: AddressRange) -> String {
    format!("{}-{}", range.first(), range.last())
}

/// The most entries that a message lists.
const LISTED_MAX: usize = 100;

/// The first entries, and how many others there are.
fn listed(entries: impl Iterator<Item = String>) -> String {
    let mut entries: Vec<_> = entries.collect();
    let others = entries.len().saturating_sub(LISTED_MAX);
    entries.truncate(LISTED_MAX);
    if others > 0 {
        entries.push(format!("and {others} others"));
    }
    entries.join(" ")
}

/// Whether `new` may replace `old` in a pool in which `in_use` is allocated.
///
/// It may not if an address in use is allowed by `old` and not by `new`. An address that is already out of range
/// does not prevent other changes, such as to annotations and finalizers. If `old` is invalid, its readable entries
/// count.
///
/// # Errors
/// The addresses that would be out of range.
pub fn check_address_pool_update(
    old: &AddressPoolSpec,
    new: &AddressPoolSpec,
    in_use: impl IntoIterator<Item = IpAddr>,
) -> Result<(), UpdateError> {
    let lost = old
        .allocatable()
        .subtract(&new.allocatable())
        .intersect(&in_use.into_iter().collect());
    if lost.is_empty() {
        Ok(())
    } else {
        Err(UpdateError::AddressesInUse(lost))
    }
}

/// Whether `new` may replace `old` in a pool in which `in_use` is allocated; see [`check_address_pool_update`].
///
/// # Errors
/// A changed length of allocated prefixes, or the prefixes that would be out of range.
pub fn check_prefix_pool_update(
    old: &PrefixPoolSpec,
    new: &PrefixPoolSpec,
    in_use: impl IntoIterator<Item = Prefix>,
) -> Result<(), UpdateError> {
    if old.effective_allocation_prefix_length() != new.effective_allocation_prefix_length() {
        return Err(UpdateError::AllocationPrefixLengthImmutable);
    }
    let (Some(old), Some(new)) = (old.readable_layout(), new.readable_layout()) else {
        return Ok(());
    };
    let mut lost: Vec<_> = (in_use.into_iter())
        .filter(|prefix| old.is_allocatable(*prefix) && !new.is_allocatable(*prefix))
        .map(|prefix| prefix.base().to_string())
        .collect();
    lost.sort_unstable();
    if lost.is_empty() {
        Ok(())
    } else {
        Err(UpdateError::PrefixesInUse(lost))
    }
}
