//! The SimulatedClouds as the cloud has them.
//!
//! ```text
//!  watch ──▶ plan ──▶ put or delete in the cloud ──▶ what is in force ──▶ changes ──▶ reconcilers
//! ```
//!
//! One writer follows the watch, and nothing else tells the cloud of SimulatedClouds. Whoever looks for one finds what the
//! cloud has by then, never a later object. So what the cloud answers is as new as what a reconciler has read, or newer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{Stream, StreamExt as _};
use kube::{
    Api, ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use nephele_api::cloud::{is_being_restored, v1alpha1::SimulatedCloud};
use nephele_cloud::{CallError, Cloud};
use nephele_controller::{Cache, Readable, Services, StatusThrottle, paused};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{resolved_cloud::cloud_spec, simulated_cloud::record};

/// How many changes a slow listener may lag behind before it has to treat every SimulatedCloud as changed.
const CHANGES_MAX: usize = 1024;

/// The namespace and the name of a SimulatedCloud.
pub(crate) type Key = (String, String);

/// The SimulatedClouds that the cloud has.
pub(crate) struct Clouds {
    /// Only the writer reads its objects: they may be ahead of the cloud.
    cache: Cache<SimulatedCloud>,
    known: Arc<Known>,
}

impl Clouds {
    /// Sends all SimulatedClouds to the cloud, and each change of them, while the future runs.
    pub(crate) fn start(
        cloud: Cloud,
        services: &Services,
        api: Api<Readable<SimulatedCloud>>,
        filtered: watcher::Config,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let known = Arc::new(Known::default());
        let writer = Arc::clone(&known);
        let pass_on = move |store: &Store<SimulatedCloud>, touched: &[Arc<SimulatedCloud>]| {
            writer.pass_on(&cloud, store, touched);
        };
        let (cache, follow) =
            Cache::<SimulatedCloud>::start_through(services, api, filtered, shutdown, pass_on);
        (Self { cache, known }, follow)
    }

    /// What a controller waits for that needs SimulatedClouds: by then the cloud has all of them.
    pub(crate) fn cache(&self) -> &Cache<SimulatedCloud> {
        &self.cache
    }

    /// The SimulatedCloud of this name as the cloud has it. None if the cloud does not have it.
    pub(crate) fn in_force(&self, namespace: &str, name: &str) -> Option<Arc<SimulatedCloud>> {
        self.known.in_force(&(namespace.to_owned(), name.to_owned()))
    }

    /// Whether the cloud was told of this object, or of one that asks for the same.
    pub(crate) fn has_seen(&self, object: &SimulatedCloud) -> bool {
        self.known.has_seen(object)
    }

    /// The SimulatedClouds that changed in more than their status, once the cloud knows of it.
    pub(crate) fn changes(&self) -> impl Stream<Item = Change> + Send + 'static {
        let changes = BroadcastStream::new(self.known.changed.subscribe());
        changes.map(|key| key.map_or(Change::Any, Change::This))
    }

    /// How often the numbers in the status of each are written.
    pub(crate) fn status_throttle(&self) -> &StatusThrottle<Key> {
        &self.known.status_throttle
    }
}

/// A SimulatedCloud that has changed, was created or is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    This(Key),
    /// Any of them: the listener was too slow.
    Any,
}

/// What the writer knows and others read.
struct Known {
    objects: Mutex<BTreeMap<Key, Entry>>,
    changed: broadcast::Sender<Key>,
    status_throttle: StatusThrottle<Key>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            objects: Mutex::default(),
            changed: broadcast::Sender::new(CHANGES_MAX),
            status_throttle: StatusThrottle::default(),
        }
    }
}

/// A SimulatedCloud.
#[derive(Clone, Default)]
struct Entry {
    /// As the watch had it last.
    seen: Option<Arc<SimulatedCloud>>,
    /// As the cloud has it.
    synced: Option<Synced>,
}

/// A SimulatedCloud as it was sent to the cloud.
#[derive(Clone)]
struct Synced {
    object: Arc<SimulatedCloud>,
    /// Whether its clock waits, because it was paused.
    is_held: bool,
}

impl Known {
    /// Tells the cloud of objects that may have changed. The store says what they are now.
    fn pass_on(&self, cloud: &Cloud, store: &Store<SimulatedCloud>, touched: &[Arc<SimulatedCloud>]) {
        let keys: BTreeSet<_> = touched.iter().map(|object| key(object)).collect();
        for key in keys {
            let found = store.get(&ObjectRef::new(&key.1).within(&key.0));
            self.sync_cloud(cloud, key, found);
        }
    }

