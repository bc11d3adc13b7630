//! What each machine of a cluster has to itself: addresses, parts of the pod networks, and a number in its set. Pure.
//!
//! A choice depends on the machine's name and on what other machines have, so it would differ after a restart, when
//! machines return in another order. Therefore published values are used again: a machine brings its own values
//! along, and the values of machines that have not returned yet are reserved.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::{Ipv4Addr, Ipv6Addr},
};

use nephele_model::{MachineId, SimTime};
use sha2::{Digest as _, Sha256};

use crate::{cidr, identity::MachineAddress, spec::Allocation};

/// The allocations of the machines of one cluster by name: machines that exist, and machines that are expected back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocations {
    machines: BTreeMap<String, Allocation>,
    /// The addresses of leaked instances, by the name of the machine and by when it leaked.
    leaked: BTreeMap<(String, SimTime), Vec<String>>,
    addresses: Taken<String>,
    pod_cidrs: Taken<String>,
    ordinals: Taken<(String, u32)>,
}

/// How many machines have a value. Each value belongs to one machine, unless objects were copied by hand.
#[derive(Debug, PartialEq, Eq)]
struct Taken<T>(BTreeMap<T, usize>);

impl<T> Default for Taken<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Taken<T> {
    fn take(&mut self, thing: T) {
        *self.0.entry(thing).or_default() += 1;
    }

    fn release(&mut self, thing: &T) {
        if let Some(count) = self.0.get_mut(thing) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(thing);
            }
        }
    }

    fn is_free(&self, thing: &T) -> bool {
        !self.0.contains_key(thing)
    }
}

impl Allocations {
    /// Reserves the published values of a machine until it is created or deleted.
    pub(crate) fn reserve(&mut self, machine: &str, published: Allocation) {
        if !self.machines.contains_key(machine) {
            self.note(machine, published);
        }
    }

    /// Gives a machine its published values and chooses the missing ones. `networks` are the cluster's pod networks.
    pub(crate) fn allocate(
        &mut self,
        id: &MachineId,
        networks: &[String],
        published: Allocation,
    ) -> Allocation {
        let reserved = self.release(&id.name).unwrap_or_default();
        let mut allocation = published;
        if allocation.addresses.is_empty() {
            allocation.addresses = reserved.addresses;
        }
        if allocation.addresses.is_empty() {
            let address = |kind: &str, address: String| MachineAddress {
                kind: kind.to_owned(),
                address,
            };
            let internal = families(networks).into_iter().map(|is_ipv6| {
                let picked = if is_ipv6 {
                    self.pick_ipv6_address(id)
                } else {
                    self.pick_address(id)
                };
                address("InternalIP", picked)
            });
            allocation.addresses = internal.chain([address("Hostname", id.name.clone())]).collect();
        }
        if allocation.pod_cidrs.is_empty() {
            allocation.pod_cidrs = reserved.pod_cidrs;
        }
        if allocation.pod_cidrs.is_empty() {
            allocation.pod_cidrs = networks
                .iter()
                .filter_map(|network| self.pick_pod_cidr(id, network))
                .collect();
        }
        if reserved.owner_set == allocation.owner_set {
            allocation.ordinal = allocation.ordinal.or(reserved.ordinal);
        }
        if !allocation.owner_set.is_empty() {
            let ordinal = allocation
                .ordinal
                .unwrap_or_else(|| self.lowest_ordinal(&allocation.owner_set));
            allocation.ordinal = Some(ordinal);
        }
        self.note(&id.name, allocation.clone());
        allocation
    }

    /// Releases the values of a machine that is gone.
    pub(crate) fn release(&mut self, machine: &str) -> Option<Allocation> {
        let allocation = self.machines.remove(machine)?;
        allocation
            .addresses
            .iter()
            .for_each(|address| self.addresses.release(&address.address));
        allocation
            .pod_cidrs
            .iter()
            .for_each(|cidr| self.pod_cidrs.release(cidr));
        if let Some(ordinal) = allocation.ordinal {
            self.ordinals.release(&(allocation.owner_set.clone(), ordinal));
        }
        Some(allocation)
    }

    /// Keeps the addresses of a leaked instance, until [`Allocations::release_leaked`].
    pub(crate) fn leak(&mut self, machine: &str, since: SimTime, addresses: &[String]) {
        let key = (machine.to_owned(), since);
        if let Entry::Vacant(entry) = self.leaked.entry(key) {
            addresses
                .iter()
                .for_each(|address| self.addresses.take(address.clone()));
            entry.insert(addresses.to_vec());
        }
    }

    /// Releases the addresses of a leaked instance.
    pub(crate) fn release_leaked(&mut self, machine: &str, since: SimTime) {
        let addresses = self
            .leaked
            .remove(&(machine.to_owned(), since))
            .unwrap_or_default();
        addresses
            .iter()
            .for_each(|address| self.addresses.release(address));
    }

    /// The leaked instances whose addresses are kept, by the name of the machine and by when it leaked.
    pub(crate) fn leaked(&self) -> impl Iterator<Item = &(String, SimTime)> {
        self.leaked.keys()
    }

