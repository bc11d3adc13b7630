//! One simulated cluster and its state.

mod joining;
mod other_node;
mod restored;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nephele_apiserver::{DeleteOptions, GroupResource, Key, Object, Settings, StoreError};
use nephele_engine::{Affliction, Hardware, Leaked};
use nephele_etcd::{Alarm, Member, member_id};
use nephele_model::{ClockSkew, Endpoint, EtcdAlarm, LoadBalancerTrouble, Role, SimTime, Stage, Symptom};
use nephele_pki::IssueError;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::joining::first_control_plane;
use crate::affliction::symptoms;
use crate::allocation::Allocations;
use crate::clock::CloudClock;
use crate::etcd_delay::Lateness;
use crate::follower::Follower;
use crate::identity::control_plane_node;
use crate::kept::{Deleted, KeptStore};
use crate::projection::{self, Component, Projected, Scope};
use crate::served::{Behind, BehindPort, Served, Shared};
use crate::spec::{Allocation, Authorities, ClusterSpec, MachineSpec, MachineUpdate, Software};
use crate::timed;
use crate::tls::{self, ApiServerTls, Credentials};
use crate::user_data::Kubeadm;
use nephele_model::Caller;

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) spec: ClusterSpec,
    /// Its published endpoint.
    pub(crate) endpoint: Endpoint,
    /// The parts that its connections need.
    pub(crate) served: Arc<Served>,
    /// Whether it had kept objects when it was created.
    came_back: bool,
    /// Projected objects that clients deleted. They are not projected again.
    deleted: Deleted,
    /// Its position in the engine's journal. Locked before the state, and held while records are shown or requests for
    /// the cluster's machines are sent. So the objects of the cluster are never behind an answer of the cloud.
    pub(crate) follower: Mutex<Follower>,
    /// Notified when the journal has new records of the cluster.
    pub(crate) appended: Notify,
    /// Notified when the kubelet of a machine may begin or cease to fall silent in turn.
    flapping: Notify,
    /// Shared with the lookup of what listens on a port of a pod.
    state: Arc<Mutex<State>>,
}

/// The state that changes while a cluster lives. Owned by the cluster and locked for short blocks. The lock is held
/// while a machine is projected, so that nothing is projected for a machine that has just stopped.
#[derive(Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    /// The backends in service, as the engine reported them.
    backends: BTreeSet<String>,
    allocations: Allocations,
    authorities: Option<Authorities>,
    credentials: Option<Credentials>,
    /// What is wrong with the cluster itself, by the name of the fault.
    wrong: BTreeMap<String, Symptom>,
    /// The server of another cluster. Made when a fault first needs it.
    stranger: Option<Arc<ApiServerTls>>,
}

struct Machine {
    spec: MachineSpec,
    reached: BTreeMap<Stage, Timestamp>,
    /// Its deletion was requested: nothing runs on it any more.
    stopping: bool,
    /// What is wrong with it, by the name of the fault.
    wrong: BTreeMap<String, Symptom>,
    /// The faults that let its kubelet fall silent in turn, where it is silent now, as its Node shows.
    silenced: BTreeSet<String>,
    /// How far its clock is off, as the heartbeats of its Node show.
    shown_skew: Option<ClockSkew>,
    /// The name of the second Node that it has because of a fault.
    other_node: Option<String>,
}

impl Machine {
    /// Whether nothing on it answers.
    fn is_silent(&self) -> bool {
        self.stopping || self.wrong.values().any(Symptom::is_silence)
    }

    fn has_vanished(&self) -> bool {
        self.wrong.values().any(|symptom| *symptom == Symptom::Vanished)
    }

    /// When the certificate of its API server expires, if a fault says so.
    fn expiry(&self, clock: &CloudClock) -> Option<Timestamp> {
        let started = *self.reached.get(&Stage::ApiServer)?;
        let expiry = |symptom: &Symptom| match symptom {
            Symptom::Certificate(early) => Some(timed::expiry(early, started, clock)),
            _ => None,
        };
        self.wrong.values().filter_map(expiry).min()
    }

    fn has_wrong_provider_id(&self) -> bool {
        self.wrong.values().any(|symptom| *symptom == Symptom::WrongProviderId)
    }

    fn flaps(&self) -> bool {
        self.wrong.values().any(|symptom| matches!(symptom, Symptom::Flapping(_)))
    }

    /// The faults of those that let its kubelet fall silent in turn that silence it now, and when that changes.
    fn silence(&self, clock: &CloudClock, now: Timestamp) -> (BTreeSet<String>, Option<Duration>) {
        let (mut silenced, mut next) = (BTreeSet::new(), None::<Duration>);
        let Some(registered) = self.reached.get(&Stage::Node) else { return (silenced, next) };
        for (fault, symptom) in &self.wrong {
            let Symptom::Flapping(flap) = symptom else { continue };
            let (is_silent, left) = timed::phase(flap, *registered, clock, now);
            silenced.extend(is_silent.then(|| fault.clone()));
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        (silenced, next)
    }

    /// What its Node shows: a kubelet that falls silent in turn is silent, or nothing is wrong with it.
    fn shown(&self) -> BTreeMap<String, Symptom> {
        let shown = |(fault, symptom): (&String, &Symptom)| match symptom {
            Symptom::Flapping(_) if !self.silenced.contains(fault) => None,
            Symptom::Flapping(_) => Some((fault.clone(), Symptom::NotReady)),
            other => Some((fault.clone(), other.clone())),
        };
        self.wrong.iter().filter_map(shown).collect()
    }

    fn runs(&self, stage: Stage) -> bool {
        !self.is_silent() && self.reached.contains_key(&stage)
    }
}

/// The result of [`Cluster::admit`].
pub(crate) enum Admission {
    /// The machine is new. This is its specification, complete with its allocation.
    New(Box<MachineSpec>),
    /// The machine exists.
    Known,
    /// Another machine of that name exists.
    Conflict,
}

/// The observable state of a machine besides its stages.
pub(crate) struct Seen {
    pub(crate) allocation: Allocation,
    pub(crate) zone: Option<String>,
    pub(crate) catalog: String,
    pub(crate) region: Option<String>,
    pub(crate) software: Software,
    pub(crate) kubeadm: Option<Box<Kubeadm>>,
    /// The last update that was requested.
    pub(crate) update: Option<MachineUpdate>,
    pub(crate) deleting: bool,
    /// What is wrong with it, by the name of the fault.
    pub(crate) wrong: BTreeMap<String, Symptom>,
}

impl Cluster {
    /// A cluster at `endpoint`, with the objects that were kept. `settings` are the settings of its API servers except
    /// the version.
    pub(crate) fn new(
        spec: ClusterSpec,
        endpoint: Endpoint,
        settings: Settings,
        kept: KeptStore,
        shared: Arc<Shared>,
        follower: Follower,
        over: CancellationToken,
    ) -> Self {
        let KeptStore { store, came_back, deleted } = kept;
        let spec = ClusterSpec { endpoint: Some(endpoint.clone()), ..spec };
        let state = Arc::new(Mutex::new(State::default()));
        let clock = shared.cloud_clock.clone();
        let behind = behind(state.clone(), spec.clone(), endpoint.port, clock);
        let served = Served::new(spec.id.clone(), store, settings, shared, over, behind);
        let cluster = Self {
            served: Arc::new(served),
            came_back,
            deleted,
            follower: Mutex::new(follower),
            appended: Notify::new(),
            flapping: Notify::new(),
            state,
            spec,
            endpoint,
        };
        cluster.create(projection::base(&cluster.scope(cluster.spec.created_at)));
        cluster
    }

