//! The spec of a pool of addresses: its meaning, its errors, and the addresses it allows.

use std::net::IpAddr;

use crate::{
    address_range::AddressRange, address_set::AddressSet, family::Family, field_error::FieldError,
    parse::parse_address,
};

const ADDRESSES: &str = "spec.addresses";
const PREFIX: &str = "spec.prefix";
const GATEWAY: &str = "spec.gateway";
const EXCLUDED: &str = "spec.excludedAddresses";
const GRACE_PERIOD: &str = "spec.addressReuseGracePeriodSeconds";

const NOT_AN_ENTRY: &str = "provided address is not a valid IP, range, nor CIDR";
const MIXED_FAMILIES: &str = "provided addresses are of mixed IP families";

/// The spec of an InClusterIPPool or a GlobalInClusterIPPool, as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPoolSpec {
    /// Entries to allocate from: addresses, ranges, CIDRs.
    pub addresses: Vec<String>,
    /// Length of the subnet the addresses are in.
    pub prefix: i64,
    /// The gateway, which is never allocated; empty for none.
    pub gateway: String,
    /// Whether the first and the last address of a v4 subnet and the first of a v6 subnet may be allocated.
    pub allocate_reserved_ip_addresses: bool,
    /// Entries not to allocate from.
    pub excluded_addresses: Vec<String>,
    /// How long a released address is held back, in seconds; `None` means 0.
    pub address_reuse_grace_period_seconds: Option<i64>,
}

/// A valid spec: one family, all entries parsed, the allocatable addresses computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressLayout {
    family: Family,
    prefix: u8,
    gateway: Option<IpAddr>,
    allocatable: AddressSet,
}

impl AddressLayout {
    /// The family of every address.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Length of the subnet, for `IPAddress.spec.prefix`.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    /// All addresses that may be allocated: without exclusions, reserved addresses and gateway.
    #[must_use]
    pub fn allocatable(&self) -> &AddressSet {
        &self.allocatable
    }
}

impl AddressPoolSpec {
    /// Checks every rule and computes the allocatable addresses.
    ///
    /// # Errors
    /// All errors of the spec. Whether all entries are in one subnet is checked only if there is no other error.
    pub fn validate(&self) -> Result<AddressLayout, Vec<FieldError>> {
        let mut errors = Vec::new();
        if self.addresses.is_empty() {
            errors.push(FieldError::new(
                ADDRESSES,
                &*self.addresses,
                "addresses is required",
            ));
        }
        if self.prefix < 0 {
            errors.push(FieldError::new(PREFIX, self.prefix, "a valid prefix is required"));
        }
        let addresses = read_entries(ADDRESSES, &self.addresses, &mut errors);
        let gateway = self.read_gateway(&addresses, &mut errors);
        let excluded = read_entries(EXCLUDED, &self.excluded_addresses, &mut errors);
        if families_differ(&addresses, &excluded) {
            let message = "addresses and excluded addresses are of mixed IP families";
            errors.push(FieldError::new(EXCLUDED, &*self.excluded_addresses, message));
        }
        let grace_period = self.address_reuse_grace_period_seconds.unwrap_or(0);
        if grace_period < 0 {
            let message = "addressReuseGracePeriodSeconds must not be negative";
            errors.push(FieldError::new(GRACE_PERIOD, grace_period, message));
        }
        let (Some(lowest), true) = (addresses.lowest(), errors.is_empty()) else {
            return Err(errors);
        };
        let prefix = self.subnet_prefix(lowest).ok_or_else(|| {
            vec![FieldError::new(
                PREFIX,
                self.prefix,
                "provided prefix is not valid",
            )]
        })?;
        self.check_one_subnet(AddressRange::subnet(lowest, prefix))?;
        Ok(AddressLayout {
            family: Family::of(lowest),
            prefix,
            gateway,
            allocatable: self.without_what_is_kept_back(&addresses, &excluded, gateway),
        })
    }