    /// Tells the cloud of one object, and then the reconcilers.
    fn sync_cloud(&self, cloud: &Cloud, key: Key, found: Option<Arc<SimulatedCloud>>) {
        // There is one writer, so the entry is the same until it is replaced.
        let before = self.objects.lock().get(&key).cloned().unwrap_or_default();
        let there = found.as_ref().filter(|found| !is_being_restored(&found.metadata));
        let synced = carried_out(
            cloud,
            &key,
            plan(there, before.synced.as_ref()),
            before.synced.clone(),
        );
        let object = |synced: &Option<Synced>| synced.as_ref().map(|synced| Arc::clone(&synced.object));
        let is_news = differ(before.seen.as_ref(), found.as_ref())
            || differ(object(&before.synced).as_ref(), object(&synced).as_ref());
        if synced.is_none() {
            self.status_throttle.forget(&key);
        }
        let mut objects = self.objects.lock();
        match (found, synced) {
            (None, None) => drop(objects.remove(&key)),
            (seen, synced) => drop(objects.insert(key.clone(), Entry { seen, synced })),
        }
        drop(objects);
        if is_news {
            // Fails only without a listener: each controller reconciles all objects when it starts.
            let _ = self.changed.send(key);
        }
    }

    fn in_force(&self, key: &Key) -> Option<Arc<SimulatedCloud>> {
        self.objects
            .lock()
            .get(key)?
            .synced
            .as_ref()
            .map(|synced| Arc::clone(&synced.object))
    }

    fn has_seen(&self, object: &SimulatedCloud) -> bool {
        let objects = self.objects.lock();
        let seen = objects.get(&key(object)).and_then(|entry| entry.seen.as_deref());
        asks(seen) == asks(Some(object))
    }
}

fn key(object: &SimulatedCloud) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// What the cloud has to know about an object: not its status, which changes up to once a second.
fn asks(object: Option<&SimulatedCloud>) -> Option<impl PartialEq> {
    let object = object?;
    // A change of the spec takes effect when the object is resumed.
    let waits = (
        is_being_restored(&object.metadata),
        paused(object, None).is_some(),
    );
    Some((&object.metadata.uid, &object.spec, waits))
}

fn differ(one: Option<&Arc<SimulatedCloud>>, other: Option<&Arc<SimulatedCloud>>) -> bool {
    asks(one.map(|object| &**object)) != asks(other.map(|object| &**object))
}

/// Does what was planned. Returns what the cloud has then, which had `before`.
fn carried_out(cloud: &Cloud, key: &Key, plan: Plan, before: Option<Synced>) -> Option<Synced> {
    let (namespace, name) = key;
    let is_deletion = match &plan {
        Plan::Keep(object) => {
            let is_held = before.is_some_and(|before| before.is_held);
            return object.clone().map(|object| Synced { object, is_held });
        }
        Plan::Put { replaces, .. } => *replaces,
        Plan::Delete => true,
    };
    let deleted = if is_deletion {
        cloud.delete_cloud(namespace, name)
    } else {
        Ok(())
    };
    if is_refused(deleted, key) {
        return before;
    }
    let before = before.filter(|_| !is_deletion);
    let Plan::Put { object, is_held, .. } = plan else {
        return before;
    };
    let previous = object
        .status
        .as_ref()
        .map(|status| record::read(status, namespace, name));
    let previous = previous.unwrap_or_default();
    let mut cloud_spec = cloud_spec(&object.spec);
    if is_held {
        cloud_spec.clock = previous.clock.map(|clock| clock.setting).unwrap_or_default();
    }
    if is_refused(cloud.put_cloud(namespace, name, cloud_spec, previous), key) {
        return before;
    }
    Some(Synced { object, is_held })
}

/// Logs a refusal. The next change of the object, if only of its status, tries again.
fn is_refused(synced: Result<(), CallError>, (namespace, name): &Key) -> bool {
    let Err(error) = synced else { return false };
    let error = nephele_controller::chain(&error);
    warn!(
        namespace,
        name, error, "Failed to send the catalog of a SimulatedCloud to the cloud"
    );
    true
}

/// What to tell the cloud about a SimulatedCloud. A paused one keeps the spec that the cloud has. After a restart the cloud
/// gets the one that its status says was in force, with the clock that the status says was carried out; one that was paused
/// before the cloud had it does not exist.
#[derive(Debug)]
enum Plan {
    /// Nothing: the cloud has this one, or none.
    Keep(Option<Arc<SimulatedCloud>>),
    /// Set its spec.
    Put {
        object: Arc<SimulatedCloud>,
        /// Whether the cloud has another object of this name, with everything that belongs to it.
        replaces: bool,
        /// Whether its clock waits, because it is paused.
        is_held: bool,
    },
    /// Delete its cloud, with everything that belongs to it: what leaked, its clock, its costs, and what was found about
    /// its callers.
    Delete,
}

