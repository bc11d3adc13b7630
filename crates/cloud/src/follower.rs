//! How a cluster follows the engine: it shows the journal's records of its machines, at its own pace.
//!
//! The engine's lock is held only while records are copied, never while they are shown. A caller that reads the state
//! of a machine or a cluster makes the cluster catch up first, and sees the engine as it was at the last record. So
//! no caller sees a stage as reached that the cluster does not show yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nephele_engine::{
    Cursor, Engine, Entry, Event, EventKind, Leaked, Outcome, Record, Request, Resource, StageState,
    UpdateState,
};
use nephele_model::{
    ClusterId, GroupId, MachineId, ResourceId, ResourceKind, Role, SimTime, Stage, StageName,
};

use crate::affliction::symptoms;
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::observation::Changed;

/// Records copied under one lock: 32 pointers in 256 bytes per cluster, and more than a machine makes at a time.
const BATCH: usize = 32;

/// The position of a cluster in the journal.
pub(crate) struct Follower {
    group: GroupId,
    load_balancer: ResourceId,
    cursor: Cursor,
    batch: Vec<Arc<Entry>>,
    /// The cluster is deleted: nothing is created in it any more.
    pub(crate) over: bool,
}

/// The result of one read of the journal.
enum Read<T> {
    /// There may be more records.
    Some,
    /// No records are left. Has the result of `look`.
    All(T),
    /// Records were missed. Has the current resources of the cluster and the result of `look`.
    Behind(Snapshot, T),
}

/// The resources of a cluster in the engine.
struct Snapshot {
    resources: Vec<Resource>,
    /// The backends of its load balancer that are in service.
    in_service: BTreeSet<String>,
    leaked: Vec<Leaked>,
}

impl Follower {
    /// Follows a cluster from now on, until [`Follower::end`].
    pub(crate) fn begin(cluster: &ClusterId, driver: &Driver) -> Self {
        let group = cluster.group();
        let cursor = driver.change(|engine| engine.follow(group.clone()));
        let load_balancer = cluster.load_balancer();
        Self { group, load_balancer, cursor, batch: Vec::with_capacity(BATCH), over: false }
    }

    pub(crate) fn end(&mut self, driver: &Driver) {
        self.over = true;
        driver.change(|engine| engine.unfollow(&self.group));
    }

    fn read<T>(&mut self, driver: &Driver, look: impl Fn(&Engine) -> T) -> Read<T> {
        self.batch.clear();
        driver.look(|engine| {
            match engine.journal().read_group(&self.group, &mut self.cursor, &mut self.batch) {
                Ok(()) if self.batch.len() < BATCH => Read::All(look(engine)),
                Ok(()) => Read::Some,
                Err(nephele_engine::Behind) => {
                    let resources = engine.group(&self.group).cloned().collect();
                    let in_service = engine.in_service(&self.load_balancer).map(str::to_owned).collect();
                    let leaked = engine.leaked_of_group(&self.group).cloned().collect();
                    Read::Behind(Snapshot { resources, in_service, leaked }, look(engine))
                }
            }
        })
    }
}

impl Cluster {
    /// Shows all records of the cluster, adds the objects to look at again to `changed`, and returns the result of
    /// `look` on the engine right after the last record.
    pub(crate) fn follow<T>(
        &self,
        follower: &mut Follower,
        driver: &Driver,
        changed: &mut BTreeSet<Changed>,
        look: impl Fn(&Engine) -> T,
    ) -> T {
        loop {
            let read = follower.read(driver, &look);
            for entry in &follower.batch {
                self.show(&entry.record, changed);
            }
            match read {
                Read::Some => {}
                Read::All(seen) => return seen,
                Read::Behind(snapshot, seen) => {
                    self.show_state(snapshot, changed);
                    return seen;
                }
            }
        }
    }

