//! How a cluster follows the engine, at its own pace.
//!
//! Records of the journal say what of a cluster may have changed, and whom to wake. What it has changed to is read from the
//! engine's state, at the end of the journal: the cluster shows levels, and a record that is missed or read twice changes
//! nothing.
//!
//! The engine's lock is held only while records and levels are copied, never while they are shown. A caller that reads the
//! state of a machine or a cluster makes the cluster catch up first, and sees the engine as it was at the last record. So
//! no caller sees a stage as reached that the cluster does not show yet.

use std::{collections::BTreeSet, sync::Arc};

use nephele_engine::{Cursor, Engine, Entry, Event, EventKind, Outcome, Record, Request};
use nephele_model::{ClusterId, MachineId, ResourceId, ResourceKind, Role, Stage, StageName};

use crate::{
    active_effect::visible_effects,
    clock::CloudClock,
    cluster::{Balancer, Cluster, Instance, Levels},
    driver::Driver,
    observation::Changed,
};

/// Records copied under one lock: 32 pointers in 256 bytes per cluster, and more than a machine makes at a time. They concern
/// 32 machines at most, so that a large cluster does not hold the engine for long. Only one that starts, or has missed
/// records, copies all of its machines at once.
const BATCH: usize = 32;

/// The position of a cluster in the journal.
pub(crate) struct Follower {
    cluster: ClusterId,
    load_balancer: ResourceId,
    cursor: Cursor,
    batch: Vec<Arc<Entry>>,
    dirty: Dirty,
    /// The cluster is deleted: nothing is created in it any more.
    pub(crate) over: bool,
}

/// What of a cluster may differ from what it shows.
#[derive(Default)]
struct Dirty {
    /// Machines by name, in the order of their first records. At most [`BATCH`], and one that was restored.
    machines: Vec<String>,
    balancer: bool,
    leaked: bool,
    /// All of it: records were missed, or nothing is shown yet.
    everything: bool,
}

impl Dirty {
    fn note(&mut self, record: &Record) {
        let is_changed = match record {
            Record::Operation {
                operation,
                outcome: Outcome::Accepted,
                ..
            } => {
                matches!(
                    operation.request,
                    Request::Create(_) | Request::Adopt { .. } | Request::Delete(_)
                )
            }
            Record::Event(Event { kind, .. }) => {
                self.leaked |= matches!(kind, EventKind::Leaked { .. } | EventKind::LeakedDeleted { .. });
                true
            }
            _ => false,
        };
        if !is_changed {
            return;
        }
        match MachineId::of_resource(record.resource()) {
            Some(machine) => self.note_machine(&machine.name),
            None => self.balancer = true,
        }
    }

    fn note_machine(&mut self, name: &str) {
        if !self.everything && !self.machines.iter().any(|noted| noted == name) {
            self.machines.push(name.to_owned());
        }
    }

    /// What to show after these records. The load balancer is shown at the end of the journal, after the machines that it
    /// leads to.
    fn take(&mut self, is_end: bool) -> Self {
        if is_end {
            return std::mem::take(self);
        }
        Self {
            machines: std::mem::take(&mut self.machines),
            leaked: std::mem::take(&mut self.leaked),
            ..Self::default()
        }
    }
}

/// The result of one read of the journal: what to show, and the end of the journal, if it was read to there.
struct Read<T> {
    levels: Levels,
    end: Option<End<T>>,
}

/// The end of the journal: whether records before it were missed, and the result of `look`.
struct End<T> {
    is_behind: bool,
    seen: T,
}

impl Follower {
    /// Follows a cluster from now on, until [`Follower::end`].
    pub(crate) fn begin(cluster: &ClusterId, driver: &Driver) -> Self {
        let cluster = cluster.clone();
        let cursor = driver.change(|engine| engine.follow(cluster.clone()));
        let load_balancer = cluster.load_balancer();
        let dirty = Dirty {
            everything: true,
            ..Dirty::default()
        };
        Self {
            cluster,
            load_balancer,
            cursor,
            batch: Vec::with_capacity(BATCH),
            dirty,
            over: false,
        }
    }

