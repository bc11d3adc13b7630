//! One entry of a pool: an address, a range or a CIDR.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::{
    family::{self, Family, number},
    parse::{ParseAddressError, ParsePrefixError, parse_address, parse_prefix},
};

/// Addresses of one family from a first to a last, both included.
///
/// Text forms, in this order: with a `-` it is a range (`10.0.0.10-10.0.0.20`), with a `/` a CIDR whose host bits
/// are masked off (`10.0.0.1/24` is all of `10.0.0.0/24`), else one address. Spaces are not allowed; v6 zones are
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    family: Family,
    first: u128,
    last: u128,
}

impl AddressRange {
    /// The range from `first` to `last`.
    ///
    /// # Errors
    /// When the addresses are of different families, or `last` is below `first`.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, ParseRangeError> {
        let family = Family::of(first);
        if family != Family::of(last) {
            return Err(ParseRangeError::MixedFamilies { first, last });
        }
        if last < first {
            return Err(ParseRangeError::Reversed { first, last });
        }
        Ok(Self {
            family,
            first: number(first),
            last: number(last),
        })
    }

    /// One address.
    #[must_use]
    pub fn single(address: IpAddr) -> Self {
        let number = number(address);
        Self {
            family: Family::of(address),
            first: number,
            last: number,
        }
    }

    /// The subnet of `length` bits that contains `address`; with more bits than the family has, the address alone.
    #[must_use]
    pub fn subnet(address: IpAddr, length: u8) -> Self {
        let family = Family::of(address);
        let (first, last) = family::subnet(family, number(address), length);
        Self { family, first, last }
    }

    /// The numbers have to be of the family and in order.
    pub(crate) fn from_numbers(family: Family, (first, last): (u128, u128)) -> Self {
        debug_assert!(
            first <= last && last <= family.highest(),
            "numbers are of the family and in order"
        );
        Self { family, first, last }
    }

    pub(crate) fn numbers(self) -> (u128, u128) {
        (self.first, self.last)
    }

    /// The family of all its addresses.
    #[must_use]
    pub fn family(self) -> Family {
        self.family
    }

    /// The lowest address.
    #[must_use]
    pub fn first(self) -> IpAddr {
        self.family.address(self.first)
    }

    /// The highest address.
    #[must_use]
    pub fn last(self) -> IpAddr {
        self.family.address(self.last)
    }

    /// Whether `address` is in the range.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.family == Family::of(address) && (self.first..=self.last).contains(&number(address))
    }

    /// Whether every address of `other` is in the range.
    #[must_use]
    pub fn contains_range(self, other: Self) -> bool {
        self.family == other.family && self.first <= other.first && other.last <= self.last
    }

    /// How many addresses; the 2^128 of `::/0` are reported as `u128::MAX`.
    #[must_use]
    pub fn count(self) -> u128 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// How many addresses of the range are below `address`. None if it is not in the range.
    #[must_use]
    pub fn offset_of(self, address: IpAddr) -> Option<u128> {
        self.contains(address)
            .then(|| number(address).saturating_sub(self.first))
    }

    /// The part of at most `size` addresses, of which one is enough, that begins `offset` addresses above the first one. None
    /// if the range ends before.
    #[must_use]
    pub fn part(self, offset: u128, size: u128) -> Option<Self> {
        let first = self
            .first
            .checked_add(offset)
            .filter(|first| *first <= self.last)?;
        let last = first.saturating_add(size.max(1).saturating_sub(1)).min(self.last);
        Some(Self { first, last, ..self })
    }
}

impl FromStr for AddressRange {
    type Err = ParseRangeError;

    fn from_str(entry: &str) -> Result<Self, Self::Err> {
        if let Some((first, last)) = entry.split_once('-') {
            // A zone may contain a slash and is dropped, so a prefix length at the end of a range would go unnoticed.
            if entry.contains('/') {
                return Err(ParseRangeError::PrefixInRange(entry.to_owned()));
            }
            let end = |end| {
                parse_address(end).map_err(|source| ParseRangeError::End {
                    range: entry.to_owned(),
                    source,
                })
            };
            return Self::new(end(first)?, end(last)?);
        }
        if entry.contains('/') {
            let (address, length) = parse_prefix(entry)?;
            return Ok(Self::subnet(address, length));
        }
        Ok(Self::single(parse_address(entry)?))
    }
}

impl fmt::Display for AddressRange {
    /// A single address is written as it is, more as `first-last`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first())
        } else {
            write!(f, "{}-{}", self.first(), self.last())
        }
    }
}

/// Why a text is not an address, a range or a CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseRangeError {
    /// Not an address.
    #[error(transparent)]
    Address(#[from] ParseAddressError),
    /// Not a CIDR.
    #[error(transparent)]
    Prefix(#[from] ParsePrefixError),
    /// An end of the range is not an address.
    #[error("failed to read an end of range {range:?}")]
    End {
        range: String,
        /// Why the end is not an address.
        #[source]
        source: ParseAddressError,
    },
    /// A prefix length in a range.
    #[error("range {0:?} has a prefix length")]
    PrefixInRange(String),
    /// One end is v4, the other v6.
    #[error("the ends of range {first}-{last} are of different families")]
    MixedFamilies { first: IpAddr, last: IpAddr },
    /// The last address is below the first.
    #[error("range {first}-{last} ends before it begins")]
    Reversed { first: IpAddr, last: IpAddr },
}