    fn show(&self, record: &Record, changed: &mut BTreeSet<Changed>) {
        let Some(id) = MachineId::of_resource(record.resource()) else {
            return self.show_load_balancer(record, changed);
        };
        if self.may_change_backends(&id.name, record) {
            changed.insert(Changed::Backends(id.cluster.clone()));
        }
        match record {
            Record::Operation { operation, outcome: Outcome::Accepted, .. }
                if matches!(operation.request, Request::Delete(_)) =>
            {
                self.on_stopping(&id.name);
            }
            // The caller of the operation knows.
            Record::Operation { .. } => {}
            Record::Event(Event { at, kind, .. }) => {
                match kind {
                    EventKind::Adopted { reached, is_deleting } => {
                        for (stage, at) in reached {
                            self.show_stage(&id, stage, *at, changed);
                        }
                        if *is_deleting {
                            self.on_stopping(&id.name);
                        }
                    }
                    EventKind::StageReached(stage) => self.show_stage(&id, stage, *at, changed),
                    EventKind::Updated(update) => {
                        self.on_updated(&id.name, update);
                        // A reader of the cluster may see another version of its API.
                        changed.insert(Changed::Cluster(id.cluster.clone()));
                    }
                    EventKind::Afflicted { fault, affliction } => {
                        let symptom = affliction.as_ref().map(|affliction| affliction.symptom.clone());
                        self.on_afflicted(&id.name, fault, symptom);
                    }
                    EventKind::StageFailed { .. } => {}
                    EventKind::Leaked { since, addresses, is_replaced, .. } => {
                        self.on_leaked(&id.name, *since, addresses);
                        if *is_replaced {
                            self.on_replaced(&id.name);
                        }
                    }
                    EventKind::LeakedDeleted { since } => self.on_leaked_deleted(&id.name, *since),
                    // Only load balancers have backends.
                    EventKind::BackendInService(_) | EventKind::BackendOutOfService(_) => {}
                    EventKind::Deleted => self.on_gone(&id.name),
                }
                // Who adopts a machine looks at it at once.
                if !matches!(kind, EventKind::Adopted { .. }) {
                    changed.insert(Changed::Machine(id));
                }
            }
            Record::RoomFreed { .. } => drop(changed.insert(Changed::Machine(id))),
            Record::TurnEnded { .. } | Record::FaultEnded { .. } | Record::FaultWindow { .. } => {}
        }
    }

    /// Whether a record of a machine may change what its load balancer says about it. The load balancer has records of its
    /// own for what comes into or goes out of service.
    fn may_change_backends(&self, machine: &str, record: &Record) -> bool {
        let is_news = match record {
            Record::Operation { operation, outcome: Outcome::Accepted, .. } => {
                matches!(operation.request, Request::Delete(_))
            }
            Record::Event(Event { kind, .. }) => {
                matches!(kind, EventKind::Adopted { .. } | EventKind::Afflicted { .. } | EventKind::Deleted)
            }
            _ => false,
        };
        is_news && self.role(machine) != Some(Role::Worker)
    }

    /// Shows a record of the load balancer.
    fn show_load_balancer(&self, record: &Record, changed: &mut BTreeSet<Changed>) {
        match record {
            // A load balancer has no backends in service from the beginning of its deletion on.
            Record::Operation { operation, outcome: Outcome::Accepted, .. }
                if matches!(operation.request, Request::Delete(_)) =>
            {
                self.on_backends(BTreeSet::new());
            }
            // A new load balancer reports nothing by itself: machines have to be registered again.
            Record::Operation { operation, outcome: Outcome::Accepted, .. }
                if matches!(operation.request, Request::Create(_)) => {}
            // The caller of the operation knows, but it is the reconciler of a machine.
            Record::Operation { operation, outcome: Outcome::Accepted, .. }
                if matches!(
                    operation.request,
                    Request::RegisterBackend { .. } | Request::DeregisterBackend { .. }
                ) =>
            {
                changed.insert(Changed::Backends(self.spec.id.clone()));
                return;
            }
            // The caller of the operation knows.
            Record::Operation { .. }
            | Record::TurnEnded { .. }
            | Record::FaultEnded { .. }
            | Record::FaultWindow { .. } => return,
            Record::Event(Event { kind, .. }) => match kind {
                EventKind::BackendInService(name) => self.on_backend(name, true),
                EventKind::BackendOutOfService(name) => self.on_backend(name, false),
                EventKind::Afflicted { fault, affliction } => {
                    let symptom = affliction.as_ref().map(|affliction| affliction.symptom.clone());
                    self.on_trouble(fault, symptom);
                }
                // Who adopts a load balancer looks at it at once.
                EventKind::Adopted { .. } => return,
                _ => {}
            },
            Record::RoomFreed { .. } => {}
        }
        changed.insert(Changed::Cluster(self.spec.id.clone()));
    }

    fn show_stage(&self, id: &MachineId, stage: &StageName, at: SimTime, changed: &mut BTreeSet<Changed>) {
        let Some(stage) = Stage::of_name(stage) else { return };
        self.on_stage(&id.name, stage, self.served.shared.cloud_clock.wall_time(at));
        if stage == Stage::ApiServer {
            changed.insert(Changed::Cluster(id.cluster.clone()));
        }
    }

