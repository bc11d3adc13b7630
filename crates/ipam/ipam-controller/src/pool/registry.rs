//! All pools by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nephele_api::ipam::PoolKind;
use parking_lot::RwLock;

use super::{Pool, PoolKey};

/// Every pool that exists, according to the watches of the four kinds.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pools: RwLock<BTreeMap<PoolKey, Arc<Pool>>>,
}

impl Pools {
    pub(crate) fn get(&self, key: &PoolKey) -> Option<Arc<Pool>> {
        self.pools.read().get(key).cloned()
    }

    pub(crate) fn insert(&self, pool: Arc<Pool>) {
        self.pools.write().insert(pool.key.clone(), pool);
    }

    pub(crate) fn remove(&self, key: &PoolKey) {
        self.pools.write().remove(key);
    }

    /// The pools that claims of these namespaces can use: those of the namespaces, and all global ones.
    pub(crate) fn used_from(&self, namespaces: &BTreeSet<String>) -> Vec<Arc<Pool>> {
        let pools = self.pools.read();
        let global = String::new();
        let mut found = Vec::new();
        for kind in PoolKind::ALL {
            let of_kind: Vec<&String> = if kind.is_namespaced() {
                namespaces.iter().collect()
            } else {
                vec![&global]
            };
            for namespace in of_kind {
                let first = PoolKey {
                    kind,
                    namespace: namespace.clone(),
                    name: String::new(),
                };
                let pools = pools.range(first..);
                let pools = pools.take_while(|(key, _)| key.kind == kind && key.namespace == *namespace);
                found.extend(pools.map(|(_, pool)| Arc::clone(pool)));
            }
        }
        found
    }

    pub(crate) fn all(&self) -> Vec<Arc<Pool>> {
        self.pools.read().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_a_namespace_can_use_its_pools_and_the_global_ones() {
        let pools = Pools::default();
        for kind in PoolKind::ALL {
            let of = if kind.is_namespaced() {
                vec!["a", "b", "bb", "c"]
            } else {
                vec![""]
            };
            for (namespace, name) in of.into_iter().flat_map(|of| [(of, "one"), (of, "two")]) {
                let key = PoolKey {
                    kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                pools.insert(Pool::new(key));
            }
        }
        let found = pools.used_from(&["b".to_owned(), "none".to_owned()].into());
        let found: Vec<_> = found.iter().map(|pool| pool.key.to_string()).collect();
        let expected = [
            "InClusterIPPool b/one",
            "InClusterIPPool b/two",
            "GlobalInClusterIPPool one",
            "GlobalInClusterIPPool two",
            "InClusterPrefixPool b/one",
            "InClusterPrefixPool b/two",
            "GlobalInClusterPrefixPool one",
            "GlobalInClusterPrefixPool two",
        ];
        assert_eq!(found, expected);
    }
}
