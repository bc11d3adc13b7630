//! The validation of both kinds of specs.

use std::net::IpAddr;

use nephele_api::ipam::{
    v1alpha2::{InClusterIPPoolSpec, InClusterPrefixPoolSpec},
    v1beta2::IPAddressSpec,
};
use nephele_ipam::{
    FieldError, Prefix, UpdateError, check_address_pool_update, check_prefix_pool_update, parse_address,
};

use crate::pool::{address_spec, prefix_spec};

/// The rules of a pool's spec.
pub(super) trait PoolRules: PartialEq + Send + Sync {
    /// Whether the spec is valid.
    ///
    /// # Errors
    /// All errors of the spec.
    fn check(&self) -> Result<(), Vec<FieldError>>;

    /// Settings that are valid but probably not intended.
    fn warnings(&self) -> Vec<String>;

    /// Whether this spec allows an address that `new` does not allow. Only then do the addresses in use matter.
    fn allows_more_than(&self, new: &Self) -> bool;

    /// Whether the spec may change to `new` while these addresses are in use.
    ///
    /// # Errors
    /// Why it may not.
    fn check_update(&self, new: &Self, in_use: &[IPAddressSpec]) -> Result<(), UpdateError>;
}

impl PoolRules for InClusterIPPoolSpec {
    fn check(&self) -> Result<(), Vec<FieldError>> {
        address_spec(self).validate().map(|_| ())
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn allows_more_than(&self, new: &Self) -> bool {
        !address_spec(self)
            .allocatable()
            .subtract(&address_spec(new).allocatable())
            .is_empty()
    }

    fn check_update(&self, new: &Self, in_use: &[IPAddressSpec]) -> Result<(), UpdateError> {
        let addresses = in_use
            .iter()
            .filter_map(|address| parse_address(&address.address).ok());
        check_address_pool_update(&address_spec(self), &address_spec(new), addresses)
    }
}

impl PoolRules for InClusterPrefixPoolSpec {
    fn check(&self) -> Result<(), Vec<FieldError>> {
        prefix_spec(self).validate().map(|_| ())
    }

    fn warnings(&self) -> Vec<String> {
        prefix_spec(self)
            .warnings()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    fn allows_more_than(&self, new: &Self) -> bool {
        match (
            prefix_spec(self).readable_layout(),
            prefix_spec(new).readable_layout(),
        ) {
            (Some(old), Some(new)) => !old.allocatable().subtract(&new.allocatable()).is_empty(),
            _ => false,
        }
    }

    fn check_update(&self, new: &Self, in_use: &[IPAddressSpec]) -> Result<(), UpdateError> {
        check_prefix_pool_update(
            &prefix_spec(self),
            &prefix_spec(new),
            in_use.iter().filter_map(prefix),
        )
    }
}

/// The prefix of an IPAddress; none if it has no valid one, because it was created by hand.
fn prefix(address: &IPAddressSpec) -> Option<Prefix> {
    let IpAddr::V6(base) = parse_address(&address.address).ok()? else {
        return None;
    };
    let length = u8::try_from(address.prefix?)
        .ok()
        .filter(|length| (1..=128).contains(length))?;
    Some(Prefix::new(base, length))
}
