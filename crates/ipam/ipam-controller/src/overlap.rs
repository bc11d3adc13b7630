//! Finds pools that have addresses in common, if that is configured.

use std::collections::BTreeMap;

use nephele_ipam::AddressSet;
use parking_lot::Mutex;

use crate::pool::{PoolKey, PoolRanges};

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
        Self {
            policy,
            sets: Mutex::default(),
        }
    }

    /// Sets the addresses of the pool; none if its spec is invalid. Returns the other pools that overlap its old or
    /// new addresses, because their status has to change.
    pub(crate) fn specify(&self, pool: &PoolKey, ranges: Option<&PoolRanges>) -> Vec<PoolKey> {
        if self.policy == OverlapPolicy::Off {
            return Vec::new();
        }
        let next = ranges.map(PoolRanges::allocatable);
        let mut sets = self.sets.lock();
        let before = match &next {
            Some(next) => sets.insert(pool.clone(), next.clone()),
            None => sets.remove(pool),
        };
        let touches = |set: &AddressSet| {
            before
                .iter()
                .chain(&next)
                .any(|mine| !mine.intersect(set).is_empty())
        };
        sets.iter()
            .filter(|(other, set)| *other != pool && touches(set))
            .map(|(other, _)| other.clone())
            .collect()
    }

    /// The names of the pools that overlap this one; none if overlaps are not looked for. Who reads the status of a pool
    /// may not know the pools of other namespaces: they are counted.
    pub(crate) fn of(&self, pool: &PoolKey) -> Option<Vec<String>> {
        if self.policy == OverlapPolicy::Off {
            return None;
        }
        let sets = self.sets.lock();
        let Some(mine) = sets.get(pool) else {
            return Some(Vec::new());
        };
        let others = sets
            .iter()
            .filter(|(other, set)| *other != pool && !mine.intersect(set).is_empty());
        // A global pool is known to those who know all namespaces.
        let is_known = |other: &PoolKey| {
            pool.namespace.is_empty() || other.namespace.is_empty() || other.namespace == pool.namespace
        };
        let (known, hidden): (Vec<_>, Vec<_>) =
            others.map(|(other, _)| other).partition(|other| is_known(other));
        let mut names: Vec<_> = known.into_iter().map(ToString::to_string).collect();
        match hidden.len() {
            0 => {}
            1 => names.push("1 pool of another namespace".to_owned()),
            many => names.push(format!("{many} pools of other namespaces")),
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::{PoolKind, v1alpha2::InClusterIPPoolSpec};

    use super::*;
    use crate::pool::PoolSpec;

    fn key(name: &str) -> PoolKey {
        PoolKey {
            kind: PoolKind::InClusterIPPool,
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    fn ranges(addresses: &str) -> PoolRanges {
        let spec = InClusterIPPoolSpec {
            addresses: vec![addresses.into()],
            prefix: 8,
            ..InClusterIPPoolSpec::default()
        };
        PoolRanges::new(&PoolSpec::Addresses(spec)).expect("valid")
    }

    #[test]
    fn pools_with_addresses_in_common_are_told_on_both_until_they_have_none() {
        let overlaps = Overlaps::new(OverlapPolicy::Warn);
        assert_eq!(
            overlaps.specify(&key("a"), Some(&ranges("10.0.0.1-10.0.0.9"))),
            []
        );
        assert_eq!(
            overlaps.specify(&key("b"), Some(&ranges("10.0.1.1-10.0.1.9"))),
            []
        );
        assert_eq!(
            overlaps.specify(&key("c"), Some(&ranges("10.0.0.9-10.0.0.20"))),
            [key("a")]
        );
        assert_eq!(overlaps.of(&key("a")), Some(vec!["InClusterIPPool ns/c".into()]));
        assert_eq!(overlaps.of(&key("b")), Some(vec![]));
        assert_eq!(overlaps.of(&key("c")), Some(vec!["InClusterIPPool ns/a".into()]));
        assert_eq!(overlaps.specify(&key("c"), None), [key("a")]);
        assert_eq!(overlaps.of(&key("a")), Some(vec![]));
    }

    #[test]
    fn pools_of_other_namespaces_are_counted_and_not_named() {
        let overlaps = Overlaps::new(OverlapPolicy::Warn);
        let elsewhere = |name: &str| PoolKey {
            namespace: "secret".into(),
            ..key(name)
        };
        let global = PoolKey {
            kind: PoolKind::GlobalInClusterIPPool,
            namespace: String::new(),
            name: "g".into(),
        };
        for pool in [&key("a"), &key("b"), &elsewhere("x"), &elsewhere("y"), &global] {
            overlaps.specify(pool, Some(&ranges("10.0.0.1-10.0.0.9")));
        }
        let mut seen = overlaps.of(&key("a")).expect("looked for");
        seen.sort_unstable();
        assert_eq!(
            seen,
            [
                "2 pools of other namespaces",
                "GlobalInClusterIPPool g",
                "InClusterIPPool ns/b"
            ]
        );
        overlaps.specify(&elsewhere("y"), None);
        let seen = overlaps.of(&key("a")).expect("looked for");
        assert!(
            seen.contains(&"1 pool of another namespace".to_owned()),
            "{seen:?}"
        );
        assert_eq!(overlaps.of(&global).expect("looked for").len(), 3);
    }

    #[test]
    fn no_pool_is_looked_at_unless_asked_to() {
        let overlaps = Overlaps::new(OverlapPolicy::Off);
        for name in ["a", "b"] {
            assert_eq!(
                overlaps.specify(&key(name), Some(&ranges("10.0.0.1-10.0.0.9"))),
                []
            );
        }
        assert_eq!(overlaps.of(&key("a")), None);
    }
}
