//! Tells the cloud what SimulatedClouds have to make machines from.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_api::cloud::v1alpha1::SimulatedCloud;
use parking_lot::Mutex;
use tracing::warn;

use crate::context::Context;
use crate::offer::catalog;

/// What the cloud was told last, by namespace and name: as much as there are SimulatedClouds, and what is built in for each
/// namespace with clusters or templates. Whoever tells holds the lock while it reads the cache, so that nothing older is
/// told after something newer.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<BTreeMap<(String, String), Told>>);

enum Told {
    BuiltIn,
    Cloud(Arc<SimulatedCloud>),
}

/// The SimulatedCloud of this name, as the cloud knows it from now on.
pub(crate) fn tell(context: &Context, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
    let mut all = context.catalogs.0.lock();
    let key = (namespace.to_owned(), name.to_owned());
    let found = context.clouds.get(namespace, name);
    let told = match (&found, all.get(&key)) {
        (None, None) => return None,
        (Some(found), Some(Told::Cloud(known))) if found.spec == known.spec => return Some(found.clone()),
        (Some(found), _) => context.cloud.put_catalog(namespace, name, catalog(Some(&found.spec))),
        (None, Some(_)) => context.cloud.delete_catalog(namespace, name),
    };
    match (told, &found) {
        (Ok(()), Some(found)) => drop(all.insert(key, Told::Cloud(Arc::clone(found)))),
        (Ok(()), None) => drop(all.remove(&key)),
        (Err(error), _) => {
            let error = nephele_kit::chain(&error);
            warn!(namespace, name, error, "Failed to tell the cloud what a SimulatedCloud offers");
        }
    }
    found
}

/// Has the cloud know what is built in for clusters of a namespace that lie in no SimulatedCloud.
pub(crate) fn tell_built_in(context: &Context, namespace: &str) {
    let mut all = context.catalogs.0.lock();
    let key = (namespace.to_owned(), String::new());
    if all.contains_key(&key) {
        return;
    }
    match context.cloud.put_catalog(namespace, "", catalog(None)) {
        Ok(()) => drop(all.insert(key, Told::BuiltIn)),
        Err(error) => {
            let error = nephele_kit::chain(&error);
            warn!(namespace, error, "Failed to tell the cloud what is built in");
        }
    }
}
