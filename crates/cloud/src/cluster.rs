//! One simulated cluster, and what runs for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use nephele_apiserver::{DeleteOptions, GroupResource, Key, Object, Settings, StoreError};
use nephele_engine::{Endpoint, Hardware};
use nephele_etcd::{Member, member_id};
use nephele_pki::IssueError;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::allocation::Allocations;
use crate::error::ClusterError;
use crate::follower::Follower;
use crate::identity::Stage;
use crate::kept::{Deleted, KeptStore};
use crate::projection::{self, Component, Projected, Scope};
use crate::served::{Behind, BehindPort, Served, Shared};
use crate::spec::{Allocation, Authorities, ClusterSpec, MachineSpec, MachineUpdate, Software};
use crate::tls::Credentials;

/// A cluster that runs.
pub(crate) struct Cluster {
    pub(crate) spec: ClusterSpec,
    /// Where it is published.
    pub(crate) endpoint: Endpoint,
    /// What its connections take.
    pub(crate) served: Arc<Served>,
    /// Whether there were objects in it from before a restart.
    came_back: bool,
    /// What is not projected any more.
    deleted: Deleted,
    /// How far it has read the engine's journal. Locked before the state, and for as long as records are shown or the
    /// cluster's machines are asked for: so what is shown is never behind what was answered.
    pub(crate) follower: Mutex<Follower>,
    /// Told when the journal has something of the cluster.
    pub(crate) appended: Notify,
    /// Shared with those who ask what listens on a port of a pod.
    state: Arc<Mutex<State>>,
}

/// What changes while a cluster lives. Owned by the cluster, locked for short blocks. Whoever projects a machine holds
/// the lock meanwhile, so that nothing is projected for a machine that has just stopped.
#[derive(Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    /// The machines that the load balancer leads to, as the engine told.
    backends: BTreeSet<String>,
    allocations: Allocations,
    authorities: Option<Authorities>,
    credentials: Option<Credentials>,
}

struct Machine {
    spec: MachineSpec,
    reached: BTreeMap<Stage, Timestamp>,
    /// Its deletion was asked for: nothing runs on it any more.
    stopping: bool,
}

impl Machine {
    fn runs(&self, stage: Stage) -> bool {
        !self.stopping && self.reached.contains_key(&stage)
    }
}

/// What became of a machine that was asked for.
pub(crate) enum Admission {
    /// It is new: this is what it shall be, with its addresses.
    New(Box<MachineSpec>),
    /// It was there.
    Known,
    /// Another machine of that name was there.
    Conflict,
}

/// What there is to see of a machine besides its stages.
pub(crate) struct Seen {
    pub(crate) allocation: Allocation,
    pub(crate) zone: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) software: Software,
    /// The last update that was asked for.
    pub(crate) update: Option<MachineUpdate>,
    pub(crate) deleting: bool,
}

impl Cluster {
    /// A cluster at `endpoint`, with the objects that were kept of it. `settings` are those of its API servers but for
    /// the version.
    pub(crate) fn new(
        spec: ClusterSpec,
        endpoint: Endpoint,
        settings: Settings,
        shared: Arc<Shared>,
        follower: Follower,
        over: CancellationToken,
    ) -> Result<Self, ClusterError> {
        let KeptStore { store, came_back, deleted } = shared.keeper.store(&spec, (shared.clock)())?;
        let spec = ClusterSpec { endpoint: Some(endpoint.clone()), ..spec };
        let state = Arc::new(Mutex::new(State::default()));
        let behind = behind(state.clone(), spec.clone(), endpoint.port);
        let served = Served::new(spec.id.clone(), store, settings, shared, over, behind);
        let cluster = Self {
            served: Arc::new(served),
            came_back,
            deleted,
            follower: Mutex::new(follower),
            appended: Notify::new(),
            state,
            spec,
            endpoint,
        };
        cluster.project(projection::base(&cluster.scope(cluster.spec.created_at)));
        Ok(cluster)
    }

