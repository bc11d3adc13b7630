//! All pools by name.

use std::collections::BTreeMap;
use std::sync::Arc;

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

    pub(crate) fn all(&self) -> Vec<Arc<Pool>> {
        self.pools.read().values().cloned().collect()
    }
}