    /// The objects of the projection that clients deleted.
    pub(crate) fn deleted(&self) -> BTreeSet<Key> {
        self.deleted.lock().clone()
    }

    /// Sets the authorities, and issues the certificates again if they differ from before. Returns whether they did.
    pub(crate) fn set_authorities(&self, authorities: Authorities) -> Result<bool, IssueError> {
        let mut state = self.state.lock();
        if state.authorities.as_ref() == Some(&authorities) {
            return Ok(false);
        }
        let credentials = Credentials::issue(&self.spec, &authorities)?;
        self.served.front.set_tls(credentials.front.clone());
        state.credentials = Some(credentials);
        state.authorities = Some(authorities);
        self.set_backends(&mut state);
        self.project_control_plane(&state);
        Ok(true)
    }

    pub(crate) fn has_authorities(&self) -> bool {
        self.state.lock().authorities.is_some()
    }

    /// The backends in service.
    pub(crate) fn backends(&self) -> BTreeSet<String> {
        self.state.lock().backends.clone()
    }

    pub(crate) fn machine_names(&self) -> Vec<String> {
        self.state.lock().machines.keys().cloned().collect()
    }

    pub(crate) fn machine_count(&self) -> usize {
        self.state.lock().machines.len()
    }

    /// The names of the etcd members, in order.
    pub(crate) fn etcd_members(&self) -> Vec<String> {
        let mut names: Vec<_> = self.served.etcd.lock().members().map(|member| member.name.clone()).collect();
        names.sort();
        names
    }

    /// The role of a machine. None if it is not known.
    pub(crate) fn role(&self, name: &str) -> Option<Role> {
        Some(self.state.lock().machines.get(name)?.spec.role)
    }

    /// Who calls the cloud about a machine.
    pub(crate) fn caller(&self, name: &str) -> Option<Caller> {
        Some(self.state.lock().machines.get(name)?.spec.caller)
    }

    pub(crate) fn machine(&self, name: &str) -> Option<Seen> {
        let state = self.state.lock();
        let Machine { spec, stopping, wrong, .. } = state.machines.get(name)?;
        Some(Seen {
            allocation: spec.allocation.clone(),
            zone: spec.zone.clone(),
            catalog: spec.catalog.clone(),
            region: spec.region.clone(),
            software: spec.software(),
            kubeadm: spec.kubeadm.clone(),
            update: spec.update.as_deref().cloned(),
            deleting: *stopping,
            wrong: wrong.clone(),
        })
    }

    /// Reserves the allocations of machines that are expected back.
    pub(crate) fn reserve(&self, published: BTreeMap<String, Allocation>) {
        let mut state = self.state.lock();
        for (name, allocation) in published {
            state.allocations.reserve(&name, allocation);
        }
    }

    /// Releases the allocation of a machine that is not expected back.
    pub(crate) fn release(&self, name: &str) {
        let mut state = self.state.lock();
        if !state.machines.contains_key(name) {
            state.allocations.release(name);
        }
    }

    /// Admits a machine. A new one gets the parts of its allocation that it does not bring along. A known one gets the
    /// requested update or, without an update, runs the requested software at once.
    pub(crate) fn admit(&self, mut spec: MachineSpec) -> Admission {
        let mut state = self.state.lock();
        if let Some(known) = state.machines.get_mut(&spec.id.name) {
            let fixed =
                |spec: &MachineSpec| (spec.role, spec.zone.clone(), spec.instance_type.clone(), spec.market);
            if fixed(&known.spec) != fixed(&spec) {
                return Admission::Conflict;
            }
            let mut software = spec.software();
            if spec.kubeadm.is_none() && known.spec.kubeadm.is_some() {
                // Its object does not have yet what it booted with.
                software.etcd_image_tag.clone_from(&known.spec.etcd_image_tag);
            }
            let updating = spec.update.is_some();
            // An update that has ended stays, so that its requester can see it.
            known.spec.update = spec.update.or_else(|| known.spec.update.take());
            // With an update, the software in `spec` is from before the update, and the machine may already run newer
            // software.
            if known.spec.software() != software && !known.stopping && !updating {
                known.spec.install(software);
                self.on_changed(known);
                self.set_backends(&mut state);
            }
            return Admission::Known;
        }
        if self.came_back && self.is_former(&spec) {
            self.remove_objects(&spec.node_name());
        }
        self.join(&state, &mut spec);
        spec.allocation = state.allocations.allocate(&spec.id, &self.spec.pod_cidrs, spec.allocation);
        let (reached, wrong) = (BTreeMap::new(), BTreeMap::new());
        let machine = Machine {
            spec: spec.clone(),
            reached,
            stopping: false,
            wrong,
            silenced: BTreeSet::new(),
            shown_skew: None,
            other_node: None,
        };
        state.machines.insert(spec.id.name.clone(), machine);
        Admission::New(Box::new(spec))
    }

