//! Sends the catalogs of SimulatedClouds to the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use nephele_api::cloud::is_being_restored;
use nephele_api::cloud::v1alpha1::SimulatedCloud;
use nephele_cloud::{CallError, FormerCatalog};
use nephele_kit::{Cache, Gone, Pace, paused};
use parking_lot::Mutex;
use tracing::warn;

use crate::context::Context;
use crate::leaked::{self, load_balancers};
use crate::offer::catalog;
use crate::simulated_cloud::{clock, cost, findings};

/// The SimulatedClouds that were last sent to the cloud, by namespace and name. The lock is held while the cache is
/// read, so that an older version is never sent after a newer one.
#[derive(Default)]
pub(crate) struct Catalogs {
    told: Mutex<BTreeMap<(String, String), Told>>,
    pub(crate) pace: Pace<(String, String)>,
}

/// A SimulatedCloud as it was sent to the cloud.
struct Told {
    object: Arc<SimulatedCloud>,
    /// Whether its clock waits, because it was paused.
    is_held: bool,
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
                // A change of the spec takes effect when the object is resumed.
                let waits = |object: &SimulatedCloud| {
                    (is_being_restored(&object.metadata), paused(object, None).is_some())
                };
                let is_known = seen
                    .get(&key)
                    .is_some_and(|known| known.spec == found.spec && waits(known) == waits(&found));
                seen.insert(key, found);
                return !is_known;
            }
        }
        true
    }
}

