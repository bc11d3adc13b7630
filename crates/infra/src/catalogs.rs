//! Sends the catalogs of SimulatedClouds to the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_api::cloud::v1alpha1::SimulatedCloud;
use parking_lot::Mutex;
use tracing::warn;

use crate::context::Context;
use crate::offer::catalog;

/// The SimulatedClouds that were last sent to the cloud, by namespace and name. The lock is held while the cache is
/// read, so that an older version is never sent after a newer one.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<(String, String), Arc<SimulatedCloud>>>);

/// Sends the catalog of the SimulatedCloud of this name to the cloud if it changed, and returns the SimulatedCloud.
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
            warn!(namespace, name, error, "Failed to send the catalog of a SimulatedCloud to the cloud");
        }
    }
    found
}
