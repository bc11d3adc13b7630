//! The spec of a pool of prefixes: its meaning, its errors, and the prefixes it allows.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    address_range::AddressRange,
    address_set::AddressSet,
    family::Family,
    field_error::FieldError,
    intervals::Intervals,
    parse::{parse_address, parse_prefix},
    prefix::Prefix,
};

const PREFIXES: &str = "spec.prefixes";
const LENGTH: &str = "spec.allocationPrefixLength";
const GATEWAY: &str = "spec.gateway";
const EXCLUDED: &str = "spec.excludedPrefixes";

/// Length of allocated prefixes if the spec does not set one.
pub const DEFAULT_ALLOCATION_PREFIX_LENGTH: u8 = 64;

/// The spec of an InClusterPrefixPool or a GlobalInClusterPrefixPool, as it was written. v6 only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixPoolSpec {
    /// Network-aligned CIDRs to allocate from.
    pub prefixes: Vec<String>,
    /// Length of allocated prefixes; 0 is [`DEFAULT_ALLOCATION_PREFIX_LENGTH`].
    pub allocation_prefix_length: i64,
    /// The gateway, which is copied to each IPAddress and not reserved; empty for none.
    pub gateway: String,
    /// Addresses, ranges and CIDRs that no allocated prefix may contain or overlap.
    pub excluded_prefixes: Vec<String>,
}

/// A valid spec, with the allocatable prefixes computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixLayout {
    length: u8,
    gateway: Option<Ipv6Addr>,
    /// Allocatable prefixes as numbers: a prefix is its first `length` bits.
    allocatable: Intervals,
}

impl PrefixLayout {
    fn new(length: u8, gateway: Option<Ipv6Addr>, prefixes: &AddressSet, excluded: &AddressSet) -> Self {
        let blocks = |set: &AddressSet| {
            Intervals::new(
                set.intervals(Family::V6)
                    .as_slice()
                    .iter()
                    .map(|&range| blocks_of(length, range)),
            )
        };
        Self {
            length,
            gateway,
            allocatable: blocks(prefixes).subtract(&blocks(excluded)),
        }
    }

    /// Length of every allocated prefix.
    #[must_use]
    pub fn allocation_prefix_length(&self) -> u8 {
        self.length
    }

    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> Option<Ipv6Addr> {
        self.gateway
    }

    /// Whether `prefix` is of the allocated length, within the pool's prefixes and free of excluded addresses.
    #[must_use]
    pub fn is_allocatable(&self, prefix: Prefix) -> bool {
        prefix.length() == self.length && self.allocatable.contains(self.blocks(prefix).0)
    }

    /// The addresses of all allocatable prefixes.
    #[must_use]
    pub fn allocatable(&self) -> AddressSet {
        let ranges = self.allocatable.as_slice().iter();
        let addresses = ranges.map(|&(first, last)| {
            (
                self.prefix(first).range().numbers().0,
                self.prefix(last).range().numbers().1,
            )
        });
        AddressSet::of(Family::V6, Intervals::new(addresses))
    }

    pub(crate) fn allocatable_blocks(&self) -> &Intervals {
        &self.allocatable
    }

    /// The first and last block in which `prefix`, of any length, has addresses.
    pub(crate) fn blocks(&self, prefix: Prefix) -> (u128, u128) {
        blocks_of(self.length, prefix.range().numbers())
    }

    pub(crate) fn prefix(&self, block: u128) -> Prefix {
        Prefix::new(Ipv6Addr::from_bits(block << host_bits(self.length)), self.length)
    }
}

/// The host bits of an allocated prefix: less than 128, because a length is at least 1.
fn host_bits(length: u8) -> u32 {
    u32::from(Family::V6.bits().saturating_sub(length))
}

fn blocks_of(length: u8, (first, last): (u128, u128)) -> (u128, u128) {
    (first >> host_bits(length), last >> host_bits(length))
}

impl PrefixPoolSpec {
    /// The effective length: the given one, or the default for 0.
    #[must_use]
    pub fn effective_allocation_prefix_length(&self) -> i64 {
        match self.allocation_prefix_length {
            0 => i64::from(DEFAULT_ALLOCATION_PREFIX_LENGTH),
            given => given,
        }
    }

    fn length(&self) -> Option<u8> {
        u8::try_from(self.effective_allocation_prefix_length())
            .ok()
            .filter(|length| (1..=Family::V6.bits()).contains(length))
    }