/// Pure.
fn plan(found: Option<&Arc<SimulatedCloud>>, synced: Option<&Synced>) -> Plan {
    let Some(found) = found else {
        return if synced.is_some() {
            Plan::Delete
        } else {
            Plan::Keep(None)
        };
    };
    let same = synced.filter(|synced| synced.object.metadata.uid == found.metadata.uid);
    let replaces = synced.is_some() && same.is_none();
    let object = Arc::clone(found);
    let is_paused = paused(&**found, None).is_some();
    match same {
        Some(synced) if is_paused => Plan::Keep(Some(Arc::clone(&synced.object))),
        Some(synced) if synced.object.spec == found.spec && !synced.is_held => Plan::Keep(Some(object)),
        None if is_paused && found.status.is_none() => {
            if replaces {
                Plan::Delete
            } else {
                Plan::Keep(None)
            }
        }
        _ if is_paused => Plan::Put {
            object: before_its_pause(&object),
            replaces,
            is_held: true,
        },
        _ => Plan::Put {
            object,
            replaces,
            is_held: false,
        },
    }
}

/// A paused SimulatedCloud with the spec that was in force when it was paused. If its status does not say which, no manager has
/// seen it since, and then no other one is known.
fn before_its_pause(paused: &Arc<SimulatedCloud>) -> Arc<SimulatedCloud> {
    let kept = paused
        .status
        .as_ref()
        .and_then(|status| status.paused_spec.clone());
    match kept {
        Some(spec) if spec != paused.spec => Arc::new(SimulatedCloud {
            spec,
            ..SimulatedCloud::clone(paused)
        }),
        _ => Arc::clone(paused),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use nephele_api::cloud::{
        RESTORING_ANNOTATION,
        v1alpha1::{SimulatedCloudSpec, SimulatedCloudStatus},
    };
    use nephele_cloud::{CloudConfig, Model};
    use nephele_controller::{PAUSED_ANNOTATION, wall_clock};
    use nephele_model::InstanceType;
    use prometheus::Registry;
    use proptest::prelude::*;

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
        object
            .annotations_mut()
            .insert("cluster.x-k8s.io/paused".into(), String::new());
        Arc::new(object)
    }

    /// The plan in a word, with the seed of the SimulatedCloud that the cloud has then.
    fn planned(found: Option<&Arc<SimulatedCloud>>, synced: Option<(&Arc<SimulatedCloud>, bool)>) -> String {
        let synced = synced.map(|(object, is_held)| Synced {
            object: Arc::clone(object),
            is_held,
        });
        match plan(found, synced.as_ref()) {
            Plan::Keep(None) => "keep none".into(),
            Plan::Keep(Some(object)) => format!("keep {}", object.spec.seed),
            Plan::Put {
                object,
                replaces,
                is_held,
            } => {
                let replaces = if replaces { "replace" } else { "put" };
                let held = if is_held { " held" } else { "" };
                format!("{replaces} {}{held}", object.spec.seed)
            }
            Plan::Delete => "delete".into(),
        }
    }

    #[test]
    fn a_cloud_is_what_its_object_says_unless_that_is_paused() {
        let one = object("1", "one");
        let changed = object("1", "changed");
        let other = object("2", "other");
        let mut new = SimulatedCloud::clone(&paused(&one));
        new.status = None;
        let new = Arc::new(new);
        let mut kept = SimulatedCloud::clone(&paused(&changed));
        kept.status = Some(SimulatedCloudStatus {
            paused_spec: Some(one.spec.clone()),
            ..Default::default()
        });
        let kept = Arc::new(kept);
        for (found, synced, expected) in [
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
            assert_eq!(planned(found, synced), expected);
        }
    }

    fn cloud() -> Cloud {
        let config = CloudConfig {
            advertise_host: "cloud".into(),
            bind_address: Ipv4Addr::LOCALHOST.into(),
            ports: 1..=1,
            moved_ports: Vec::new(),
            clusters_max: None,
            seed: "test".into(),
            connection_hold: Duration::ZERO,
            state_directory: None,
            machines_max: None,
            cloud_spec: crate::built_in_cloud(),
            clock: wall_clock(),
        };
        Cloud::start(config, &Registry::new()).expect("a new registry").0
    }

    /// A SimulatedCloud of which the processors of its one instance type tell how often it was changed.
    fn of_generation(uid: u32, generation: u32) -> SimulatedCloud {
        let kind = InstanceType {
            name: "m".into(),
            cpu: generation,
            memory: "1Gi".into(),
            ..Default::default()
        };
        let spec = SimulatedCloudSpec {
            instance_types: vec![kind],
            ..SimulatedCloudSpec::default()
        };
        let mut object = SimulatedCloud::new("north", spec);
        object.metadata.namespace = Some("default".into());
        object.metadata.uid = Some(uid.to_string());
        object
    }

    fn generation(object: &SimulatedCloud) -> u32 {
        object.spec.instance_types[0].cpu
    }

    /// The generation by which the cloud answers. None if it does not have the SimulatedCloud.
    fn answered(cloud: &Cloud) -> Option<u32> {
        let model = Model {
            instance_type: Some("m".into()),
            ..Model::default()
        };
        let hardware = cloud.describe_model("default", "north", &model).ok()?;
        Some(hardware.capacity["cpu"].parse().expect("a number"))
    }

    fn north() -> Key {
        ("default".into(), "north".into())
    }

    /// What happens to an object between two looks of the writer.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Created,
        Changed,
        Deleted,
        /// Its annotation is set or removed.
        Annotated(&'static str, bool),
        /// A manager writes its status.
        Reported,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Created),
            Just(Step::Changed),
            Just(Step::Deleted),
            any::<bool>().prop_map(|is_set| Step::Annotated(PAUSED_ANNOTATION, is_set)),
            any::<bool>().prop_map(|is_set| Step::Annotated(RESTORING_ANNOTATION, is_set)),
            Just(Step::Reported),
        ]
    }

    /// The object after a step; `number` is that of the step.
    fn after(step: Step, number: u32, object: Option<SimulatedCloud>) -> Option<SimulatedCloud> {
        let mut changed = object?;
        match step {
            Step::Created => return Some(of_generation(number, 1)),
            Step::Deleted => return None,
            Step::Changed => changed.spec.instance_types[0].cpu += 1,
            Step::Annotated(name, true) => {
                changed.annotations_mut().insert(name.into(), String::new());
            }
            Step::Annotated(name, false) => drop(changed.annotations_mut().remove(name)),
            Step::Reported => changed.status = Some(SimulatedCloudStatus::default()),
        }
        Some(changed)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever happened between two looks: steps of one list are not seen one by one.
        #[test]
        fn the_cloud_answers_by_what_is_in_force(
            looks in proptest::collection::vec(proptest::collection::vec(step(), 0..4), 1..12),
        ) {
            let cloud = cloud();
            let known = Known::default();
            let mut changes = known.changed.subscribe();
            let mut object = None;
            let mut number = 0;
            for steps in looks {
                let before = object.clone();
                let force_before = known.in_force(&north());
                for step in steps {
                    number += 1;
                    let from = object.take().or(matches!(step, Step::Created).then(|| of_generation(0, 1)));
                    object = after(step, number, from);
                }
                known.sync_cloud(&cloud, north(), object.clone().map(Arc::new));
                let force = known.in_force(&north());
                prop_assert_eq!(answered(&cloud), force.as_deref().map(generation));
                match object.as_ref().filter(|object| !is_being_restored(&object.metadata)) {
                    None => prop_assert_eq!(force.as_ref(), None),
                    Some(object) if super::paused(object, None).is_none() => {
                        prop_assert_eq!(force.as_deref().map(generation), Some(generation(object)));
                    }
                    // A pause changes nothing about what the cloud has of this object.
                    Some(object) => {
                        let same = force_before.as_ref().filter(|before| before.metadata.uid == object.metadata.uid);
                        if let Some(same) = same {
                            prop_assert_eq!(force.as_ref(), Some(same));
                        }
                    }
                }
                prop_assert!(object.as_ref().is_none_or(|object| known.has_seen(object)));
                // Reconcilers are woken by everything but a status.
                let is_told = changes.try_recv().is_ok();
                let is_news = asks(before.as_ref()) != asks(object.as_ref())
                    || differ(force_before.as_ref(), force.as_ref());
                prop_assert_eq!(is_told, is_news);
            }
        }
    }

    #[test]
    fn whoever_has_read_a_cloud_gets_no_older_answer() {
        const LAST: u32 = 2000;
        let cloud = cloud();
        let known = Known::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for generation in 1..=LAST {
                    known.sync_cloud(&cloud, north(), Some(Arc::new(of_generation(0, generation))));
                }
            });
            let mut read = 0;
            while read < LAST {
                read = known.in_force(&north()).as_deref().map_or(0, generation);
                assert!(answered(&cloud).unwrap_or_default() >= read);
            }
        });
    }
}