    /// Takes over authorities, and issues anew what they sign when they differ from before. Tells whether they did.
    pub(crate) fn set_authorities(&self, authorities: Authorities) -> Result<bool, IssueError> {
        let mut state = self.state.lock();
        if state.authorities.as_ref() == Some(&authorities) {
            return Ok(false);
        }
        let credentials = Credentials::issue(&self.spec, &authorities)?;
        self.served.front.set_tls(credentials.front.clone());
        state.credentials = Some(credentials);
        state.authorities = Some(authorities);
        self.project_control_plane(&state);
        Ok(true)
    }

    pub(crate) fn has_authorities(&self) -> bool {
        self.state.lock().authorities.is_some()
    }

    /// The machines that the load balancer leads to.
    pub(crate) fn backends(&self) -> BTreeSet<String> {
        self.state.lock().backends.clone()
    }

    pub(crate) fn machine_names(&self) -> Vec<String> {
        self.state.lock().machines.keys().cloned().collect()
    }

    pub(crate) fn machine_count(&self) -> usize {
        self.state.lock().machines.len()
    }

    /// Names of the members of etcd, in order.
    pub(crate) fn etcd_members(&self) -> Vec<String> {
        let mut names: Vec<_> = self.served.etcd.lock().members().map(|member| member.name.clone()).collect();
        names.sort();
        names
    }

    pub(crate) fn machine(&self, name: &str) -> Option<Seen> {
        let state = self.state.lock();
        let Machine { spec, stopping, .. } = state.machines.get(name)?;
        Some(Seen {
            allocation: spec.allocation.clone(),
            zone: spec.zone.clone(),
            region: spec.region.clone(),
            software: spec.software(),
            update: spec.update.as_deref().cloned(),
            deleting: *stopping,
        })
    }

    /// Keeps for machines that are expected back what they had.
    pub(crate) fn reserve(&self, published: BTreeMap<String, Allocation>) {
        let mut state = self.state.lock();
        for (name, allocation) in published {
            state.allocations.reserve(&name, allocation);
        }
    }

    /// The machine is not expected back.
    pub(crate) fn release(&self, name: &str) {
        let mut state = self.state.lock();
        if !state.machines.contains_key(name) {
            state.allocations.release(name);
        }
    }

    /// Takes a machine over: a new one gets what it does not bring along; a known one learns which update it is asked for,
    /// and without one runs at once what it is said to run.
    pub(crate) fn admit(&self, mut spec: MachineSpec) -> Admission {
        let mut state = self.state.lock();
        if let Some(known) = state.machines.get_mut(&spec.id.name) {
            let fixed = |spec: &MachineSpec| (spec.role, spec.zone.clone(), spec.instance_type.clone());
            if fixed(&known.spec) != fixed(&spec) {
                return Admission::Conflict;
            }
            let software = spec.software();
            let updating = spec.update.is_some();
            // One that is over stays, to be seen by whoever asked for it.
            known.spec.update = spec.update.or_else(|| known.spec.update.take());
            // Who asks for an update knows of what runs later than it does.
            if known.spec.software() != software && !known.stopping && !updating {
                known.spec.install(software);
                self.on_changed(known);
                self.set_backends(&state);
            }
            return Admission::Known;
        }
        if self.came_back {
            if self.is_former(&spec) {
                self.remove_objects(&spec.id.name);
            } else if spec.allocation.pod_cidrs.is_empty() {
                spec.allocation.pod_cidrs = self.kept_pod_cidrs(&spec.id.name);
            }
        }
        spec.allocation = state.allocations.allocate(&spec.id, &self.spec.pod_cidrs, spec.allocation);
        let machine = Machine { spec: spec.clone(), reached: BTreeMap::new(), stopping: false };
        state.machines.insert(spec.id.name.clone(), machine);
        Admission::New(Box::new(spec))
    }

    /// Takes note of what the cloud gave a new machine.
    pub(crate) fn equip(&self, name: &str, hardware: Hardware) {
        if let Some(machine) = self.state.lock().machines.get_mut(name) {
            machine.spec.hardware = Some(hardware);
        }
    }