    /// The specification of a machine that was admitted, complete with its allocation.
    pub(crate) fn admitted(&self, name: &str) -> Option<Box<MachineSpec>> {
        Some(Box::new(self.state.lock().machines.get(name)?.spec.clone()))
    }

    /// The stages that a machine is shown to have reached.
    pub(crate) fn shown_stages(&self, name: &str) -> Vec<Stage> {
        let state = self.state.lock();
        state.machines.get(name).into_iter().flat_map(|machine| machine.reached.keys().copied()).collect()
    }

    /// Stores what the cloud says about a new machine before any stage of it is shown: its hardware, and what is wrong
    /// with it.
    pub(crate) fn equip(&self, name: &str, hardware: Hardware, wrong: BTreeMap<String, Symptom>) {
        if let Some(machine) = self.state.lock().machines.get_mut(name) {
            machine.spec.hardware = Some(hardware);
            machine.wrong = wrong;
        }
    }

    /// Shows that a machine has reached a stage. Repeating it changes nothing.
    pub(crate) fn on_stage(&self, name: &str, stage: Stage, at: Timestamp) {
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name) else { return };
        if machine.stopping || machine.reached.insert(stage, at).is_some() {
            return;
        }
        let spec = &machine.spec;
        let scope = self.scope(at);
        match stage {
            Stage::Vm => {}
            Stage::Node => {
                self.make_room_for_node(spec);
                self.project(self.node(machine, &spec.node_name(), at));
                self.count_nodes();
            }
            Stage::Etcd => {
                let url = |port| {
                    vec![format!("https://{}", Endpoint { host: spec.internal_address().into(), port })]
                };
                if !spec.runs_etcd() {
                    return;
                }
                if !spec.etcd_member_removed {
                    self.served.etcd.lock().add_member(Member {
                        id: self.member(name),
                        name: spec.node_name().into_owned(),
                        peer_urls: url(2380),
                        client_urls: url(2379),
                    });
                }
                self.project(vec![projection::static_pod(&scope, spec, &machine.kubelet(), Component::Etcd)]);
            }
            Stage::ApiServer => {
                let pods = Component::ALL.into_iter().filter(|component| *component != Component::Etcd);
                let pod = |component| projection::static_pod(&scope, spec, &machine.kubelet(), component);
                self.project(pods.map(pod).collect());
                self.project_control_plane(&state);
            }
        }
        let Some(machine) = state.machines.get_mut(name) else { return };
        if self.came_back {
            // Kept objects may show software that the machine ran before.
            self.on_changed(machine);
            if stage == Stage::Node {
                self.renew_skewed(&machine.spec.node_name(), at);
            }
        }
        if self.came_back || !machine.wrong.is_empty() {
            // Kept objects may show what was wrong with it before.
            self.show_symptoms(machine);
        }
    }