/// Sends the catalogs of all SimulatedClouds to the cloud.
pub(crate) fn tell_all(context: &Context) {
    for object in context.clouds.store().state() {
        tell(context, &object.namespace().unwrap_or_default(), &object.name_any());
    }
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

/// The SimulatedCloud of this name as the cloud has it once [`tell`] has sent it.
pub(crate) fn current(context: &Context, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
    let all = context.catalogs.told.lock();
    match planned(context, &all, &(namespace.to_owned(), name.to_owned())) {
        Plan::Keep(object) => object,
        Plan::Put { object, .. } => Some(object),
        Plan::Delete => None,
    }
}

/// Sends the catalog of the SimulatedCloud of this name to the cloud if it changed, and returns the SimulatedCloud as the
/// cloud has it. A paused one keeps the catalog that the cloud has. After a restart the cloud gets the one that its status says
/// was in force, with the clock that the status says was carried out; one that was paused before the cloud had it does not
/// exist.
pub(crate) fn tell(context: &Context, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
    let mut all = context.catalogs.told.lock();
    let key = (namespace.to_owned(), name.to_owned());
    let plan = planned(context, &all, &key);
    let deleted = match &plan {
        Plan::Keep(object) => return object.clone(),
        Plan::Put { replaces, .. } => *replaces,
        Plan::Delete => true,
    };
    let told = if deleted { context.cloud.delete_catalog(namespace, name) } else { Ok(()) };
    if deleted && told.is_ok() {
        context.catalogs.pace.forget(&key);
        all.remove(&key);
    }
    let Plan::Put { object, is_held, .. } = plan else {
        warn_of(told, namespace, name);
        return None;
    };
    let former = former(&object, namespace, name);
    let mut catalog = catalog(&object.spec);
    if is_held {
        catalog.clock = former.clock.map(|clock| clock.setting).unwrap_or_default();
    }
    let told = told.and_then(|()| context.cloud.put_catalog(namespace, name, catalog, former));
    if told.is_ok() {
        all.insert(key, Told { object: Arc::clone(&object), is_held });
    }
    warn_of(told, namespace, name);
    Some(object)
}

/// What to tell the cloud about a SimulatedCloud.
#[derive(Debug)]
enum Plan {
    /// Nothing: the cloud has this one, or none.
    Keep(Option<Arc<SimulatedCloud>>),
    /// Set its catalog.
    Put {
        object: Arc<SimulatedCloud>,
        /// Whether the cloud has another object of this name, with everything that belongs to it.
        replaces: bool,
        /// Whether its clock waits, because it is paused.
        is_held: bool,
    },
    /// Delete its catalog.
    Delete,
}

fn planned(context: &Context, all: &BTreeMap<(String, String), Told>, key: &(String, String)) -> Plan {
    let found = context.clouds.get(&key.0, &key.1).filter(|found| !is_being_restored(&found.metadata));
    plan(found.as_ref(), all.get(key))
}

/// Pure.
fn plan(found: Option<&Arc<SimulatedCloud>>, told: Option<&Told>) -> Plan {
    let Some(found) = found else {
        return if told.is_some() { Plan::Delete } else { Plan::Keep(None) };
    };
    let same = told.filter(|told| told.object.metadata.uid == found.metadata.uid);
    let replaces = told.is_some() && same.is_none();
    let object = Arc::clone(found);
    let is_paused = paused(&**found, None).is_some();
    match same {
        Some(told) if is_paused => Plan::Keep(Some(Arc::clone(&told.object))),
        Some(told) if told.object.spec == found.spec && !told.is_held => Plan::Keep(Some(object)),
        None if is_paused && found.status.is_none() => {
            if replaces {
                Plan::Delete
            } else {
                Plan::Keep(None)
            }
        }
        _ if is_paused => Plan::Put { object: in_force(&object), replaces, is_held: true },
        _ => Plan::Put { object, replaces, is_held: false },
    }
}

/// A paused SimulatedCloud with the spec that was in force when it was paused. If its status does not say which, no manager has
/// seen it since, and then nobody knows of another one.
fn in_force(paused: &Arc<SimulatedCloud>) -> Arc<SimulatedCloud> {
    let kept = paused.status.as_ref().and_then(|status| status.paused_spec.clone());
    match kept {
        Some(spec) if spec != paused.spec => {
            Arc::new(SimulatedCloud { spec, ..SimulatedCloud::clone(paused) })
        }
        _ => Arc::clone(paused),
    }
}

fn warn_of(told: Result<(), CallError>, namespace: &str, name: &str) {
    if let Err(error) = told {
        let error = nephele_kit::chain(&error);
        warn!(namespace, name, error, "Failed to send the catalog of a SimulatedCloud to the cloud");
    }
}

/// Removes the catalog of each SimulatedCloud from the cloud whose object is gone, with everything that belongs to it: what
/// leaked, its clock, its costs, and what was found about its callers.
pub(crate) async fn forget(context: Arc<Context>, gone: impl Stream<Item = Gone<SimulatedCloud>>) {
    let mut gone = std::pin::pin!(gone);
    while let Some(gone) = gone.next().await {
        // The cache says whether it is there, and under which uid.
        match gone {
            Gone::Object(object) => {
                drop(tell(&context, &object.namespace().unwrap_or_default(), &object.name_any()));
            }
            Gone::Any => {
                let known: Vec<_> = context.catalogs.told.lock().keys().cloned().collect();
                known.iter().for_each(|(namespace, name)| drop(tell(&context, namespace, name)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::cloud::v1alpha1::{SimulatedCloudSpec, SimulatedCloudStatus};

    use super::*;

    fn object(uid: &str, seed: &str) -> Arc<SimulatedCloud> {
        let mut object = SimulatedCloud::new("north", SimulatedCloudSpec::default());
        object.metadata.uid = Some(uid.into());
        object.spec.seed = seed.into();
        object.status = Some(SimulatedCloudStatus::default());
        Arc::new(object)
    }

    fn paused(object: &Arc<SimulatedCloud>) -> Arc<SimulatedCloud> {
        let mut object = SimulatedCloud::clone(object);
        object.annotations_mut().insert("cluster.x-k8s.io/paused".into(), String::new());
        Arc::new(object)
    }

    /// The plan in a word, with the seed of the SimulatedCloud that the cloud has then.
    fn planned(found: Option<&Arc<SimulatedCloud>>, told: Option<(&Arc<SimulatedCloud>, bool)>) -> String {
        let told = told.map(|(object, is_held)| Told { object: Arc::clone(object), is_held });
        match plan(found, told.as_ref()) {
            Plan::Keep(None) => "keep none".into(),
            Plan::Keep(Some(object)) => format!("keep {}", object.spec.seed),
            Plan::Put { object, replaces, is_held } => {
                let (replaces, held) =
                    (if replaces { "replace" } else { "put" }, if is_held { " held" } else { "" });
                format!("{replaces} {}{held}", object.spec.seed)
            }
            Plan::Delete => "delete".into(),
        }
    }

    #[test]
    fn a_cloud_is_what_its_object_says_unless_that_is_paused() {
        let (one, changed, other) = (object("1", "one"), object("1", "changed"), object("2", "other"));
        let mut new = SimulatedCloud::clone(&paused(&one));
        new.status = None;
        let new = Arc::new(new);
        let mut kept = SimulatedCloud::clone(&paused(&changed));
        kept.status =
            Some(SimulatedCloudStatus { paused_spec: Some(one.spec.clone()), ..Default::default() });
        let kept = Arc::new(kept);
        for (found, told, expected) in [
            (None, None, "keep none"),
            (None, Some((&one, false)), "delete"),
            (Some(&one), None, "put one"),
            (Some(&one), Some((&one, false)), "keep one"),
            (Some(&changed), Some((&one, false)), "put changed"),
            // Another object has the name.
            (Some(&other), Some((&one, false)), "replace other"),
            // A pause: no change takes effect, and the first look afterwards catches up.
            (Some(&paused(&changed)), Some((&one, false)), "keep one"),
            (Some(&paused(&one)), None, "put one held"),
            (Some(&one), Some((&paused(&one), true)), "put one"),
            // Also over a restart: the spec was changed during the pause.
            (Some(&kept), None, "put one held"),
            (Some(&kept), Some((&other, false)), "replace one held"),
            (Some(&new), None, "keep none"),
            (Some(&new), Some((&other, false)), "delete"),
        ] {
            assert_eq!(planned(found, told), expected);
        }
    }
}
