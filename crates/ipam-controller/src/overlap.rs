//! Finds pools that have addresses in common, if that is configured.

use std::collections::BTreeMap;

use nephele_ipam::AddressSet;
use parking_lot::Mutex;

use crate::pool::{PoolKey, Space};

/// What to do about pools that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverlapPolicy {
    /// Nothing: each pool allocates its addresses independently, as in the in-cluster IPAM provider.
    #[default]
    Off,
    /// Both pools get a condition that names the other.
    Warn,
}

/// The addresses of every pool. Bounded by the pools that exist.
pub(crate) struct Overlaps {
    policy: OverlapPolicy,
    sets: Mutex<BTreeMap<PoolKey, AddressSet>>,
}

impl Overlaps {
    pub(crate) fn new(policy: OverlapPolicy) -> Self {
        Self { policy, sets: Mutex::default() }
    }

    /// Sets the addresses of the pool; none if its spec is invalid. Returns the other pools that overlap its old or
    /// new addresses, because their status has to change.
    pub(crate) fn specify(&self, pool: &PoolKey, space: Option<&Space>) -> Vec<PoolKey> {
        if self.policy == OverlapPolicy::Off {
            return Vec::new();
        }
        let next = space.map(Space::allocatable);
        let mut sets = self.sets.lock();
        let before = match &next {
            Some(next) => sets.insert(pool.clone(), next.clone()),
            None => sets.remove(pool),
        };
        let touches =
            |set: &AddressSet| before.iter().chain(&next).any(|mine| !mine.intersect(set).is_empty());
        sets.iter()
            .filter(|(other, set)| *other != pool && touches(set))
            .map(|(other, _)| other.clone())
            .collect()
    }

    /// The names of the pools that overlap this one; none if overlaps are not looked for.
    pub(crate) fn of(&self, pool: &PoolKey) -> Option<Vec<String>> {
        if self.policy == OverlapPolicy::Off {
            return None;
        }
        let sets = self.sets.lock();
        let Some(mine) = sets.get(pool) else { return Some(Vec::new()) };
        let others = sets.iter().filter(|(other, set)| *other != pool && !mine.intersect(set).is_empty());
        Some(others.map(|(other, _)| other.to_string()).collect())
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::PoolKind;
    use nephele_api::ipam::v1alpha2::InClusterIPPoolSpec;

    use super::*;
    use crate::pool::PoolSpec;

    fn key(name: &str) -> PoolKey {
        PoolKey { kind: PoolKind::InClusterIPPool, namespace: "ns".into(), name: name.into() }
    }

    fn space(addresses: &str) -> Space {
        let spec = InClusterIPPoolSpec {
            addresses: vec![addresses.into()],
            prefix: 8,
            ..InClusterIPPoolSpec::default()
        };
        Space::new(&PoolSpec::Addresses(spec)).expect("valid")
    }

    #[test]
    fn pools_with_addresses_in_common_are_told_on_both_until_they_have_none() {
        let overlaps = Overlaps::new(OverlapPolicy::Warn);
        assert_eq!(overlaps.specify(&key("a"), Some(&space("10.0.0.1-10.0.0.9"))), []);
        assert_eq!(overlaps.specify(&key("b"), Some(&space("10.0.1.1-10.0.1.9"))), []);
        assert_eq!(overlaps.specify(&key("c"), Some(&space("10.0.0.9-10.0.0.20"))), [key("a")]);
        assert_eq!(overlaps.of(&key("a")), Some(vec!["InClusterIPPool ns/c".into()]));
        assert_eq!(overlaps.of(&key("b")), Some(vec![]));
        assert_eq!(overlaps.of(&key("c")), Some(vec!["InClusterIPPool ns/a".into()]));
        assert_eq!(overlaps.specify(&key("c"), None), [key("a")]);
        assert_eq!(overlaps.of(&key("a")), Some(vec![]));
    }

    #[test]
    fn nobody_looks_unless_asked_to() {
        let overlaps = Overlaps::new(OverlapPolicy::Off);
        for name in ["a", "b"] {
            assert_eq!(overlaps.specify(&key(name), Some(&space("10.0.0.1-10.0.0.9"))), []);
        }
        assert_eq!(overlaps.of(&key("a")), None);
    }
}
