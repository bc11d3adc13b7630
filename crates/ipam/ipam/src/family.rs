//! Addresses as numbers, so that v4 and v6 share one arithmetic.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The family of an address. A v4-mapped v6 address (`::ffff:192.0.2.1`) is of the v6 family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// 32 bit.
    V4,
    /// 128 bit.
    V6,
}

impl Family {
    /// v4 and v6.
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family of `address`.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address, which is also the longest prefix.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address as a number; the lowest is 0.
    pub(crate) fn highest(self) -> u128 {
        match self {
            Self::V4 => u128::from(u32::MAX),
            Self::V6 => u128::MAX,
        }
    }

    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(
                u32::try_from(number).expect("a v4 number has 32 bits"),
            )),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// First and last number of the subnet of `length` bits that holds `number`.
pub(crate) fn subnet(family: Family, number: u128, length: u8) -> (u128, u128) {
    let host_bits = u32::from(family.bits().saturating_sub(length));
    let hosts = 1_u128
        .checked_shl(host_bits)
        .map_or(u128::MAX, |size| size.wrapping_sub(1));
    (number & !hosts, number | hosts)
}
