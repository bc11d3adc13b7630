//! The Scenarios that run, and what is kept of them in memory.
//!
//! All progress is in the status. What is kept here only spares work: without it, each look would read the Scenario and its
//! whole spec again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use kube::{
    Resource as _, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_controller::paused;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{plan::is_over, script::Script};

/// The most Scenarios of a namespace that run at once. Each looks once a second, and once more when its status has changed. A
/// look is a list of Faults and, for each of up to ten branches, one or two requests: so a namespace causes 20 × 2 × 21 = 840
/// requests in a second at most. And each keeps a script with texts of up to 1 MiB ([`crate::expand::TEXTS_MAX`]): 20 MiB for a
/// namespace.
pub(crate) const RUNNING_MAX: usize = 20;

/// What is known of a Scenario that runs.
#[derive(Clone)]
pub(crate) struct Kept {
    /// The resourceVersion that its last write made, or that was read last. A cached object with this version has its
    /// last status.
    pub(crate) version: Option<String>,
    /// Its script, and the generation of the spec that it is of.
    pub(crate) script: Option<(i64, Arc<Script>)>,
    /// When it was looked last for the sights of its steps, by the step's index.
    pub(crate) looked: BTreeMap<usize, Timestamp>,
}

/// Whether a Scenario can run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It runs.
    Taken,
    /// As many as allowed run in its namespace.
    None,
}

/// The Scenarios that run, by namespace.
#[derive(Default)]
pub(crate) struct Runs {
    namespaces: Mutex<HashMap<String, Namespace>>,
}

struct Namespace {
    /// By uid. Each Scenario that runs has a place.
    places: HashMap<String, Kept>,
    /// Whether others may wait for a place.
    has_waiting: bool,
    /// The turn in which a Scenario is read: a user makes it large, and many of them.
    turn: Arc<Semaphore>,
}

impl Default for Namespace {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            has_waiting: false,
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Runs {
    /// Gives a place to each Scenario that ran before this process: all that run are in the store.
    pub(crate) fn adopt(&self, store: &Store<Scenario>) {
        for object in store.state().iter().filter(|object| runs(object)) {
            self.take(object, usize::MAX);
        }
    }

    /// Takes a place for a Scenario, or says that there is none. A Scenario that runs has one.
    pub(crate) fn begin(&self, object: &Scenario) -> Place {
        self.take(object, if runs(object) { usize::MAX } else { RUNNING_MAX })
    }

    fn take(&self, object: &Scenario, most: usize) -> Place {
        let mut namespaces = self.namespaces.lock();
        let namespace = namespaces
            .entry(object.namespace().unwrap_or_default())
            .or_default();
        let uid = object.uid().unwrap_or_default();
        if !namespace.places.contains_key(&uid) && namespace.places.len() >= most {
            namespace.has_waiting = true;
            return Place::None;
        }
        let nothing = || Kept {
            version: None,
            script: None,
            looked: BTreeMap::new(),
        };
        namespace.places.entry(uid).or_insert_with(nothing);
        Place::Taken
    }

    /// What is known of a Scenario that runs.
    pub(crate) fn kept(&self, object: &Scenario) -> Option<Kept> {
        let namespaces = self.namespaces.lock();
        let namespace = namespaces.get(object.metadata.namespace.as_deref().unwrap_or_default())?;
        namespace
            .places
            .get(object.metadata.uid.as_deref().unwrap_or_default())
            .cloned()
    }

    /// The turn of a Scenario among those of its namespace. While it lasts, the Scenario is read, and no other one.
    pub(crate) async fn turn(&self, object: &Scenario) -> OwnedSemaphorePermit {
        let turn = {
            let mut namespaces = self.namespaces.lock();
            let namespace = namespaces
                .entry(object.namespace().unwrap_or_default())
                .or_default();
            Arc::clone(&namespace.turn)
        };
        turn.acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Changes what is known of a Scenario, if it runs.
    pub(crate) fn keep(&self, object: &Scenario, change: impl FnOnce(&mut Kept)) {
        let mut namespaces = self.namespaces.lock();
        let namespace = namespaces.get_mut(object.metadata.namespace.as_deref().unwrap_or_default());
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        if let Some(kept) = namespace.and_then(|namespace| namespace.places.get_mut(uid)) {
            change(kept);
        }
    }

    /// Ends what no longer runs: a Scenario that is over or gone.
    pub(crate) fn end(&self, object: &Scenario) {
        let mut namespaces = self.namespaces.lock();
        let name = object.metadata.namespace.as_deref().unwrap_or_default();
        let Some(namespace) = namespaces.get_mut(name) else {
            return;
        };
        namespace
            .places
            .remove(object.metadata.uid.as_deref().unwrap_or_default());
        if namespace.places.is_empty() && !namespace.has_waiting {
            namespaces.remove(name);
        }
    }

    /// Ends all that are not in the store.
    pub(crate) fn end_gone(&self, store: &Store<Scenario>) {
        let known: std::collections::HashSet<_> =
            store.state().iter().filter_map(|object| object.uid()).collect();
        self.namespaces.lock().retain(|_, namespace| {
            namespace.places.retain(|uid, _| known.contains(uid));
            !namespace.places.is_empty() || namespace.has_waiting
        });
    }

    /// The oldest Scenario of a namespace that waits, if there is a place for it.
    pub(crate) fn next(&self, namespace: &str, store: &Store<Scenario>) -> Option<ObjectRef<Scenario>> {
        let mut namespaces = self.namespaces.lock();
        let known = namespaces.get_mut(namespace)?;
        if !known.has_waiting || known.places.len() >= RUNNING_MAX {
            return None;
        }
        let waits = |object: &&Arc<Scenario>| {
            object.metadata.namespace.as_deref() == Some(namespace)
                && object
                    .metadata
                    .uid
                    .as_ref()
                    .is_some_and(|uid| !known.places.contains_key(uid))
                && needs_place(object)
                && paused(object.as_ref(), None).is_none()
        };
        let state = store.state();
        let oldest = state.iter().filter(waits).min_by_key(|object| {
            (
                object
                    .metadata
                    .creation_timestamp
                    .as_ref()
                    .map(|created| created.0),
                object.name_any(),
            )
        });
        if oldest.is_none() {
            known.has_waiting = false;
            if known.places.is_empty() {
                namespaces.remove(namespace);
            }
        }
        oldest
            .map(|object| object.object_ref(&()))
            .map(|reference| ObjectRef::new(&reference.name.unwrap_or_default()).within(namespace))
    }
}

/// Whether a Scenario has begun and is not over, for any generation of its spec.
fn runs(object: &Scenario) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| status.phase == "Running")
}