    /// A fault afflicts a machine, or no longer does so.
    pub(crate) fn on_afflicted(&self, name: &str, fault: &str, symptom: Option<Symptom>) {
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name) else { return };
        let before = match symptom {
            Some(symptom) => machine.wrong.insert(fault.to_owned(), symptom),
            None => machine.wrong.remove(fault),
        };
        if before.as_ref() != machine.wrong.get(fault) {
            self.show_symptoms(machine);
            self.set_backends(&mut state);
        }
    }

    /// Sets everything that is wrong with a machine.
    pub(crate) fn on_afflictions(&self, name: &str, wrong: BTreeMap<String, Symptom>) {
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name) else { return };
        if machine.wrong != wrong {
            machine.wrong = wrong;
            self.show_symptoms(machine);
            self.set_backends(&mut state);
        }
    }

    /// Sets everything that is wrong with the cluster itself.
    pub(crate) fn on_troubles(&self, afflictions: &BTreeMap<String, Affliction>) {
        let mut state = self.state.lock();
        state.wrong = symptoms(afflictions);
        self.show_troubles(&mut state);
    }

    /// A fault afflicts the cluster, or no longer does so.
    pub(crate) fn on_trouble(&self, fault: &str, symptom: Option<Symptom>) {
        let mut state = self.state.lock();
        match symptom {
            Some(symptom) => drop(state.wrong.insert(fault.to_owned(), symptom)),
            None => drop(state.wrong.remove(fault)),
        }
        self.show_troubles(&mut state);
    }

    /// Lets the load balancer, API servers and etcd behave as the faults of the cluster say.
    fn show_troubles(&self, state: &mut State) {
        let trouble = |(fault, symptom): (&String, &Symptom)| match symptom {
            Symptom::ApiServer(trouble) => Some((fault.clone(), trouble.clone())),
            _ => None,
        };
        self.served.front.set_troubles(state.wrong.iter().filter_map(trouble).collect(), &self.served.store);
        let can_elect = !state.wrong.values().any(|symptom| *symptom == Symptom::EtcdWithoutLeader);
        self.served.etcd.lock().set_can_elect(can_elect);
        let lateness = |(fault, symptom): (&String, &Symptom)| match *symptom {
            Symptom::EtcdSlow { base, jitter_per_million } => {
                Some((fault.clone(), Lateness { base, jitter_per_million }))
            }
            _ => None,
        };
        self.served.etcd_latenesses.set(state.wrong.iter().filter_map(lateness).collect());
        let trouble = |(fault, symptom): (&String, &Symptom)| match symptom {
            Symptom::LoadBalancer(trouble) => Some((fault.clone(), trouble.clone())),
            _ => None,
        };
        let troubles: BTreeMap<_, _> = state.wrong.iter().filter_map(trouble).collect();
        let is_elsewhere = |trouble: &LoadBalancerTrouble| *trouble == LoadBalancerTrouble::WrongBackends;
        if state.stranger.is_none() && troubles.values().any(is_elsewhere) {
            match tls::stranger(&self.spec, self.now()) {
                Ok(stranger) => state.stranger = Some(stranger),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(cluster = %self.spec.id, error, "Failed to make a server of another cluster");
                }
            }
        }
        self.served.front.set_balancer(troubles, state.stranger.clone());
    }

    /// Shows what is wrong with a machine: in its Node, and in etcd. The load balancer follows the engine.
    fn show_symptoms(&self, machine: &mut Machine) {
        if machine.stopping {
            return;
        }
        let now = self.now();
        if machine.flaps() || !machine.silenced.is_empty() {
            machine.silenced = machine.silence(&self.served.shared.cloud_clock, now).0;
            self.flapping.notify_one();
        }
        let name = machine.spec.id.name.as_str();
        if machine.reached.contains_key(&Stage::Etcd) {
            let alarms = machine.wrong.values().filter_map(|symptom| match symptom {
                Symptom::EtcdAlarm(EtcdAlarm::NoSpace) => Some(Alarm::NoSpace),
                Symptom::EtcdAlarm(EtcdAlarm::Corrupt) => Some(Alarm::Corrupt),
                _ => None,
            });
            let mut etcd = self.served.etcd.lock();
            etcd.set_running(self.member(name), !machine.is_silent());
            etcd.set_alarms(self.member(name), alarms.collect());
            let is_hidden = machine.wrong.values().any(|symptom| *symptom == Symptom::EtcdMemberHidden);
            etcd.set_hidden(self.member(name), is_hidden);
        }
        if machine.has_vanished() {
            // As a cloud controller does for a Node without an instance.
            self.remove_nodes(machine);
        } else if machine.reached.contains_key(&Stage::Node) {
            self.show_provider_id(machine);
            self.show_other_node(machine);
            let name = machine.spec.node_name().into_owned();
            let (key, shown) = (node_key(&name), machine.shown());
            self.edit(&key, |node| projection::show_symptoms(node, &shown, now));
            if let Some(other) = &machine.other_node {
                let shown = machine.shown_by_other_node();
                self.edit(&node_key(other), |node| projection::show_symptoms(node, &shown, now));
            }
            let skew = projection::clock_skew(&machine.wrong);
            if skew != machine.shown_skew {
                machine.shown_skew = skew;
                let at = skew.map_or(now, |skew| projection::skewed(now, skew));
                for name in [Some(&*name), machine.other_node.as_deref()].into_iter().flatten() {
                    self.renew(name, at);
                }
            }
        }
    }

    /// A Node of a machine, as its kubelet registers it under a name, and its Lease.
    fn node(&self, machine: &Machine, name: &str, at: Timestamp) -> Vec<Projected> {
        let mut objects = projection::node(&self.scope(at), &machine.spec, name);
        let node = objects.iter_mut().find(|object| object.key.resource.resource == "nodes");
        if let Some(node) = node.filter(|_| machine.has_wrong_provider_id()) {
            projection::set_wrong_provider_id(&mut node.value, &machine.spec);
        }
        objects
    }

    /// Lets the Node have the provider ID of its machine, or that of no machine because of a fault. The provider ID of a
    /// Node cannot be changed. Where it differs, an operator deletes the Node, its pods go with it, and the kubelet registers
    /// again.
    fn show_provider_id(&self, machine: &mut Machine) {
        let (spec, reached) = (&machine.spec, &machine.reached);
        let name = spec.node_name().into_owned();
        let (Some(node), Some(at)) = (self.served.store.get(&node_key(&name)), reached.get(&Stage::Node))
        else {
            return;
        };
        if projection::has_wrong_provider_id(&node.value(), spec) == machine.has_wrong_provider_id() {
            return;
        }
        self.remove_nodes(machine);
        machine.other_node = None;
        self.register(machine, &name, *at);
    }

    /// Lets kubelets fall silent and report again in turn, as the faults of their machines say. Runs until the cluster is
    /// deleted.
    pub(crate) async fn keep_flapping(&self) {
        loop {
            let next = self.flap();
            let turned = async {
                match next {
                    Some(next) => tokio::time::sleep(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.served.over.cancelled() => return,
                () = self.flapping.notified() => {}
                () = turned => {}
            }
        }
    }

    /// Shows which kubelets are silent now. Returns how long nothing changes.
    fn flap(&self) -> Option<Duration> {
        let (mut state, now) = (self.state.lock(), self.now());
        let mut soonest: Option<Duration> = None;
        for machine in state.machines.values_mut().filter(|machine| !machine.stopping && machine.flaps()) {
            let (silenced, next) = machine.silence(&self.served.shared.cloud_clock, now);
            if silenced != machine.silenced {
                self.show_symptoms(machine);
            }
            soonest = soonest.into_iter().chain(next).min();
        }
        soonest
    }

    /// Whether the Node in the cluster belongs to a former machine of the same name.
    fn is_former(&self, spec: &MachineSpec) -> bool {
        let Some(node) = self.served.store.get(&node_key(&spec.node_name())) else {
            return true;
        };
        let created = node.value()["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
        let created = created.map_or(i64::MIN, Timestamp::as_second);
        // The creation time of a Node is in whole seconds.
        let is_older = spec.started_at.is_some_and(|at| created < at.as_second());
        !spec.reached.contains_key(&Stage::Node) || is_older
    }

    /// Removes the kept objects of machines that no longer exist. A second Node of a machine counts as one of these: it
    /// returns with the machine, if the machine still has it.
    pub(crate) fn remove_former_machines(&self) {
        if !self.came_back {
            return;
        }
        let state = self.state.lock();
        let mut names = BTreeSet::new();
        for (group, resource) in [("", "nodes"), ("coordination.k8s.io", "leases")] {
            let resource = GroupResource::new(group, resource);
            let objects = self.served.store.list(&resource, None).objects;
            let made = |object: &Arc<Object>| projection::made(&self.spec.id, &object.key(&resource), object);
            names.extend(objects.into_iter().filter(made).map(|object| object.name.to_string()));
        }
        let keeper = &self.served.shared.keeper;
        let there: BTreeSet<_> = state.machines.values().map(|machine| machine.spec.node_name()).collect();
        names.retain(|node| {
            !there.contains(node.as_str()) && !keeper.may_have_node(&self.spec.id.namespace, node)
        });
        for name in names {
            tracing::info!(cluster = %self.spec.id, machine = name, "Removed the objects of a machine that is gone");
            self.remove_objects(&name);
        }
    }

    /// Removes the kept objects of a machine that is being deleted and never returned.
    pub(crate) fn remove_former_machine(&self, name: &str) {
        if self.came_back && !self.state.lock().machines.contains_key(name) {
            // Its role is not known any more.
            for node in [name, &*control_plane_node(name)] {
                self.remove_objects(node);
            }
        }
    }

    /// Stops a machine that is being deleted. Its software stops at once; its Node stays until the machine is gone.
    pub(crate) fn on_stopping(&self, name: &str) {
        // The objects of a deleted cluster are forgotten as a whole.
        if self.served.over.is_cancelled() {
            return;
        }
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name) else { return };
        if std::mem::replace(&mut machine.stopping, true) {
            return;
        }
        if machine.reached.contains_key(&Stage::Etcd) {
            // The etcd member is down. It stays a member while its machine exists, because etcd was not asked to
            // remove it.
            self.served.etcd.lock().set_running(self.member(name), false);
        }
    }

    /// Removes the objects of a machine: its Node, its Lease and all pods on it.
    fn remove_objects(&self, name: &str) {
        let mut keys = self.served.store.pods_on(name);
        keys.push(lease_key(name));
        keys.push(Key::new("", "nodes", "", name));
        for key in keys {
            match self.served.store.delete(self.now(), &key, &DeleteOptions::default()) {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to remove an object");
                }
            }
        }
        self.count_nodes();
    }

    /// Adds or removes a backend in service.
    pub(crate) fn on_backend(&self, name: &str, in_service: bool) {
        let mut state = self.state.lock();
        let changed =
            if in_service { state.backends.insert(name.to_owned()) } else { state.backends.remove(name) };
        if changed {
            self.set_backends(&mut state);
        }
    }

    /// Sets the backends in service.
    pub(crate) fn on_backends(&self, names: BTreeSet<String>) {
        let mut state = self.state.lock();
        if state.backends != names {
            state.backends = names;
            self.set_backends(&mut state);
        }
    }

    /// The instance of a machine leaked. Its addresses stay in use.
    pub(crate) fn on_leaked(&self, name: &str, since: SimTime, addresses: &[String]) {
        self.state.lock().allocations.leak(name, since, addresses);
    }

    /// A leaked instance was deleted.
    pub(crate) fn on_leaked_deleted(&self, name: &str, since: SimTime) {
        self.state.lock().allocations.release_leaked(name, since);
    }

    /// Sets all leaked instances of the cluster.
    pub(crate) fn set_leaked(&self, leaked: &[Leaked]) {
        let mut state = self.state.lock();
        let is_there = |(name, since): &(String, SimTime)| {
            leaked.iter().any(|leaked| leaked.id.name == *name && leaked.since == *since)
        };
        let gone: Vec<_> = state.allocations.leaked().filter(|key| !is_there(key)).cloned().collect();
        gone.iter().for_each(|(name, since)| state.allocations.release_leaked(name, *since));
        for Leaked { id, since, addresses, .. } in leaked {
            state.allocations.leak(&id.name, *since, addresses);
        }
    }

    /// Forgets a machine that the cloud refused to create. It keeps its allocation, so that its next attempt has the same
    /// number: with new numbers, its random draws would depend on when other machines of its set ask.
    pub(crate) fn on_refused(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        state.machines.remove(name);
    }

    /// Another instance has taken the place of that of a machine, and begins afresh. What the first one showed is gone.
    pub(crate) fn on_replaced(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        let Some(machine) = state.machines.get_mut(name) else { return };
        machine.silenced.clear();
        if std::mem::take(&mut machine.reached).is_empty() {
            return;
        }
        self.served.etcd.lock().forget_member(self.member(name));
        if !self.served.over.is_cancelled() {
            self.remove_nodes(machine);
        }
        machine.other_node = None;
    }

    /// Forgets a machine that is gone. Its objects in the cluster are removed, as a cloud controller and the pod garbage
    /// collector would do.
    ///
    /// An etcd member that was not removed goes with its machine. A real etcd would list it forever as down. Here the
    /// members must be those that the management objects show, so that a restart changes nothing.
    pub(crate) fn on_gone(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        state.allocations.release(name);
        let Some(machine) = state.machines.remove(name) else { return };
        self.served.etcd.lock().forget_member(self.member(name));
        // The objects of a deleted cluster are forgotten as a whole, and a machine that was refused has none.
        if (machine.stopping || !machine.reached.is_empty()) && !self.served.over.is_cancelled() {
            self.remove_nodes(&machine);
        }
    }

    /// Reports the addons as rolled out whenever they are changed, as their controllers would. Runs until the cluster
    /// is deleted.
    pub(crate) async fn keep_addons(&self) {
        let mut newest = self.served.store.subscribe();
        let mut seen = [0; 2];
        loop {
            for (key, seen) in projection::addon_keys().iter().zip(&mut seen) {
                let version = self.served.store.get(key).map_or(0, |object| object.resource_version);
                if version != *seen {
                    *seen = version;
                    self.edit(key, projection::roll_out);
                }
            }
            tokio::select! {
                () = self.served.over.cancelled() => return,
                changed = newest.changed() => if changed.is_err() { return },
            }
        }
    }

    /// The update of a machine has ended: the machine runs the software of the update.
    pub(crate) fn on_updated(&self, name: &str, update: &str) {
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name).filter(|machine| !machine.stopping) else { return };
        let asked = machine.spec.update.as_deref().filter(|asked| asked.name() == update && !asked.fails);
        let Some(software) = asked.map(|asked| asked.software.clone()) else { return };
        machine.spec.install(software);
        self.on_changed(machine);
        self.set_backends(&mut state);
    }

    /// Updates the Nodes and the static pods of a machine whose software was changed in place.
    fn on_changed(&self, machine: &Machine) {
        let Machine { spec, reached, other_node, .. } = machine;
        for name in [Some(&*spec.node_name()), other_node.as_deref()].into_iter().flatten() {
            if reached.contains_key(&Stage::Node) {
                self.edit(&node_key(name), |node| projection::change_node(node, spec));
            }
            for component in Component::ALL {
                let key = Key::new("", "pods", "kube-system", &component.pod_name(name));
                self.edit(&key, |pod| projection::change_pod(pod, component, spec));
            }
        }
    }

    /// Projects the objects that the whole control plane shares, once there is an API server. Their creation time is
    /// the cluster's, so that they are the same whichever machine comes first after a restart.
    fn project_control_plane(&self, state: &State) {
        let (Some(first), Some(authorities)) = (first_control_plane(state), &state.authorities) else {
            return;
        };
        let scope = self.scope(self.spec.created_at);
        let configuration = first.cluster_configuration().cloned().unwrap_or_default();
        self.project(projection::kubeadm(&scope, &first.version, &configuration, &authorities.cluster));
        self.project(projection::addons(&scope, &first.version, &configuration));
        self.count_nodes();
    }

    fn count_nodes(&self) {
        let nodes = self.served.store.count(&GroupResource::new("", "nodes"));
        self.edit(&projection::addon_keys()[0], |object| projection::count_nodes(object, nodes));
    }

    /// Gives the front the backends in service, with the certificates that expire early, and the version of the newest
    /// one.
    fn set_backends(&self, state: &mut State) {
        let State { machines, backends, credentials, .. } = state;
        let clock = &self.served.shared.cloud_clock;
        let certificates = backends.iter().map(|name| {
            let machine = machines.get(name)?;
            let (expiry, started) = (machine.expiry(clock)?, *machine.reached.get(&Stage::ApiServer)?);
            let issued =
                credentials.as_mut()?.api_server(&self.spec, &machine.spec, started, Some(expiry));
            let failed = |error: &IssueError| {
                let error = error as &dyn std::error::Error;
                tracing::warn!(cluster = %self.spec.id, machine = name, error, "Failed to issue a certificate");
            };
            issued.inspect_err(failed).ok()
        });
        let certificates: Arc<[_]> = certificates.collect();
        let newest = backends
            .iter()
            .filter_map(|name| machines.get(name))
            .max_by_key(|machine| (machine.reached.get(&Stage::ApiServer), &machine.spec.id.name))
            .map_or("", |machine| machine.spec.version.as_str());
        self.served.front.set_backends(certificates, newest);
    }

    fn member(&self, machine: &str) -> u64 {
        member_id(&self.spec.id.to_string(), machine)
    }

    fn scope(&self, at: Timestamp) -> Scope<'_> {
        Scope { cluster: &self.spec, at }
    }

    fn now(&self) -> Timestamp {
        (self.served.shared.clock)()
    }

    /// Creates objects that do not exist. Existing ones belong to clients as well, and objects that clients deleted
    /// stay deleted, unless something restores them.
    fn project(&self, mut objects: Vec<Projected>) {
        objects.retain(|object| !self.deleted.lock().contains(&object.key));
        self.create(objects);
    }

    /// Creates objects that do not exist.
    fn create(&self, objects: Vec<Projected>) {
        for Projected { key, value } in objects {
            match self.served.store.create(self.now(), &key, value) {
                Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => {
                    tracing::error!(cluster = %self.spec.id, ?key, %error, "Failed to project an object");
                }
            }
        }
    }

    /// Changes an object, if it exists.
    fn edit(&self, key: &Key, edit: impl FnOnce(&mut Value)) {
        match self.served.store.modify(self.now(), key, edit) {
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to change an object");
            }
        }
    }
}