    /// Lets be seen that a machine has reached a stage. Repeating it changes nothing.
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
                self.project(projection::node(&scope, spec));
                self.count_nodes();
            }
            Stage::Etcd => {
                let url = |port| {
                    vec![format!("https://{}", Endpoint { host: spec.internal_address().into(), port })]
                };
                if !spec.etcd_member_removed {
                    self.served.etcd.lock().add_member(Member {
                        id: self.member(name),
                        name: name.to_owned(),
                        peer_urls: url(2380),
                        client_urls: url(2379),
                    });
                }
                self.project(vec![projection::static_pod(&scope, spec, Component::Etcd)]);
            }
            Stage::ApiServer => {
                let pods = Component::ALL.into_iter().filter(|component| *component != Component::Etcd);
                self.project(pods.map(|component| projection::static_pod(&scope, spec, component)).collect());
                self.project_control_plane(&state);
            }
        }
        if self.came_back
            && let Some(machine) = state.machines.get(name)
        {
            // What was there may be of what the machine ran before.
            self.on_changed(machine);
        }
    }

    /// Whether what the cluster has of a machine's Node is that of a former machine of the name.
    fn is_former(&self, spec: &MachineSpec) -> bool {
        let Some(node) = self.served.store.get(&Key::new("", "nodes", "", &spec.id.name)) else {
            return true;
        };
        let created = node.value()["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
        let created = created.map_or(i64::MIN, Timestamp::as_second);
        // A Node's time has no fractions.
        let is_older = spec.started_at.is_some_and(|at| created < at.as_second());
        !spec.reached.contains_key(&Stage::Node) || is_older
    }

    /// Removes what was kept of machines that are not there any more.
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
        names.retain(|name| {
            !state.machines.contains_key(name) && !keeper.may_have_machine(&self.spec.id.namespace, name)
        });
        for name in names {
            tracing::info!(cluster = %self.spec.id, machine = name, "Removed what was kept of a machine that is gone");
            self.remove_objects(&name);
        }
    }

    /// Removes what was kept of a machine that is being deleted and never came back.
    pub(crate) fn remove_former_machine(&self, name: &str) {
        if self.came_back && !self.state.lock().machines.contains_key(name) {
            self.remove_objects(name);
        }
    }

    /// The machine is going: what ran on it stops at once, and what stood for it in the cluster goes, as a cloud
    /// controller and the pod garbage collector would see to.
    pub(crate) fn on_stopping(&self, name: &str) {
        // What a deleted cluster had is forgotten as a whole.
        if self.served.over.is_cancelled() {
            return;
        }
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name) else { return };
        if std::mem::replace(&mut machine.stopping, true) {
            return;
        }
        if machine.reached.contains_key(&Stage::Etcd) {
            // Down, and a member still, as long as its machine is there: nobody has asked etcd to remove it.
            self.served.etcd.lock().set_running(self.member(name), false);
        }
        self.remove_objects(name);
    }

    /// Removes what stands for a machine: its Node, its lease and all pods on it.
    fn remove_objects(&self, name: &str) {
        let pods = self.served.store.list(&GroupResource::new("", "pods"), None).objects;
        let on_node = pods.into_iter().filter(|pod| pod.value()["spec"]["nodeName"] == *name);
        let mut keys: Vec<Key> = on_node.map(|pod| Key::new("", "pods", &pod.namespace, &pod.name)).collect();
        keys.push(Key::new("coordination.k8s.io", "leases", "kube-node-lease", name));
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

    /// The load balancer leads to a machine, or to it no more.
    pub(crate) fn on_backend(&self, name: &str, in_service: bool) {
        let mut state = self.state.lock();
        let changed =
            if in_service { state.backends.insert(name.to_owned()) } else { state.backends.remove(name) };
        if changed {
            self.set_backends(&state);
        }
    }

    /// The load balancer leads to these machines.
    pub(crate) fn on_backends(&self, names: BTreeSet<String>) {
        let mut state = self.state.lock();
        if state.backends != names {
            state.backends = names;
            self.set_backends(&state);
        }
    }

    /// The machine is gone.
    ///
    /// A member that nobody removed goes with it. A real etcd would list it for ever as one that is down; here the
    /// members have to be those that the management objects tell of, so that a restart changes nothing.
    pub(crate) fn on_gone(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        state.allocations.release(name);
        if state.machines.remove(name).is_some() {
            self.served.etcd.lock().forget_member(self.member(name));
        }
    }

    /// Reports the addons as rolled out whenever they were changed, as their controllers would. Runs until the cluster
    /// is over.
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

    /// The time of an update is over: the machine runs what it was asked to run.
    pub(crate) fn on_updated(&self, name: &str, update: &str) {
        let mut state = self.state.lock();
        let Some(machine) = state.machines.get_mut(name).filter(|machine| !machine.stopping) else { return };
        let asked = machine.spec.update.as_deref().filter(|asked| asked.name() == update && !asked.fails);
        let Some(software) = asked.map(|asked| asked.software.clone()) else { return };
        machine.spec.install(software);
        self.on_changed(machine);
        self.set_backends(&state);
    }

    /// What a machine runs was changed in place: its kubelet, its static pods and its files follow.
    fn on_changed(&self, machine: &Machine) {
        let Machine { spec, reached, .. } = machine;
        let name = spec.id.name.as_str();
        if reached.contains_key(&Stage::Node) {
            self.edit(&Key::new("", "nodes", "", name), |node| projection::change_node(node, spec));
        }
        for component in Component::ALL {
            let key = Key::new("", "pods", "kube-system", &component.pod_name(name));
            self.edit(&key, |pod| projection::change_pod(pod, component, spec));
        }
    }

    /// What the whole control plane shares; there from its first API server on. Made with the cluster's time, so that
    /// it is the same whichever machine comes first after a restart.
    fn project_control_plane(&self, state: &State) {
        let first = state
            .machines
            .values()
            .filter_map(|machine| Some((machine.reached.get(&Stage::ApiServer)?, &machine.spec.version)))
            .min();
        let (Some((_, version)), Some(authorities)) = (first, &state.authorities) else { return };
        let scope = self.scope(self.spec.created_at);
        self.project(projection::kubeadm(&scope, version, &authorities.cluster));
        self.project(projection::addons(&scope, version));
        self.count_nodes();
    }

    fn count_nodes(&self) {
        let nodes = self.served.store.list(&GroupResource::new("", "nodes"), None).objects.len();
        self.edit(&projection::addon_keys()[0], |object| projection::count_nodes(object, nodes));
    }

    /// Has the front lead to the machines that the load balancer leads to; the newest says the version.
    fn set_backends(&self, state: &State) {
        let backends = state.backends.iter().filter_map(|name| state.machines.get(name));
        let newest = backends
            .max_by_key(|machine| (machine.reached.get(&Stage::ApiServer), &machine.spec.id.name))
            .map_or("", |machine| machine.spec.version.as_str());
        self.served.front.set_backends(state.backends.len(), newest);
    }

    /// The shares of the pod networks that the kept Node of a machine has: managers did not always note them elsewhere.
    fn kept_pod_cidrs(&self, machine: &str) -> Vec<String> {
        let Some(node) = self.served.store.get(&Key::new("", "nodes", "", machine)) else {
            return Vec::new();
        };
        let node = node.value();
        let cidrs = node["spec"]["podCIDRs"].as_array();
        cidrs.into_iter().flatten().filter_map(|cidr| cidr.as_str().map(str::to_owned)).collect()
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

    /// Makes objects that are not there. Those that are belong to their clients as well, who may have deleted them too.
    fn project(&self, objects: Vec<Projected>) {
        for Projected { key, value } in objects {
            if self.deleted.lock().contains(&key) {
                continue;
            }
            match self.served.store.create(self.now(), &key, value) {
                Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => {
                    tracing::error!(cluster = %self.spec.id, ?key, %error, "Failed to project an object");
                }
            }
        }
    }

    /// Changes an object that may be gone.
    fn edit(&self, key: &Key, edit: impl FnOnce(&mut Value)) {
        match self.served.store.modify(self.now(), key, edit) {
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(cluster = %self.spec.id, ?key, %error, "Failed to change an object");
            }
        }
    }
}

