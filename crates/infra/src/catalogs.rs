//! Sends the catalogs of SimulatedClouds to the cloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use kube::ResourceExt as _;
use nephele_api::cloud::is_being_restored;
use nephele_api::cloud::v1alpha1::SimulatedCloud;
use nephele_cloud::FormerCatalog;
use nephele_kit::{Cache, Pace};
use parking_lot::Mutex;
use tracing::warn;

use crate::context::Context;
use crate::leaked::{self, load_balancers};
use crate::offer::catalog;
use crate::simulated_cloud::{clock, cost, findings};

/// The SimulatedClouds that were last sent to the cloud, by namespace and name. The lock is held while the cache is
/// read, so that an older version is never sent after a newer one.
pub(crate) struct Catalogs {
    told: Mutex<BTreeMap<(String, String), Arc<SimulatedCloud>>>,
    told_all: Once,
    pub(crate) pace: Pace<(String, String)>,
}

impl Default for Catalogs {
    fn default() -> Self {
        Self { told: Mutex::default(), told_all: Once::new(), pace: Pace::default() }
    }
}

/// The SimulatedClouds that a listener has seen. Their status changes up to once a second, and nobody who uses a
/// SimulatedCloud reads its status.
#[derive(Default)]
pub(crate) struct SeenClouds(Mutex<BTreeMap<(String, String), Arc<SimulatedCloud>>>);

impl SeenClouds {
    /// Whether a SimulatedCloud has changed in more than its status, or is gone.
    pub(crate) fn is_news(&self, clouds: &Cache<SimulatedCloud>, cloud: &SimulatedCloud) -> bool {
        let key = (cloud.namespace().unwrap_or_default(), cloud.name_any());
        let mut seen = self.0.lock();
        match clouds.get(&key.0, &key.1) {
            None => drop(seen.remove(&key)),
            Some(found) => {
                let hidden = is_being_restored(&found.metadata);
                let is_known = seen.get(&key).is_some_and(|known| {
                    known.spec == found.spec && is_being_restored(&known.metadata) == hidden
                });
                seen.insert(key, found);
                return !is_known;
            }
        }
        true
    }
}

/// Sends the catalogs of all SimulatedClouds to the cloud, once, before the first cluster or machine is reconciled: after a
/// restart, no new machine gets the room of a leaked instance.
pub(crate) fn tell_all(context: &Context) {
    context.catalogs.told_all.call_once(|| {
        for object in context.clouds.store().state() {
            tell(context, &object.namespace().unwrap_or_default(), &object.name_any());
        }
    });
}

/// What the status of a SimulatedCloud says about it, for a cloud that does not have its catalog.
fn former(object: &SimulatedCloud, namespace: &str, name: &str) -> FormerCatalog {
    let Some(status) = &object.status else { return FormerCatalog::default() };
    FormerCatalog {
        clock: status.clock.as_ref().and_then(clock::history),
        leaked: leaked::of_status(&status.leaked_instances, namespace, name),
        leaked_load_balancers: load_balancers::of_status(&status.leaked_load_balancers, namespace, name),
        cost: status.cost.as_ref().and_then(cost::history),
        findings: findings::history(&status.findings),
    }
}

/// Sends the catalog of the SimulatedCloud of this name to the cloud if it changed, and returns the SimulatedCloud.
pub(crate) fn tell(context: &Context, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
    let mut all = context.catalogs.told.lock();
    let key = (namespace.to_owned(), name.to_owned());
    let found = context.clouds.get(namespace, name).filter(|found| !is_being_restored(&found.metadata));
    let told = match (&found, all.get(&key)) {
        (None, None) => return None,
        (Some(found), Some(known)) if found.spec == known.spec => return Some(found.clone()),
        (Some(found), _) => {
            let former = former(found, namespace, name);
            context.cloud.put_catalog(namespace, name, catalog(&found.spec), former)
        }
        (None, Some(_)) => context.cloud.delete_catalog(namespace, name),
    };
    match (told, &found) {
        (Ok(()), Some(found)) => drop(all.insert(key, Arc::clone(found))),
        (Ok(()), None) => {
            context.catalogs.pace.forget(&key);
            all.remove(&key);
        }
        (Err(error), _) => {
            let error = nephele_kit::chain(&error);
            warn!(namespace, name, error, "Failed to send the catalog of a SimulatedCloud to the cloud");
        }
    }
    found
}