    /// Checks every rule and computes the allocatable prefixes.
    ///
    /// # Errors
    /// All errors of the spec. Without prefixes, or with an invalid length, nothing else is checked.
    pub fn validate(&self) -> Result<PrefixLayout, Vec<FieldError>> {
        if self.prefixes.is_empty() {
            return Err(vec![FieldError::new(
                PREFIXES,
                &*self.prefixes,
                "prefixes is required",
            )]);
        }
        let length = self.length().ok_or_else(|| {
            let message = "allocationPrefixLength must be between 1 and 128";
            vec![FieldError::new(
                LENGTH,
                self.effective_allocation_prefix_length(),
                message,
            )]
        })?;
        let mut errors = Vec::new();
        let prefixes: AddressSet = self
            .prefixes
            .iter()
            .filter_map(|entry| read_prefix(entry, length, &mut errors))
            .collect();
        let gateway = self.read_gateway(&mut errors);
        let excluded: AddressSet = self
            .excluded_prefixes
            .iter()
            .filter_map(|entry| read_excluded(entry, &mut errors))
            .collect();
        if errors.is_empty() {
            Ok(PrefixLayout::new(length, gateway, &prefixes, &excluded))
        } else {
            Err(errors)
        }
    }

    /// The layout, ignoring entries that cannot be read.
    ///
    /// `None` if the length is invalid. For stored specs that are invalid.
    #[must_use]
    pub fn readable_layout(&self) -> Option<PrefixLayout> {
        let length = self.length()?;
        let mut unheeded = Vec::new();
        let prefixes = self
            .prefixes
            .iter()
            .filter_map(|entry| read_prefix(entry, length, &mut unheeded))
            .collect();
        let excluded = self
            .excluded_prefixes
            .iter()
            .filter_map(|entry| read_excluded(entry, &mut unheeded))
            .collect();
        Some(PrefixLayout::new(
            length,
            self.read_gateway(&mut unheeded),
            &prefixes,
            &excluded,
        ))
    }

    /// Settings that are valid but probably not intended: for the admission response to a create or an update.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        if self.effective_allocation_prefix_length() != i64::from(Family::V6.bits()) {
            return Vec::new();
        }
        let mut warnings = vec![
            "spec.allocationPrefixLength=128 behaves like host-address allocation; consider InClusterIPPool for \
             single-address semantics",
        ];
        let inside = |gateway| {
            let prefixes = self.prefixes.iter().filter_map(|entry| parse_prefix(entry).ok());
            prefixes
                .into_iter()
                .any(|(address, length)| AddressRange::subnet(address, length).contains(gateway))
        };
        if parse_address(&self.gateway).is_ok_and(inside) {
            warnings.push(
                "spec.gateway is within spec.prefixes and is not reserved; with /128 allocationPrefixLength it may \
                 also be allocated to claims",
            );
        }
        warnings
    }

    fn read_gateway(&self, errors: &mut Vec<FieldError>) -> Option<Ipv6Addr> {
        if self.gateway.is_empty() {
            return None;
        }
        match parse_address(&self.gateway) {
            Ok(IpAddr::V6(gateway)) => return Some(gateway),
            Ok(IpAddr::V4(_)) => {
                errors.push(FieldError::new(
                    GATEWAY,
                    &*self.gateway,
                    "provided gateway must be IPv6",
                ));
            }
            Err(error) => errors.push(FieldError::new(GATEWAY, &*self.gateway, error.to_string())),
        }
        None
    }
}

fn read_prefix(entry: &str, allocation_length: u8, errors: &mut Vec<FieldError>) -> Option<AddressRange> {
    let mut refuse = |message: &str| errors.push(FieldError::new(PREFIXES, entry, message));
    let Ok((address, length)) = parse_prefix(entry) else {
        refuse("provided entry is not a valid IPv6 CIDR");
        return None;
    };
    if address.is_ipv4() {
        refuse("only IPv6 prefixes are supported");
        return None;
    }
    let range = AddressRange::subnet(address, length);
    let aligned = range.first() == address;
    if !aligned {
        refuse("CIDR must be network-aligned");
    }
    let holds_one = length <= allocation_length;
    if !holds_one {
        refuse(&format!(
            "CIDR prefix length must be <= allocationPrefixLength ({allocation_length})"
        ));
    }
    (aligned && holds_one).then_some(range)
}

fn read_excluded(entry: &str, errors: &mut Vec<FieldError>) -> Option<AddressRange> {
    match entry.parse::<AddressRange>() {
        Ok(range) if range.family() == Family::V6 => return Some(range),
        Ok(_) => {
            let message = "only IPv6 excluded prefixes are supported";
            errors.push(FieldError::new(EXCLUDED, entry, message));
        }
        Err(_) => {
            let message = "provided entry is not a valid IP, range, nor CIDR";
            errors.push(FieldError::new(EXCLUDED, entry, message));
        }
    }
    None
}