/// Whether a Scenario has something to run.
pub(crate) fn needs_place(object: &Scenario) -> bool {
    object.metadata.deletion_timestamp.is_none()
        && !is_over(
            object.status.as_ref(),
            object.metadata.generation.unwrap_or_default(),
        )
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scenario(number: usize, phase: &str) -> Scenario {
        serde_json::from_value(json!({
            "metadata": { "name": format!("s{number:02}"), "namespace": "ada", "uid": number.to_string(), "generation": 1,
                "creationTimestamp": format!("2026-01-01T00:00:{number:02}Z") },
            "spec": {}, "status": { "phase": phase, "observedGeneration": 1 },
        }))
        .expect("a Scenario")
    }

    /// What happens to a Scenario.
    #[derive(Debug, Clone)]
    enum Event {
        /// It is looked at.
        Look(usize),
        /// It is over, or gone.
        End(usize),
        /// The process ends, and another one begins.
        Restart,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            12 => (0..40_usize).prop_map(Event::Look),
            6 => (0..40_usize).prop_map(Event::End),
            1 => Just(Event::Restart),
        ];
        prop::collection::vec(event, 0..200)
    }

    proptest! {
        /// At most so many run, those that run continue, and while one waits and there is a place, one is woken.
        #[test]
        fn places_are_taken_once_and_given_to_those_who_wait(events in events()) {
            let (store, mut writer) = reflector::store();
            let write = |writer: &mut reflector::store::Writer<Scenario>, object: Scenario| {
                writer.apply_watcher_event(&watcher::Event::Apply(object));
            };
            for number in 0..40 {
                write(&mut writer, scenario(number, "Pending"));
            }
            let mut runs = Runs::default();
            let mut running = std::collections::BTreeSet::new();
            let mut waiting = std::collections::BTreeSet::new();
            for event in events {
                match event {
                    Event::Look(number) => {
                        let object = store.get(&ObjectRef::new(&format!("s{number:02}")).within("ada")).expect("a Scenario");
                        if !needs_place(&object) {
                            continue;
                        }
                        let is_free = running.contains(&number) || running.len() < RUNNING_MAX;
                        prop_assert_eq!(runs.begin(&object) == Place::Taken, is_free);
                        if is_free {
                            waiting.remove(&number);
                            running.insert(number);
                            write(&mut writer, scenario(number, "Running"));
                        } else {
                            waiting.insert(number);
                        }
                    }
                    Event::End(number) => {
                        let ended = scenario(number, "Passed");
                        runs.end(&ended);
                        running.remove(&number);
                        waiting.remove(&number);
                        write(&mut writer, ended);
                    }
                    Event::Restart => {
                        runs = Runs::default();
                        runs.adopt(&store);
                        waiting.clear();
                    }
                }
                prop_assert!(running.len() <= RUNNING_MAX);
                let next = runs.next("ada", &store);
                prop_assert!(next.is_some() || waiting.is_empty() || running.len() == RUNNING_MAX);
            }
        }
    }
}