    pub(crate) fn end(&mut self, driver: &Driver) {
        self.over = true;
        driver.change(|engine| engine.unfollow(&self.cluster));
    }

    /// Notes that a machine may differ from what its cluster shows.
    pub(crate) fn note_machine(&mut self, name: &str) {
        self.dirty.note_machine(name);
    }

    /// Reads the next records, and what the engine has now of what they concern.
    fn read<T>(&mut self, driver: &Driver, clock: &CloudClock, look: impl Fn(&Engine) -> T) -> Read<T> {
        self.batch.clear();
        driver.look(|engine| {
            let read = engine
                .journal()
                .read_cluster(&self.cluster, &mut self.cursor, &mut self.batch);
            self.batch.iter().for_each(|entry| self.dirty.note(&entry.record));
            self.dirty.everything |= read.is_err();
            let is_end = read.is_err() || self.batch.len() < BATCH;
            let dirty = self.dirty.take(is_end);
            Read {
                levels: self.levels(&dirty, engine, clock),
                end: is_end.then(|| End {
                    is_behind: read.is_err(),
                    seen: look(engine),
                }),
            }
        })
    }

    /// What the engine has now of all that is dirty.
    fn levels(&self, dirty: &Dirty, engine: &Engine, clock: &CloudClock) -> Levels {
        let Dirty {
            machines,
            balancer,
            leaked,
            everything,
        } = dirty;
        let ClusterId {
            namespace,
            name: cluster,
        } = &self.cluster;
        let machines = if *everything {
            let instances = engine.cluster(&self.cluster);
            let instances = instances.filter(|resource| resource.spec.id.kind == ResourceKind::Instance);
            instances
                .map(|resource| (resource.spec.id.name.clone(), Some(Instance::of(resource, clock))))
                .collect()
        } else {
            let instance = |name: &String| engine.get(&ResourceId::instance(namespace, cluster, name));
            machines
                .iter()
                .map(|name| {
                    (
                        name.clone(),
                        instance(name).map(|found| Instance::of(found, clock)),
                    )
                })
                .collect()
        };
        let balancer = (*balancer || *everything).then(|| Balancer {
            in_service: engine
                .in_service(&self.load_balancer)
                .map(str::to_owned)
                .collect(),
            visible_effects: engine
                .get(&self.load_balancer)
                .map_or_else(Default::default, |balancer| {
                    visible_effects(&balancer.active_effects)
                }),
        });
        let leaked =
            (*leaked || *everything).then(|| engine.leaked_of_cluster(&self.cluster).cloned().collect());
        Levels {
            machines,
            others_are_gone: *everything,
            balancer,
            leaked,
        }
    }
}

impl Cluster {
    /// Shows what has changed, adds the objects to look at again to `changed`, and returns the result of `look` on the
    /// engine as it is shown.
    pub(crate) fn follow<T>(
        &self,
        follower: &mut Follower,
        driver: &Driver,
        changed: &mut BTreeSet<Changed>,
        look: impl Fn(&Engine) -> T,
    ) -> T {
        loop {
            let clock = &self.cluster_server.shared.cloud_clock;
            let Read { levels, end } = follower.read(driver, clock, &look);
            follower
                .batch
                .iter()
                .for_each(|entry| self.wake(&entry.record, changed));
            if end.as_ref().is_some_and(|end| end.is_behind) {
                // All machines of the cluster learn of a changed cluster, also those that wait for room.
                let shown = self.machine_names();
                let names = shown.iter().chain(levels.machines.iter().map(|(name, _)| name));
                let id = |name: &String| MachineId {
                    cluster: self.spec.id.clone(),
                    name: name.clone(),
                };
                changed.extend(names.map(|name| Changed::Machine(id(name))));
                changed.insert(Changed::Cluster(self.spec.id.clone()));
            }
            self.show(levels);
            if let Some(End { seen, .. }) = end {
                return seen;
            }
        }
    }

