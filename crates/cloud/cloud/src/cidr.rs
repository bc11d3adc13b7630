//! The arithmetic of IP networks that clusters need.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A parsed network: its first address as a number, its prefix length, and whether it is IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    first: u128,
    prefix: u32,
    bits: u32,
}

fn parse(cidr: &str) -> Option<Network> {
    let (address, prefix) = cidr.split_once('/')?;
    let prefix: u32 = prefix.parse().ok()?;
    let (number, bits) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    if prefix > bits {
        return None;
    }
    let host_bits = bits - prefix;
    let first = if host_bits == 128 {
        0
    } else {
        (number >> host_bits) << host_bits
    };
    Some(Network { first, prefix, bits })
}

fn address_of(number: u128, bits: u32) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if bits == 32 => Ipv4Addr::from(number).into(),
        _ => Ipv6Addr::from(number).into(),
    }
}

/// The address number `index` of a network. None if the network has no such address or `cidr` is not a network.
pub(crate) fn address(cidr: &str, index: u32) -> Option<IpAddr> {
    let network = parse(cidr)?;
    let host_bits = network.bits - network.prefix;
    let fits = host_bits >= 32 || u128::from(index) < 1 << host_bits;
    fits.then(|| address_of(network.first + u128::from(index), network.bits))
}

/// Prefix length of the part of a pod network that a Node gets: the controller manager's default.
fn share_length(network: &Network) -> u32 {
    if network.bits == 32 { 24 } else { 64 }
}

/// How many parts for Nodes a pod network has. None if `cidr` is not a network or is smaller than one part. At most
/// 2^16: the controller manager refuses networks with more.
pub(crate) fn node_shares(cidr: &str) -> Option<u32> {
    let network = parse(cidr)?;
    let spare = share_length(&network).checked_sub(network.prefix)?;
    Some(1 << spare.min(16))
}

/// The part number `index`.
pub(crate) fn node_share(cidr: &str, index: u32) -> Option<String> {
    if index >= node_shares(cidr)? {
        return None;
    }
    let network = parse(cidr)?;
    let length = share_length(&network);
    let first = network.first + (u128::from(index) << (network.bits - length));
    Some(format!("{}/{length}", address_of(first, network.bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("network", 64 * 1024, &["", "10.0.0.0/"], |text| {
            let _ = node_share(text, 1);
        });
    }

    #[test]
    fn addresses_are_counted_from_the_start_of_the_network() {
        assert_eq!(address("10.96.0.0/12", 10), Some("10.96.0.10".parse().unwrap()));
        assert_eq!(address("10.97.3.4/12", 1), Some("10.96.0.1".parse().unwrap()));
        assert_eq!(address("fd00:1::/108", 1), Some("fd00:1::1".parse().unwrap()));
        assert_eq!(address("::/0", 7), Some("::7".parse().unwrap()));
        assert_eq!(address("10.0.0.0/31", 10), None);
        assert_eq!(address("10.0.0.0/33", 1), None);
        assert_eq!(address("nonsense", 1), None);
    }

    #[test]
    fn node_gets_its_share_of_the_pod_network() {
        assert_eq!(node_share("192.168.0.0/16", 3).as_deref(), Some("192.168.3.0/24"));
        assert_eq!(node_share("192.168.0.0/16", 256), None);
        assert_eq!(node_share("192.168.7.0/24", 0).as_deref(), Some("192.168.7.0/24"));
        assert_eq!(node_share("192.168.7.0/25", 0), None);
        assert_eq!(node_share("fd00::/48", 2).as_deref(), Some("fd00:0:0:2::/64"));
    }
}