    fn note(&mut self, machine: &str, allocation: Allocation) {
        allocation
            .addresses
            .iter()
            .for_each(|address| self.addresses.take(address.address.clone()));
        allocation
            .pod_cidrs
            .iter()
            .for_each(|cidr| self.pod_cidrs.take(cidr.clone()));
        if let Some(ordinal) = allocation.ordinal {
            self.ordinals.take((allocation.owner_set.clone(), ordinal));
        }
        self.machines.insert(machine.to_owned(), allocation);
    }

    /// An address in 10.0.0.0/8 that depends on the machine's name alone, or the next free one if another machine of
    /// the cluster has it.
    fn pick_address(&self, id: &MachineId) -> String {
        let digest = Sha256::digest(id.to_string().as_bytes());
        let start = u32::from_be_bytes([0, digest[0], digest[1], digest[2]]);
        let candidate = |offset: u32| {
            let host = (start + offset) & 0x00ff_ffff;
            Ipv4Addr::from(0x0a00_0000 | host)
        };
        // Addresses that end in 0 or 255 are skipped, because people expect hosts not to have them.
        let fits = |address: &Ipv4Addr| !matches!(address.octets()[3], 0 | 255);
        (0..=0x00ff_ffff)
            .map(candidate)
            .filter(fits)
            .map(|address| address.to_string())
            .find(|address| self.addresses.is_free(address))
            .expect("a cluster has fewer machines than 10.0.0.0/8 has addresses")
    }

    /// An address in fd00:a::/64, chosen in the same way.
    fn pick_ipv6_address(&self, id: &MachineId) -> String {
        let digest = Sha256::digest(id.to_string().as_bytes());
        let start = u64::from_be_bytes(std::array::from_fn(|index| digest[8 + index]));
        let candidate = |offset: u64| {
            let host = start.wrapping_add(offset);
            Ipv6Addr::from(0xfd00_000a_u128 << 96 | u128::from(host)).to_string()
        };
        (0..=u64::MAX)
            .map(candidate)
            .find(|address| self.addresses.is_free(address))
            .expect("a cluster has fewer machines than fd00:a::/64 has addresses")
    }

    /// The part of a pod network for a machine's Node, chosen in the same way. None if the network cannot be split into
    /// parts or all parts are taken.
    fn pick_pod_cidr(&self, id: &MachineId, network: &str) -> Option<String> {
        let shares = cidr::node_shares(network)?;
        let digest = Sha256::digest(id.to_string().as_bytes());
        let start = u32::from_be_bytes([digest[3], digest[4], digest[5], digest[6]]);
        let share = |offset: u32| cidr::node_share(network, start.wrapping_add(offset) % shares);
        (0..shares)
            .filter_map(share)
            .find(|share| self.pod_cidrs.is_free(share))
    }

    fn lowest_ordinal(&self, owner_set: &str) -> u32 {
        let taken = self
            .ordinals
            .0
            .range((owner_set.to_owned(), 0)..)
            .map_while(|((name, ordinal), _)| {
                let same_set = name == owner_set;
                same_set.then_some(*ordinal)
            });
        // The taken numbers are in order, so the first one that differs from its position marks the first gap.
        let in_place = taken
            .zip(0..)
            .take_while(|(ordinal, place)| ordinal == place)
            .count();
        u32::try_from(in_place).unwrap_or(u32::MAX)
    }
}