    /// Adds the objects to look at again after a record.
    fn wake(&self, record: &Record, changed: &mut BTreeSet<Changed>) {
        let Some(id) = MachineId::of_resource(record.resource()) else {
            changed.extend(self.woken_by_load_balancer(record));
            return;
        };
        if self.may_change_backends(&id.name, record) {
            changed.insert(Changed::Backends(id.cluster.clone()));
        }
        let is_api_server = |stage: &StageName| *stage == Stage::ApiServer.name();
        match record {
            Record::Event(Event { kind, .. }) => {
                let is_of_cluster = match kind {
                    EventKind::Adopted { reached, .. } => {
                        reached.iter().any(|(stage, _)| is_api_server(stage))
                    }
                    EventKind::StageReached(stage) => is_api_server(stage),
                    // A reader of the cluster may see another version of its API.
                    EventKind::Updated(_) => true,
                    _ => false,
                };
                if is_of_cluster {
                    changed.insert(Changed::Cluster(id.cluster.clone()));
                }
                // Who adopts a machine looks at it at once.
                if !matches!(kind, EventKind::Adopted { .. }) {
                    changed.insert(Changed::Machine(id));
                }
            }
            Record::CapacityFreed { .. } => drop(changed.insert(Changed::Machine(id))),
            // The caller of the operation knows.
            Record::Operation { .. }
            | Record::GrantEnded { .. }
            | Record::FaultEnded { .. }
            | Record::FaultWindow { .. } => {}
        }
    }

    /// Whether a record of a machine may change what its load balancer says about it. The load balancer has records of its
    /// own for what comes into or goes out of service.
    fn may_change_backends(&self, machine: &str, record: &Record) -> bool {
        let is_news = match record {
            Record::Operation {
                operation,
                outcome: Outcome::Accepted,
                ..
            } => {
                matches!(operation.request, Request::Delete(_))
            }
            Record::Event(Event { kind, .. }) => {
                matches!(
                    kind,
                    EventKind::Adopted { .. } | EventKind::BecameAffected { .. } | EventKind::Deleted
                )
            }
            _ => false,
        };
        is_news && self.role(machine) != Some(Role::Worker)
    }