/// The key of a Node.
fn node_key(name: &str) -> Key {
    Key::new("", "nodes", "", name)
}

fn lease_key(node: &str) -> Key {
    Key::new("coordination.k8s.io", "leases", "kube-node-lease", node)
}

/// The machine whose kubelet has this name.
fn of_kubelet<'a>(machines: &'a BTreeMap<String, Machine>, name: &str) -> Option<&'a Machine> {
    let is_its = |machine: &&Machine| machine.kubelet() == name;
    machines.get(name).filter(is_its).or_else(|| machines.values().find(is_its))
}

/// Looks up what listens on a port of a control-plane pod. A machine whose kubelet has another name knows the pods of
/// that name only.
fn behind(state: Arc<Mutex<State>>, spec: ClusterSpec, published: u16, clock: CloudClock) -> BehindPort {
    Box::new(move |pod, port| {
        let mut state = state.lock();
        let State { machines, credentials, .. } = &mut *state;
        let credentials = credentials.as_mut()?;
        let running = |name: &str, stage: Stage| {
            let machine = of_kubelet(machines, name).filter(|machine| machine.runs(stage))?;
            Some((&machine.spec, machine.reached[&stage], machine.expiry(&clock)))
        };
        let issued = |error: IssueError| {
            tracing::warn!(cluster = %spec.id, pod, error = &error as &dyn std::error::Error,
                           "Failed to issue a certificate");
        };
        if let Some(name) = pod.strip_prefix("etcd-") {
            let (machine, since, _) = running(name, Stage::Etcd).filter(|_| port == 2379)?;
            let tls = credentials.etcd_member(&spec, machine, since).map_err(issued).ok()??;
            return Some(Behind::Etcd { tls, member: member_id(&spec.id.to_string(), &machine.id.name) });
        }
        let name = pod.strip_prefix("kube-apiserver-")?;
        let listens = port == projection::API_SERVER_PORT || port == published;
        let (machine, since, expiry) = running(name, Stage::ApiServer).filter(|_| listens)?;
        let tls = credentials.api_server(&spec, machine, since, expiry).map_err(issued).ok()?;
        Some(Behind::ApiServer(tls))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use nephele_apiserver::Authentication;
    use nephele_engine::{Config, Seed};
    use nephele_model::{ClusterId, Flap, MachineId, Role, SimTime};
    use prometheus::Registry;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::clock::{CloudClock, WallClock};
    use crate::driver::Driver;
    use crate::front::parse_version;
    use crate::identity::MachineAddress;
    use crate::kept::Keeper;
    use crate::metrics::Metrics;

    impl Cluster {
        /// While the returned lock is held, the cluster cannot show anything.
        pub(crate) fn lock_state(&self) -> impl Drop + '_ {
            self.state.lock()
        }
    }

    pub(crate) fn driver() -> Driver {
        let seconds = Metrics::register(&Registry::new()).expect("a new registry").engine_lock_seconds;
        Driver::new(Config::default(), "seed", seconds)
    }

    fn cluster() -> Cluster {
        cluster_following(&driver())
    }

    pub(crate) fn cluster_following(driver: &Driver) -> Cluster {
        cluster_at(driver, Arc::new(|| Timestamp::UNIX_EPOCH))
    }

    fn cluster_at(driver: &Driver, clock: WallClock) -> Cluster {
        let shared = Shared {
            tasks: TaskTracker::new(),
            metrics: Metrics::register(&Registry::new()).expect("a new registry"),
            keeper: Keeper::default(),
            hold: Duration::ZERO,
            clock: clock.clone(),
            cloud_clock: CloudClock::new(clock.clone()),
            seed: Seed::new("seed"),
        };
        let spec = ClusterSpec {
            id: ClusterId { namespace: "default".into(), name: "demo".into() },
            labels: BTreeMap::new(),
            region: None,
            catalog: String::new(),
            endpoint: None,
            created_at: Timestamp::UNIX_EPOCH,
            is_read_refused: false,
            pod_cidrs: vec![],
            service_cidrs: vec![],
            service_domain: String::new(),
        };
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 20_000 };
        let version = parse_version("");
        let settings = Settings { version, authentication: Authentication::Required, clock, observer: None };
        let follower = Follower::begin(&spec.id, driver);
        let over = CancellationToken::new();
        let kept = shared.keeper.store(&spec, Timestamp::UNIX_EPOCH).expect("in memory");
        Cluster::new(spec, endpoint, settings, kept, Arc::new(shared), follower, over)
    }

    pub(crate) fn control_plane(cluster: &Cluster, name: &str) -> MachineSpec {
        MachineSpec {
            id: MachineId { cluster: cluster.spec.id.clone(), name: name.into() },
            labels: BTreeMap::new(),
            role: Role::ControlPlane,
            caller: Caller::Machine,
            version: "v1.36.3".into(),
            zone: None,
            region: None,
            catalog: String::new(),
            instance_type: None,
            market: nephele_model::Market::OnDemand,
            hardware: None,
            image: None,
            start_up: BTreeMap::new(),
            allocation: Allocation::default(),
            started_at: None,
            reached: BTreeMap::new(),
            is_deregistered: false,
            etcd_member_removed: false,
            etcd_image_tag: None,
            files: None,
            kubeadm: None,
            update: None,
        }
    }

    /// The names of the members, of the running members, and of the leader.
    fn etcd(cluster: &Cluster) -> (Vec<String>, Vec<String>, Option<String>) {
        let etcd = cluster.served.etcd.lock();
        let mut members: Vec<_> = etcd.members().map(|member| (member.name.clone(), member.id)).collect();
        members.sort();
        let running = members.iter().filter(|(_, id)| etcd.is_running(*id)).map(|(name, _)| name.clone());
        let leader = members.iter().find(|(_, id)| etcd.leader() == Some(*id)).map(|(name, _)| name.clone());
        (members.iter().map(|(name, _)| name.clone()).collect(), running.collect(), leader)
    }

    #[test]
    fn member_of_a_machine_that_stops_is_down_until_the_machine_is_gone() {
        let cluster = cluster();
        for name in ["a", "b"] {
            cluster.admit(control_plane(&cluster, name));
            cluster.on_stage(name, Stage::Etcd, Timestamp::UNIX_EPOCH);
        }
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(etcd(&cluster), (names(&["a", "b"]), names(&["a", "b"]), Some("a".into())));
        cluster.on_stopping("a");
        assert_eq!(etcd(&cluster), (names(&["a", "b"]), names(&["b"]), None), "one of two is no quorum");
        cluster.on_gone("a");
        assert_eq!(etcd(&cluster), (names(&["b"]), names(&["b"]), Some("b".into())));
    }

    /// A large cluster that is deleted would read each pod for each of its machines.
    #[cfg(debug_assertions)]
    #[test]
    fn machine_goes_without_a_look_at_the_pods_of_others() {
        let objects_read = |pods: usize| {
            let cluster = cluster();
            cluster.admit(control_plane(&cluster, "a"));
            cluster.on_stage("a", Stage::Node, Timestamp::UNIX_EPOCH);
            for number in 0..pods {
                let key = Key::new("", "pods", "default", &format!("p{number}"));
                let node = if number < 3 { "a".to_owned() } else { format!("n{number}") };
                let pod = serde_json::json!({"spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
                cluster.served.store.create(Timestamp::UNIX_EPOCH, &key, pod).expect("a pod");
            }
            let before = nephele_apiserver::objects_parsed();
            cluster.on_stopping("a");
            cluster.on_gone("a");
            let pods_left = cluster.served.store.count(&GroupResource::new("", "pods"));
            assert_eq!(pods_left, pods - 3);
            nephele_apiserver::objects_parsed() - before
        };
        assert_eq!(objects_read(400), objects_read(100));
    }

    #[test]
    fn machine_that_was_refused_keeps_its_number_until_it_is_released() {
        let cluster = cluster();
        let ordinal = |name: &str| {
            let allocation = Allocation { set: "workers".into(), ..Allocation::default() };
            match cluster.admit(MachineSpec { allocation, ..control_plane(&cluster, name) }) {
                Admission::New(spec) => spec.allocation.ordinal,
                Admission::Known | Admission::Conflict => panic!("{name} is there already"),
            }
        };
        assert_eq!([ordinal("a"), ordinal("b")], [Some(0), Some(1)]);
        cluster.on_refused("a");
        cluster.on_refused("b");
        assert_eq!([ordinal("b"), ordinal("c"), ordinal("a")], [Some(1), Some(2), Some(0)]);
        cluster.on_refused("a");
        cluster.release("a");
        assert_eq!(ordinal("d"), Some(0));
    }

    #[test]
    fn member_on_a_dual_stack_machine_is_reached_at_its_first_address() {
        let cluster = cluster();
        let address = |address: &str| MachineAddress { kind: "InternalIP".into(), address: address.into() };
        for (name, addresses) in [("a", ["fd00::7", "10.0.0.7"]), ("b", ["10.0.0.8", "fd00::8"])] {
            let allocation = Allocation { addresses: addresses.map(address).into(), ..Allocation::default() };
            cluster.admit(MachineSpec { allocation, ..control_plane(&cluster, name) });
            // The pod belongs to its Node, so the Node comes first.
            for stage in [Stage::Node, Stage::Etcd] {
                cluster.on_stage(name, stage, Timestamp::UNIX_EPOCH);
            }
        }
        let etcd = cluster.served.etcd.lock();
        let mut urls: Vec<_> = etcd.members().flat_map(|member| member.client_urls.clone()).collect();
        urls.sort();
        assert_eq!(urls, ["https://10.0.0.8:2379", "https://[fd00::7]:2379"]);
        let pod = Key::new("", "pods", "kube-system", "etcd-a");
        let pod = cluster.served.store.get(&pod).expect("it is there").value();
        assert_eq!(pod["status"]["podIPs"], serde_json::json!([{"ip": "fd00::7"}, {"ip": "10.0.0.7"}]));
    }

    #[test]
    fn control_plane_with_a_long_name_has_a_node_whose_member_tls_can_name() {
        use rustls::pki_types::ServerName;
        let cluster = cluster();
        // 63 characters, as many as Cluster API allows.
        let long =
            |last: char| format!("team-payments-eu-central-production-blue-green-canary-42-xk2v{last}z");
        let mut nodes = BTreeSet::new();
        for name in [long('a'), long('b'), "short".to_owned()] {
            cluster.admit(control_plane(&cluster, &name));
            for stage in [Stage::Node, Stage::Etcd, Stage::ApiServer] {
                cluster.on_stage(&name, stage, Timestamp::UNIX_EPOCH);
            }
            let node = control_plane(&cluster, &name).node_name().into_owned();
            ServerName::try_from(Component::Etcd.pod_name(&node)).expect("TLS can name it");
            let shown = cluster.served.store.get(&node_key(&node)).expect("it is there").value();
            assert_eq!(shown["spec"]["providerID"], format!("in-memory://{name}"));
            for component in Component::ALL {
                let pod = component.pod_name(&node);
                let key = Key::new("", "pods", "kube-system", &pod);
                assert_eq!(
                    cluster.served.store.get(&key).expect("it is there").value()["spec"]["nodeName"],
                    node
                );
            }
            nodes.insert(node);
        }
        assert_eq!(etcd(&cluster).0, nodes.iter().cloned().collect::<Vec<_>>());
        assert_eq!(nodes.len(), 3);
        cluster.on_stopping(&long('a'));
        cluster.on_gone(&long('a'));
        assert_eq!(cluster.served.store.count(&GroupResource::new("", "nodes")), 2);
    }

    #[test]
    fn member_that_was_removed_before_a_restart_stays_removed() {
        let cluster = cluster();
        for name in ["a", "b", "c"] {
            let removed = name == "a";
            cluster.admit(MachineSpec { etcd_member_removed: removed, ..control_plane(&cluster, name) });
            cluster.on_stage(name, Stage::Etcd, Timestamp::UNIX_EPOCH);
        }
        let left: Vec<String> = ["b", "c"].map(str::to_owned).into();
        assert_eq!(etcd(&cluster), (left.clone(), left, Some("b".into())));
    }

    /// The status of the condition Ready of a machine's Node.
    fn ready(cluster: &Cluster, name: &str) -> String {
        let node = cluster.served.store.get(&node_key(name)).expect("it is there").value();
        let conditions = node["status"]["conditions"].as_array().expect("a list").iter();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        ready.next().and_then(|ready| ready["status"].as_str()).unwrap_or_default().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn kubelet_is_silent_and_reports_in_turn_until_it_is_healed() {
        let start = tokio::time::Instant::now();
        let clock: WallClock = Arc::new(move || Timestamp::UNIX_EPOCH + start.elapsed());
        let cluster = Arc::new(cluster_at(&driver(), clock));
        for name in ["a", "b"] {
            cluster.admit(control_plane(&cluster, name));
            cluster.on_stage(name, Stage::Node, Timestamp::UNIX_EPOCH);
        }
        let keeper = cluster.clone();
        let kept = tokio::spawn(async move { keeper.keep_flapping().await });
        let second = Duration::from_secs(1);
        tokio::time::sleep(5 * second).await;
        let flap = Symptom::Flapping(Flap::new(10 * second, 30 * second)).begun(SimTime::from_millis(5_000));
        cluster.on_afflicted("a", "f", Some(flap));
        // The half seconds keep out of the way of the turns.
        tokio::time::sleep(second / 2).await;
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(ready(&cluster, "a"));
            tokio::time::sleep(10 * second).await;
        }
        let turn = ["Unknown", "True", "True", "True"];
        assert_eq!(seen, [&turn[..], &turn[..], &turn[..2]].concat());
        assert_eq!(ready(&cluster, "b"), "True");
        // 105.5 s, long before the next turn at 125 s.
        let version = cluster.served.store.resource_version();
        tokio::time::sleep(10 * second).await;
        assert_eq!(cluster.served.store.resource_version(), version, "nothing is written between turns");
        tokio::time::sleep(10 * second).await;
        assert_eq!(ready(&cluster, "a"), "Unknown");
        cluster.on_afflicted("a", "f", None);
        assert_eq!(ready(&cluster, "a"), "True");
        tokio::time::sleep(100 * second).await;
        assert_eq!(ready(&cluster, "a"), "True");
        cluster.served.over.cancel();
        kept.await.expect("it ends with the cluster");
    }
}
