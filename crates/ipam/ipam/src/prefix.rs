//! A v6 prefix.

use std::{fmt, net::Ipv6Addr};

use crate::{
    address_range::AddressRange,
    family::{self, Family},
};

/// A v6 address whose bits beyond a length are zero, and that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    base: Ipv6Addr,
    length: u8,
}

impl Prefix {
    /// The prefix of `length` bits that contains `address`. A length above 128 counts as 128.
    #[must_use]
    pub fn new(address: Ipv6Addr, length: u8) -> Self {
        let (first, _) = family::subnet(Family::V6, address.to_bits(), length);
        Self {
            base: Ipv6Addr::from_bits(first),
            length: length.min(Family::V6.bits()),
        }
    }

    /// The lowest address of the prefix.
    #[must_use]
    pub fn base(self) -> Ipv6Addr {
        self.base
    }

    /// The length of the prefix, in bits.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }

    /// The addresses of the prefix.
    #[must_use]
    pub fn range(self) -> AddressRange {
        AddressRange::subnet(self.base.into(), self.length)
    }

    /// Whether the two prefixes have an address in common. If so, one contains the other.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let shorter = self.length.min(other.length);
        Self::new(self.base, shorter) == Self::new(other.base, shorter)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}