    /// The objects to look at again after a record of the load balancer.
    fn woken_by_load_balancer(&self, record: &Record) -> Option<Changed> {
        let cluster = Changed::Cluster(self.spec.id.clone());
        match record {
            Record::Operation {
                operation,
                outcome: Outcome::Accepted,
                ..
            } => match operation.request {
                // A new load balancer reports nothing by itself: machines have to be registered again.
                Request::Create(_) | Request::Delete(_) => Some(cluster),
                // The caller of the operation knows, but it is the reconciler of a machine.
                Request::RegisterBackend { .. } | Request::DeregisterBackend { .. } => {
                    Some(Changed::Backends(self.spec.id.clone()))
                }
                // The caller of the operation knows.
                _ => None,
            },
            // Who adopts a load balancer looks at it at once.
            Record::Event(Event {
                kind: EventKind::Adopted { .. },
                ..
            })
            | Record::Operation { .. }
            | Record::GrantEnded { .. }
            | Record::FaultEnded { .. }
            | Record::FaultWindow { .. } => None,
            Record::Event(_) | Record::CapacityFreed { .. } => Some(cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_apiserver::GroupResource;
    use nephele_engine::{Journal, Latency, Operation, ResourceSpec, StageSpec};
    use nephele_model::{Odds, ResourceId, SimTime};
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::{
        Admission,
        tests::{cluster_following, control_plane, driver},
    };

    /// A step for one of two machines. Each step may come after many records of other groups.
    #[derive(Clone, Debug)]
    enum Step {
        Create,
        Delete,
        Deregister,
        Wait,
    }

    fn script() -> impl Strategy<Value = Vec<(Step, usize, usize)>> {
        let step = prop_oneof![
            6 => Just(Step::Create), 2 => Just(Step::Delete), 1 => Just(Step::Deregister), 6 => Just(Step::Wait),
        ];
        let others = prop_oneof![9 => Just(0), 1 => Just(Journal::CAPACITY)];
        prop::collection::vec((step, 0..2usize, others), 1..12)
    }

    fn operation(at: SimTime, request: Request) -> Operation {
        Operation {
            caller: "test".to_owned(),
            request,
            at,
        }
    }

    fn creation(id: &MachineId, seconds: u64) -> Request {
        let stage = |stage: &Stage| StageSpec {
            name: stage.name(),
            after: stage.after().iter().map(|stage| stage.name()).collect(),
            latency: Some(Latency::Fixed(std::time::Duration::from_secs(seconds))),
            failure: Odds::NEVER,
        };
        Request::Create(ResourceSpec {
            stages: Stage::ALL.iter().map(stage).collect(),
            deletion: Some(Latency::Fixed(std::time::Duration::from_secs(seconds))),
            ..ResourceSpec::new(id.resource())
        })
    }

    /// All observable state of a cluster.
    fn shown(cluster: &Cluster) -> (Vec<String>, Vec<String>, BTreeSet<String>, Vec<String>) {
        let objects = |resource: &str| {
            let objects = cluster
                .cluster_server
                .store
                .list(&GroupResource::new("", resource), None)
                .objects;
            let line = |object: &Arc<nephele_apiserver::Object>| {
                format!(
                    "{} {} {}",
                    object.name,
                    object.uid,
                    object.value()["metadata"]["creationTimestamp"]
                )
            };
            let mut lines: Vec<_> = objects.iter().map(line).collect();
            lines.sort();
            lines
        };
        (
            objects("nodes"),
            objects("pods"),
            cluster.backends(),
            cluster.etcd_members(),
        )
    }

    /// Two clusters follow the same script: one reads after each step, and one reads only when it has to.
    fn lag(script: Vec<(Step, usize, usize)>) -> Result<(), TestCaseError> {
        let driver = driver();
        let prompt = cluster_following(&driver);
        let late = cluster_following(&driver);
        let follow = |cluster: &Cluster| {
            cluster.follow(
                &mut cluster.follower.lock(),
                &driver,
                &mut BTreeSet::new(),
                |_| (),
            );
        };
        let mut now = SimTime::from_millis(1_000_000);
        let load_balancer = prompt.spec.id.load_balancer();
        driver.apply(operation(
            now,
            Request::Create(ResourceSpec::new(load_balancer.clone())),
        ));
        for (step, machine, others) in script {
            let id = control_plane(&prompt, ["a", "b"][machine]);
            let elsewhere = ResourceId {
                cluster: "elsewhere".to_owned(),
                ..id.id.resource()
            };
            for _ in 0..others {
                driver.apply(operation(now, Request::Retry(elsewhere.clone(), "vm".into())));
            }
            match step {
                Step::Create => {
                    follow(&prompt);
                    follow(&late);
                    let admitted = late.admit(id.clone());
                    if let Admission::New(_) = admitted {
                        prop_assert!(matches!(prompt.admit(id.clone()), Admission::New(_)));
                        let outcome = driver.apply(operation(now, creation(&id.id, 3 + machine as u64)));
                        prop_assert_eq!(outcome, Outcome::Accepted);
                        let register = Request::RegisterBackend {
                            load_balancer: load_balancer.clone(),
                            instance: id.id.name.clone(),
                            in_service_from: Stage::ApiServer.name(),
                        };
                        prop_assert_eq!(driver.apply(operation(now, register)), Outcome::Accepted);
                    }
                }
                Step::Delete => drop(driver.apply(operation(now, Request::Delete(id.id.resource())))),
                Step::Deregister => {
                    let instance = id.id.name.clone();
                    let load_balancer = load_balancer.clone();
                    driver.apply(operation(
                        now,
                        Request::DeregisterBackend {
                            load_balancer,
                            instance,
                        },
                    ));
                }
                Step::Wait => now = now + std::time::Duration::from_secs(5),
            }
            driver.poll(now);
            follow(&prompt);
        }
        follow(&late);
        prop_assert_eq!(shown(&late), shown(&prompt));
        Ok(())
    }

    #[test]
    fn machine_whose_whole_end_was_missed_leaves_nothing() {
        let steps =
            [Step::Create, Step::Wait, Step::Wait, Step::Create, Step::Delete].map(|step| (step, 0, 0));
        let missed = (Step::Wait, 0, Journal::CAPACITY);
        lag(steps.into_iter().chain([missed]).collect()).expect("both show the same");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// A cluster that reads after each step and one that reads only before a machine is created show the same in
        /// the end, even when the journal has dropped records that the second one did not read.
        #[test]
        fn cluster_that_lags_shows_what_one_that_does_not_shows(script in script()) {
            lag(script)?;
        }
    }

    /// What is copied under the engine's lock does not grow with the cluster.
    #[test]
    fn read_copies_as_many_machines_as_records_and_the_load_balancer_at_the_end() {
        let driver = driver();
        let cluster = cluster_following(&driver);
        let mut follower = cluster.follower.lock();
        cluster.follow(&mut follower, &driver, &mut BTreeSet::new(), |_| ());
        let now = SimTime::from_millis(1_000_000);
        let machines = 3 * BATCH;
        for number in 0..machines {
            let machine = control_plane(&cluster, &format!("m{number}"));
            cluster.admit(machine.clone());
            assert_eq!(
                driver.apply(operation(now, creation(&machine.id, 1))),
                Outcome::Accepted
            );
        }
        let load_balancer = cluster.spec.id.load_balancer();
        driver.apply(operation(now, Request::Create(ResourceSpec::new(load_balancer))));
        driver.poll(now + std::time::Duration::from_secs(1));
        let clock = &cluster.cluster_server.shared.cloud_clock;
        let mut reads: Vec<(usize, bool, bool)> = Vec::new();
        while reads.last().is_none_or(|(.., is_end)| !is_end) {
            let Read { levels, end } = follower.read(&driver, clock, |_| ());
            assert!(
                levels.machines.len() <= BATCH,
                "{} machines",
                levels.machines.len()
            );
            reads.push((levels.machines.len(), levels.balancer.is_some(), end.is_some()));
        }
        let copied: usize = reads.iter().map(|(machines, ..)| machines).sum();
        assert!(copied >= machines && reads.len() > 3, "{reads:?}");
        assert!(
            reads
                .iter()
                .all(|(_, has_balancer, is_end)| has_balancer == is_end),
            "{reads:?}"
        );
    }

    #[test]
    fn engine_is_free_while_a_cluster_shows_what_happened() {
        let driver = driver();
        let cluster = cluster_following(&driver);
        let machine = control_plane(&cluster, "a");
        cluster.admit(machine.clone());
        let now = SimTime::from_millis(1_000_000);
        assert_eq!(
            driver.apply(operation(now, creation(&machine.id, 0))),
            Outcome::Accepted
        );
        // Showing a machine blocks on the state of its cluster here, as if it took long, and holds no other lock.
        let busy = cluster.lock_state();
        std::thread::scope(|scope| {
            let following = scope.spawn(|| {
                cluster.follow(
                    &mut cluster.follower.lock(),
                    &driver,
                    &mut BTreeSet::new(),
                    |_| (),
                );
            });
            while cluster.follower.try_lock().is_some() {
                std::thread::yield_now();
            }
            let waiting = control_plane(&cluster, "b");
            assert_eq!(
                driver.apply(operation(now, creation(&waiting.id, 0))),
                Outcome::Accepted
            );
            assert!(!following.is_finished());
            drop(busy);
        });
        assert_eq!(shown(&cluster).0.len(), 1);
    }
}
