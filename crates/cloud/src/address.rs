//! Addresses of machines, and networks of their pods, that no pool gave.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use sha2::{Digest as _, Sha256};

use crate::cidr;
use crate::identity::MachineId;

/// An address in 10.0.0.0/8 that depends on the machine's name alone, unless a machine of the same cluster has it:
/// then the next one that is free. Adopted machines bring theirs, so a restart moves none.
pub(crate) fn pick(id: &MachineId, taken: &BTreeSet<&str>) -> String {
    let digest = Sha256::digest(id.to_string().as_bytes());
    let start = u32::from_be_bytes([0, digest[0], digest[1], digest[2]]);
    let candidate = |offset: u32| {
        let host = (start + offset) & 0x00ff_ffff;
        Ipv4Addr::from(0x0a00_0000 | host)
    };
    // Network-like endings are skipped because people expect hosts not to have them.
    let fits = |address: &Ipv4Addr| !matches!(address.octets()[3], 0 | 255);
    (0..=0x00ff_ffff)
        .map(candidate)
        .filter(fits)
        .map(|address| address.to_string())
        .find(|address| !taken.contains(address.as_str()))
        .expect("a cluster has fewer machines than 10.0.0.0/8 has addresses")
}

/// The share of a pod network for a machine's Node, chosen in the same way; none when the network has no shares or
/// all are taken.
pub(crate) fn pod_network(id: &MachineId, network: &str, taken: &BTreeSet<String>) -> Option<String> {
    let shares = cidr::node_shares(network)?;
    let digest = Sha256::digest(id.to_string().as_bytes());
    let start = u32::from_be_bytes([digest[3], digest[4], digest[5], digest[6]]);
    let share = |offset: u32| cidr::node_share(network, start.wrapping_add(offset) % shares);
    (0..shares).filter_map(share).find(|share| !taken.contains(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::ClusterId;

    #[test]
    fn address_depends_on_the_name_and_avoids_the_neighbours() {
        let cluster = ClusterId { namespace: "default".into(), name: "demo".into() };
        let id = MachineId { cluster, name: "m".into() };
        let first = pick(&id, &BTreeSet::new());
        assert_eq!(first, pick(&id, &BTreeSet::new()));
        let second = pick(&id, &BTreeSet::from([first.as_str()]));
        assert!(second != first && second.starts_with("10."));
    }

    #[test]
    fn every_share_of_the_pod_network_is_found_before_it_is_full() {
        let cluster = ClusterId { namespace: "default".into(), name: "demo".into() };
        let mut taken = BTreeSet::new();
        for index in 0..4 {
            let id = MachineId { cluster: cluster.clone(), name: format!("m{index}") };
            taken.insert(pod_network(&id, "192.168.0.0/22", &taken).unwrap());
        }
        let all = (0..4).map(|index| format!("192.168.{index}.0/24")).collect();
        assert_eq!(taken, all);
        let id = MachineId { cluster, name: "late".into() };
        assert_eq!(pod_network(&id, "192.168.0.0/22", &taken), None);
    }
}