    /// Starts again from the state of the engine. Objects that are already shown stay as they are. All machines of the
    /// cluster learn of a changed cluster, also those that wait for room.
    fn show_state(&self, snapshot: Snapshot, changed: &mut BTreeSet<Changed>) {
        let Snapshot { resources, in_service, leaked } = snapshot;
        self.set_leaked(&leaked);
        let machines: BTreeMap<&str, &Resource> = resources
            .iter()
            .filter(|resource| resource.spec.id.kind == ResourceKind::Instance)
            .map(|resource| (resource.spec.id.name.as_str(), resource))
            .collect();
        let gone = self.machine_names().into_iter().filter(|name| !machines.contains_key(name.as_str()));
        for name in gone {
            // The record of its deletion was missed as well.
            self.on_gone(&name);
            changed.insert(Changed::Machine(MachineId { cluster: self.spec.id.clone(), name }));
        }
        for (name, machine) in machines {
            self.show_machine(name, machine, changed);
            changed
                .insert(Changed::Machine(MachineId { cluster: self.spec.id.clone(), name: name.to_owned() }));
        }
        let balancer = resources.iter().find(|resource| resource.spec.id.kind == ResourceKind::LoadBalancer);
        self.on_troubles(balancer.map_or(&BTreeMap::new(), |balancer| &balancer.afflictions));
        // Last, when the backends themselves are shown.
        self.on_backends(in_service);
        changed.insert(Changed::Cluster(self.spec.id.clone()));
    }

    /// Shows a machine as the engine has it.
    pub(crate) fn show_machine(&self, name: &str, machine: &Resource, changed: &mut BTreeSet<Changed>) {
        let id = MachineId { cluster: self.spec.id.clone(), name: name.to_owned() };
        let has_reached =
            |stage: &Stage| matches!(machine.stage(&stage.name()), Some(StageState::Reached { .. }));
        // The record that another instance has taken its place may have been missed.
        if !self.shown_stages(name).iter().all(has_reached) {
            self.on_replaced(name);
        }
        for (stage, state) in machine.stages() {
            if let StageState::Reached { at } = state {
                self.show_stage(&id, stage, *at, changed);
            }
        }
        if let Some(update) = &machine.update
            && matches!(update.state, UpdateState::Over { .. })
        {
            self.on_updated(name, &update.name);
        }
        if machine.deleting.is_some() {
            self.on_stopping(name);
        }
        self.on_afflictions(name, symptoms(&machine.afflictions));
    }
}

#[cfg(test)]
mod tests {
    use nephele_apiserver::GroupResource;
    use nephele_engine::{Journal, Latency, Operation, ResourceSpec, StageSpec};
    use nephele_model::{Odds, ResourceId};
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::Admission;
    use crate::cluster::tests::{cluster_following, control_plane, driver};

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
        Operation { caller: "test".to_owned(), request, at }
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
            let objects = cluster.served.store.list(&GroupResource::new("", resource), None).objects;
            let line = |object: &Arc<nephele_apiserver::Object>| {
                format!("{} {} {}", object.name, object.uid, object.value()["metadata"]["creationTimestamp"])
            };
            let mut lines: Vec<_> = objects.iter().map(line).collect();
            lines.sort();
            lines
        };
        (objects("nodes"), objects("pods"), cluster.backends(), cluster.etcd_members())
    }

    /// Two clusters follow the same script: one reads after each step, and one reads only when it has to.
    fn lag(script: Vec<(Step, usize, usize)>) -> Result<(), TestCaseError> {
        let driver = driver();
        let (prompt, late) = (cluster_following(&driver), cluster_following(&driver));
        let follow = |cluster: &Cluster| {
            cluster.follow(&mut cluster.follower.lock(), &driver, &mut BTreeSet::new(), |_| ());
        };
        let mut now = SimTime::from_millis(1_000_000);
        let load_balancer = prompt.spec.id.load_balancer();
        driver.apply(operation(now, Request::Create(ResourceSpec::new(load_balancer.clone()))));
        for (step, machine, others) in script {
            let id = control_plane(&prompt, ["a", "b"][machine]);
            let elsewhere = ResourceId { group: "elsewhere".to_owned(), ..id.id.resource() };
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
                    driver.apply(operation(now, Request::DeregisterBackend { load_balancer, instance }));
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

    #[test]
    fn engine_is_free_while_a_cluster_shows_what_happened() {
        let driver = driver();
        let cluster = cluster_following(&driver);
        let machine = control_plane(&cluster, "a");
        cluster.admit(machine.clone());
        let now = SimTime::from_millis(1_000_000);
        assert_eq!(driver.apply(operation(now, creation(&machine.id, 0))), Outcome::Accepted);
        // Showing a machine blocks on the state of its cluster here, as if it took long, and holds no other lock.
        let busy = cluster.lock_state();
        std::thread::scope(|scope| {
            let following = scope.spawn(|| {
                cluster.follow(&mut cluster.follower.lock(), &driver, &mut BTreeSet::new(), |_| ());
            });
            while cluster.follower.try_lock().is_some() {
                std::thread::yield_now();
            }
            let waiting = control_plane(&cluster, "b");
            assert_eq!(driver.apply(operation(now, creation(&waiting.id, 0))), Outcome::Accepted);
            assert!(!following.is_finished());
            drop(busy);
        });
        assert_eq!(shown(&cluster).0.len(), 1);
    }
}
