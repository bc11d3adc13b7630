//! Addresses of machines that no pool gave one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use sha2::{Digest as _, Sha256};

use crate::identity::MachineId;

/// An address in 10.0.0.0/8 that depends on the machine's name alone, unless a machine of the same cluster has it:
/// then the next one that is free. Adopted machines bring theirs, so a restart moves none.
pub(crate) fn pick(id: &MachineId, taken: &BTreeSet<String>) -> String {
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
        .find(|address| !taken.contains(address))
        .expect("a cluster has fewer machines than 10.0.0.0/8 has addresses")
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
        let second = pick(&id, &BTreeSet::from([first.clone()]));
        assert!(second != first && second.starts_with("10."));
    }
}