/// Says what listens on the ports of a control plane's pods.
fn behind(state: Arc<Mutex<State>>, spec: ClusterSpec, published: u16) -> BehindPort {
    Box::new(move |pod, port| {
        let mut state = state.lock();
        let State { machines, credentials, .. } = &mut *state;
        let credentials = credentials.as_mut()?;
        let running = |name: &str, stage: Stage| {
            let machine = machines.get(name).filter(|machine| machine.runs(stage))?;
            Some((&machine.spec, machine.reached[&stage]))
        };
        let issued = |error: IssueError| {
            tracing::warn!(cluster = %spec.id, pod, error = &error as &dyn std::error::Error,
                           "Failed to issue a certificate");
        };
        if let Some(name) = pod.strip_prefix("etcd-") {
            let (machine, since) = running(name, Stage::Etcd).filter(|_| port == 2379)?;
            let tls = credentials.etcd_member(&spec, machine, since).map_err(issued).ok()??;
            return Some(Behind::Etcd { tls, member: member_id(&spec.id.to_string(), name) });
        }
        let name = pod.strip_prefix("kube-apiserver-")?;
        let listens = port == projection::API_SERVER_PORT || port == published;
        let (machine, since) = running(name, Stage::ApiServer).filter(|_| listens)?;
        let tls = credentials.api_server(&spec, machine, since).map_err(issued).ok()?;
        Some(Behind::ApiServer(tls))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use nephele_apiserver::Authentication;
    use nephele_engine::Config;
    use prometheus::Registry;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::driver::Driver;
    use crate::front::parse_version;
    use crate::identity::{ClusterId, MachineAddress, MachineId, Role};
    use crate::kept::Keeper;
    use crate::metrics::Metrics;

    impl Cluster {
        /// Keeps anything from being shown while it is held.
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
        let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(|| Timestamp::UNIX_EPOCH);
        let shared = Shared {
            tasks: TaskTracker::new(),
            metrics: Metrics::register(&Registry::new()).expect("a new registry"),
            keeper: Keeper::default(),
            hold: Duration::ZERO,
            clock: clock.clone(),
        };
        let spec = ClusterSpec {
            id: ClusterId { namespace: "default".into(), name: "demo".into() },
            endpoint: None,
            created_at: Timestamp::UNIX_EPOCH,
            pod_cidrs: vec![],
            service_cidrs: vec![],
            service_domain: String::new(),
        };
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 20_000 };
        let version = parse_version("");
        let settings = Settings { version, authentication: Authentication::Required, clock, observer: None };
        let follower = Follower::begin(&spec.id, driver);
        let over = CancellationToken::new();
        Cluster::new(spec, endpoint, settings, Arc::new(shared), follower, over).expect("in memory")
    }

    pub(crate) fn control_plane(cluster: &Cluster, name: &str) -> MachineSpec {
        MachineSpec {
            id: MachineId { cluster: cluster.spec.id.clone(), name: name.into() },
            role: Role::ControlPlane,
            version: "v1.36.3".into(),
            zone: None,
            region: None,
            catalog: String::new(),
            instance_type: None,
            hardware: None,
            image: None,
            start_up: BTreeMap::new(),
            allocation: Allocation::default(),
            started_at: None,
            reached: BTreeMap::new(),
            etcd_member_removed: false,
            etcd_image_tag: None,
            files: None,
            update: None,
        }
    }

    /// Names of the members, those that run, and the leader's.
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

    #[test]
    fn member_on_a_dual_stack_machine_is_reached_at_its_first_address() {
        let cluster = cluster();
        let address = |address: &str| MachineAddress { kind: "InternalIP".into(), address: address.into() };
        for (name, addresses) in [("a", ["fd00::7", "10.0.0.7"]), ("b", ["10.0.0.8", "fd00::8"])] {
            let allocation = Allocation { addresses: addresses.map(address).into(), ..Allocation::default() };
            cluster.admit(MachineSpec { allocation, ..control_plane(&cluster, name) });
            // The pod belongs to its Node.
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
    fn member_that_was_removed_before_a_restart_does_not_come_back() {
        let cluster = cluster();
        for name in ["a", "b", "c"] {
            let removed = name == "a";
            cluster.admit(MachineSpec { etcd_member_removed: removed, ..control_plane(&cluster, name) });
            cluster.on_stage(name, Stage::Etcd, Timestamp::UNIX_EPOCH);
        }
        let left: Vec<String> = ["b", "c"].map(str::to_owned).into();
        assert_eq!(etcd(&cluster), (left.clone(), left, Some("b".into())));
    }
}