/// The families of a cluster's networks in their order, whether each is IPv6. A cluster without networks has IPv4.
fn families(networks: &[String]) -> Vec<bool> {
    let mut families = Vec::new();
    for network in networks {
        let is_ipv6 = network.contains(':');
        if !families.contains(&is_ipv6) {
            families.push(is_ipv6);
        }
    }
    if families.is_empty() {
        vec![false]
    } else {
        families
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nephele_model::ClusterId;
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> MachineId {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        MachineId {
            cluster,
            name: name.into(),
        }
    }

    fn of_set(owner_set: &str) -> Allocation {
        Allocation {
            owner_set: owner_set.into(),
            ..Allocation::default()
        }
    }

    #[test]
    fn every_share_of_the_pod_network_is_found_before_it_is_full() {
        let networks = ["192.168.0.0/22".to_owned()];
        let mut allocations = Allocations::default();
        let mut shares = |name: &str| allocations.allocate(&id(name), &networks, of_set("")).pod_cidrs;
        let all: BTreeSet<String> = (0..4).flat_map(|index| shares(&format!("m{index}"))).collect();
        assert_eq!(all, (0..4).map(|index| format!("192.168.{index}.0/24")).collect());
        assert_eq!(shares("late"), [""; 0]);
    }

    #[test]
    fn a_machine_has_a_share_of_the_pod_network_of_each_family() {
        let networks = ["192.168.7.0/24".to_owned(), "fd00::/64".to_owned()];
        let allocation = Allocations::default().allocate(&id("m"), &networks, of_set(""));
        assert_eq!(allocation.pod_cidrs, ["192.168.7.0/24", "fd00::/64"]);
    }

    #[test]
    fn a_machine_has_an_address_of_each_family_of_its_cluster_in_order() {
        let kinds = |networks: &[&str]| {
            let networks: Vec<_> = networks.iter().map(|&network| network.to_owned()).collect();
            let mut allocations = Allocations::default();
            let [one, other] = ["m", "n"].map(|name| allocations.allocate(&id(name), &networks, of_set("")));
            let both: BTreeSet<_> = one.ip_addresses().chain(other.ip_addresses()).collect();
            assert_eq!(
                both.len(),
                one.ip_addresses().count() + other.ip_addresses().count()
            );
            one.ip_addresses()
                .map(|address| address.starts_with("fd00:a::"))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[]), [false]);
        assert_eq!(kinds(&["192.168.0.0/16"]), [false]);
        assert_eq!(kinds(&["fd00:1::/48"]), [true]);
        assert_eq!(
            kinds(&["fd00:1::/48", "192.168.0.0/16", "fd00:2::/48"]),
            [true, false]
        );
    }

    #[test]
    fn the_lowest_free_number_of_a_set_is_given_and_none_without_a_set() {
        let mut allocations = Allocations::default();
        let mut ordinal =
            |name: &str, owner_set: &str| allocations.allocate(&id(name), &[], of_set(owner_set)).ordinal;
        assert_eq!(
            [ordinal("a", "md"), ordinal("b", "md"), ordinal("c", "md")],
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(
            [ordinal("d", "md-2"), ordinal("e", "m"), ordinal("f", "")],
            [Some(0), Some(0), None]
        );
        allocations.release("b");
        let mut ordinal =
            |name: &str, owner_set: &str| allocations.allocate(&id(name), &[], of_set(owner_set)).ordinal;
        assert_eq!([ordinal("g", "md"), ordinal("h", "md")], [Some(1), Some(3)]);
    }

    #[test]
    fn what_was_published_is_kept_for_its_machine() {
        let networks = ["192.168.0.0/23".to_owned()];
        let mut before = Allocations::default();
        let published = before.allocate(&id("old"), &networks, of_set("md"));
        let mut after = Allocations::default();
        after.reserve("old", published.clone());
        let new = after.allocate(&id("new"), &networks, of_set("md"));
        assert_eq!(
            (new.ordinal, new.pod_cidrs == published.pod_cidrs),
            (Some(1), false)
        );
        assert_eq!(after.allocate(&id("old"), &networks, of_set("md")), published);
        for name in ["old", "new", "never"] {
            after.release(name);
        }
        assert_eq!(after, Allocations::default());
    }

    #[test]
    fn a_leaked_instance_keeps_its_address_and_nothing_else() {
        let networks = ["192.168.0.0/24".to_owned()];
        let mut allocations = Allocations::default();
        let first = allocations.allocate(&id("m"), &networks, of_set("md"));
        let since = SimTime::from_millis(7);
        let addresses: Vec<_> = first.ip_addresses().map(str::to_owned).collect();
        allocations.leak("m", since, &addresses);
        allocations.leak("m", since, &addresses);
        allocations.release("m");
        // The name gives the same address, the same part of the pod network and the same number.
        let again = allocations.allocate(&id("m"), &networks, of_set("md"));
        assert_ne!(again.addresses[0], first.addresses[0]);
        assert_eq!(
            (again.pod_cidrs, again.ordinal),
            (first.pod_cidrs.clone(), first.ordinal)
        );
        allocations.release("m");
        allocations.release_leaked("m", since);
        assert_eq!(allocations, Allocations::default());
    }

    proptest! {
        /// However machines come, go and return after restarts, no two have the same value, and each keeps its
        /// values.
        #[test]
        fn nothing_is_given_twice_and_what_is_given_stays(
            steps in proptest::collection::vec((0u8..4, 0usize..12), 0..60),
        ) {
            let networks = ["192.168.0.0/20".to_owned()];
            let (mut allocations, mut model) = (Allocations::default(), BTreeMap::<String, Allocation>::new());
            for (step, machine) in steps {
                let name = format!("m{machine}");
                match step {
                    0 => {
                        allocations.release(&name);
                        model.remove(&name);
                    }
                    1 => {
                        allocations = Allocations::default();
                        for (name, published) in &model {
                            allocations.reserve(name, published.clone());
                        }
                    }
                    _ => {
                        let published = model.get(&name).cloned().unwrap_or_else(|| of_set("md"));
                        let given = allocations.allocate(&id(&name), &networks, published);
                        if let Some(known) = model.get(&name) {
                            prop_assert_eq!(&given, known);
                        }
                        model.insert(name, given);
                    }
                }
                let of = |part: fn(&Allocation) -> String| model.values().map(part).collect::<BTreeSet<_>>();
                prop_assert_eq!(of(|held| held.addresses[0].address.clone()).len(), model.len());
                prop_assert_eq!(of(|held| held.pod_cidrs[0].clone()).len(), model.len());
                prop_assert_eq!(of(|held| format!("{:?}", held.ordinal)).len(), model.len());
            }
        }
    }
}