    /// The allocatable addresses, ignoring entries that cannot be read.
    ///
    /// For stored specs that are invalid: their addresses may be in use all the same.
    #[must_use]
    pub fn allocatable(&self) -> AddressSet {
        let read = |entries: &[String]| {
            entries
                .iter()
                .filter_map(|entry| entry.parse::<AddressRange>().ok())
                .collect()
        };
        let gateway = parse_address(&self.gateway).ok();
        self.without_what_is_kept_back(&read(&self.addresses), &read(&self.excluded_addresses), gateway)
    }

    fn without_what_is_kept_back(
        &self,
        addresses: &AddressSet,
        excluded: &AddressSet,
        gateway: Option<IpAddr>,
    ) -> AddressSet {
        let mut kept_back: Vec<IpAddr> = gateway.into_iter().collect();
        // The lowest address determines the subnet even if it is excluded.
        let lowest = addresses
            .lowest()
            .filter(|_| !self.allocate_reserved_ip_addresses);
        if let Some((lowest, prefix)) = lowest.and_then(|lowest| Some((lowest, self.subnet_prefix(lowest)?)))
        {
            let subnet = AddressRange::subnet(lowest, prefix);
            kept_back.push(subnet.first());
            if subnet.family() == Family::V4 {
                kept_back.push(subnet.last());
            }
        }
        addresses
            .subtract(excluded)
            .subtract(&kept_back.into_iter().collect())
    }

    /// The prefix, if it is a valid length for the family of `address`.
    fn subnet_prefix(&self, address: IpAddr) -> Option<u8> {
        u8::try_from(self.prefix)
            .ok()
            .filter(|prefix| *prefix <= Family::of(address).bits())
    }

    fn read_gateway(&self, addresses: &AddressSet, errors: &mut Vec<FieldError>) -> Option<IpAddr> {
        if self.gateway.is_empty() {
            return None;
        }
        match parse_address(&self.gateway) {
            Ok(gateway) => {
                if families_differ(&AddressSet::from_iter([gateway]), addresses) {
                    let message = "provided gateway and addresses are of mixed IP families";
                    errors.push(FieldError::new(GATEWAY, &*self.gateway, message));
                }
                Some(gateway)
            }
            Err(error) => {
                errors.push(FieldError::new(GATEWAY, &*self.gateway, error.to_string()));
                None
            }
        }
    }

    fn check_one_subnet(&self, subnet: AddressRange) -> Result<(), Vec<FieldError>> {
        let inside = |entry: &str| {
            entry
                .parse::<AddressRange>()
                .is_ok_and(|range| subnet.contains_range(range))
        };
        let message = "provided address belongs to a different subnet than others";
        let outside: Vec<_> = (self.addresses.iter())
            .filter(|entry| !inside(entry))
            .map(|entry| FieldError::new(ADDRESSES, entry.as_str(), message))
            .collect();
        if outside.is_empty() { Ok(()) } else { Err(outside) }
    }
}

fn read_entries(field: &'static str, entries: &[String], errors: &mut Vec<FieldError>) -> AddressSet {
    let mut ranges = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry.parse::<AddressRange>() {
            Ok(range) => ranges.push(range),
            Err(_) => errors.push(FieldError::new(field, entry.as_str(), NOT_AN_ENTRY)),
        }
    }
    let set = AddressSet::from_iter(ranges);
    if Family::BOTH
        .iter()
        .all(|family| !set.intervals(*family).is_empty())
    {
        errors.push(FieldError::new(field, entries, MIXED_FAMILIES));
    }
    set
}

/// Whether one set has only v4 addresses and the other only v6 addresses.
fn families_differ(one: &AddressSet, other: &AddressSet) -> bool {
    let has = |set: &AddressSet, family| !set.intervals(family).is_empty();
    has(one, Family::V4) && has(other, Family::V6) || has(one, Family::V6) && has(other, Family::V4)
}
