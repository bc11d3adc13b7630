//! All pools by name, and the claims that have to be looked at.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::{Stream, stream};
use kube::runtime::reflector::ObjectRef;
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_ipam::Owner;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::{Pool, PoolKey};

/// Every pool that there is. Pools come and go by the watches of their kinds.
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

/// Claims that have to be looked at although nothing changed in them. Bounded by the claims that there are: each is in
/// it once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Woken {
    inner: Arc<WokenInner>,
}

#[derive(Debug, Default)]
struct WokenInner {
    claims: Mutex<HashSet<Owner>>,
    notify: Notify,
}

impl Woken {
    /// These are looked at soon.
    pub(crate) fn wake(&self, owners: impl IntoIterator<Item = Owner>) {
        let mut claims = self.inner.claims.lock();
        let before = claims.len();
        claims.extend(owners);
        if claims.len() > before {
            self.inner.notify.notify_one();
        }
    }

    /// The claims that are woken, as the controller's queue names them.
    pub(crate) fn listen(&self) -> impl Stream<Item = ObjectRef<IPAddressClaim>> + Send + 'static {
        let inner = Arc::clone(&self.inner);
        stream::unfold((inner, Vec::new()), |(inner, mut batch): (Arc<WokenInner>, Vec<Owner>)| async move {
            loop {
                if let Some(owner) = batch.pop() {
                    return Some((ObjectRef::new(owner.name()).within(owner.namespace()), (inner, batch)));
                }
                let notified = inner.notify.notified();
                batch = inner.claims.lock().drain().collect();
                if batch.is_empty() {
                    notified.await;
                }
            }
        })
    }
}
