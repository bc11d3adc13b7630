//! Tells the cloud what SimulatedClouds have to make machines from.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_api::cloud::v1alpha1::SimulatedCloud;
use parking_lot::Mutex;
use tracing::warn;

use crate::context::Context;
use crate::offer::catalog;

/// What the cloud was told last, by namespace and name: as much as there are SimulatedClouds. Whoever tells holds the lock
/// while it reads the cache, so that nothing older is told after something newer.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<(String, String), Arc<SimulatedCloud>>>);

/// The SimulatedCloud of this name, as the cloud knows it from now on.
pub(crate) fn tell(context: &Context, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
    let mut all = context.catalogs.0.lock();
    let key = (namespace.to_owned(), name.to_owned());
    let found = context.clouds.get(namespace, name);
    let told = match (&found, all.get(&key)) {
        (None, None) => return None,
        (Some(found), Some(known)) if found.spec == known.spec => return Some(found.clone()),
        (Some(found), _) => context.cloud.put_catalog(namespace, name, catalog(&found.spec)),
        (None, Some(_)) => context.cloud.delete_catalog(namespace, name),
    };
    match (told, &found) {
        (Ok(()), Some(found)) => drop(all.insert(key, Arc::clone(found))),
        (Ok(()), None) => drop(all.remove(&key)),
        (Err(error), _) => {
            let error = nephele_kit::chain(&error);
            warn!(namespace, name, error, "Failed to tell the cloud what a SimulatedCloud offers");
        }
    }
    found
}
