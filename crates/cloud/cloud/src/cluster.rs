//! One simulated cluster and its state.

mod joining;
mod machine;
mod objects;
mod replaced_node;
mod restored;
mod show;
mod visible_effects;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use nephele_apiserver::{Key, Settings};
use nephele_etcd::member_id;
use nephele_model::{Caller, Endpoint, Role, Stage, VisibleEffect};
use nephele_pki::IssueError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::machine::Machine;
pub(crate) use self::{
    machine::Instance,
    show::{Balancer, Levels},
};
use crate::{
    allocation::Allocations,
    clock::CloudClock,
    cluster_server::{BackendPod, BackendPodOfPort, ClusterServer, Shared},
    follower::Follower,
    persisted::{Deleted, PersistedStore},
    projection::{self, Scope},
    spec::{Allocation, Authorities, ClusterSpec, MachineSpec},
    tls::{ApiServerTls, Credentials},
};

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) spec: ClusterSpec,
    pub(crate) endpoint: Endpoint,
    /// The parts that its connections need.
    pub(crate) cluster_server: Arc<ClusterServer>,
    /// Whether it had kept objects when it was created.
    was_restored: bool,
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
    /// The backends in service, as the front has them.
    backends: BTreeSet<String>,
    allocations: Allocations,
    authorities: Option<Authorities>,
    credentials: Option<Credentials>,
    /// What is wrong with the cluster itself, by the name of the fault.
    visible_effects: BTreeMap<String, VisibleEffect>,
    /// The server of another cluster. Made when a fault first needs it.
    foreign_server: Option<Arc<ApiServerTls>>,
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

impl Cluster {
    /// A cluster at `endpoint`, with the objects that were kept. `settings` are the settings of its API servers except
    /// the version.
    pub(crate) fn new(
        spec: ClusterSpec,
        endpoint: Endpoint,
        settings: Settings,
        kept: PersistedStore,
        shared: Arc<Shared>,
        follower: Follower,
        over: CancellationToken,
    ) -> Self {
        let PersistedStore {
            store,
            was_restored,
            deleted,
        } = kept;
        let spec = ClusterSpec {
            endpoint: Some(endpoint.clone()),
            ..spec
        };
        let state = Arc::new(Mutex::new(State::default()));
        let clock = shared.cloud_clock.clone();
        let backend_pod = backend_pod(state.clone(), spec.clone(), endpoint.port, clock);
        let cluster_server = ClusterServer::new(spec.id.clone(), store, settings, shared, over, backend_pod);
        let cluster = Self {
            cluster_server: Arc::new(cluster_server),
            was_restored,
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
        self.cluster_server.frontend.set_tls(credentials.frontend.clone());
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
        let mut names: Vec<_> = self
            .cluster_server
            .etcd
            .lock()
            .members()
            .map(|member| member.name.clone())
            .collect();
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
            let fixed = |spec: &MachineSpec| {
                (
                    spec.role,
                    spec.zone.clone(),
                    spec.instance_type.clone(),
                    spec.market,
                )
            };
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
            if known.spec.software() != software && !known.is_deleting() && !updating {
                known.spec.install(software);
                self.show_software(known);
                self.set_backends(&mut state);
            }
            return Admission::Known;
        }
        if self.was_restored && self.is_previous(&spec) {
            self.remove_objects(&spec.node_name());
        }
        self.join(&state, &mut spec);
        spec.allocation = state
            .allocations
            .allocate(&spec.id, &self.spec.pod_cidrs, spec.allocation);
        state
            .machines
            .insert(spec.id.name.clone(), Machine::new(spec.clone()));
        Admission::New(Box::new(spec))
    }

    /// The specification of a machine that was admitted, complete with its allocation.
    pub(crate) fn admitted(&self, name: &str) -> Option<Box<MachineSpec>> {
        Some(Box::new(self.state.lock().machines.get(name)?.spec.clone()))
    }

    /// Forgets a machine that the cloud refused to create. It keeps its allocation, so that its next attempt has the same
    /// number: with another one, its random draws would depend on when other machines of its set ask.
    pub(crate) fn forget_refused(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(credentials) = &mut state.credentials {
            credentials.forget(name);
        }
        state.machines.remove(name);
    }

    fn member(&self, machine: &str) -> u64 {
        member_id(&self.spec.id.to_string(), machine)
    }

    fn scope(&self, at: Timestamp) -> Scope<'_> {
        Scope {
            cluster: &self.spec,
            at,
        }
    }

    fn now(&self) -> Timestamp {
        (self.cluster_server.shared.clock)()
    }
}

/// The machine whose kubelet has this name.
fn of_kubelet<'a>(machines: &'a BTreeMap<String, Machine>, name: &str) -> Option<&'a Machine> {
    let is_its = |machine: &&Machine| machine.kubelet() == name;
    machines
        .get(name)
        .filter(is_its)
        .or_else(|| machines.values().find(is_its))
}

/// Looks up what listens on a port of a control-plane pod. A machine whose kubelet has another name knows the pods of
/// that name only.
fn backend_pod(
    state: Arc<Mutex<State>>,
    spec: ClusterSpec,
    published: u16,
    clock: CloudClock,
) -> BackendPodOfPort {
    Box::new(move |pod, port| {
        let mut state = state.lock();
        let State {
            machines,
            credentials,
            ..
        } = &mut *state;
        let credentials = credentials.as_mut()?;
        let running = |name: &str, stage: Stage| {
            let machine = of_kubelet(machines, name)?;
            Some((&machine.spec, machine.runs(stage)?, machine.expiry(&clock)))
        };
        let issued = |error: IssueError| {
            tracing::warn!(cluster = %spec.id, pod, error = &error as &dyn std::error::Error,
                           "Failed to issue a certificate");
        };
        if let Some(name) = pod.strip_prefix("etcd-") {
            let (machine, since, _) = running(name, Stage::Etcd).filter(|_| port == 2379)?;
            let tls = credentials
                .etcd_member(&spec, machine, since)
                .map_err(issued)
                .ok()??;
            return Some(BackendPod::Etcd {
                tls,
                member: member_id(&spec.id.to_string(), &machine.id.name),
            });
        }
        let name = pod.strip_prefix("kube-apiserver-")?;
        let listens = port == projection::API_SERVER_PORT || port == published;
        let (machine, since, expiry) = running(name, Stage::ApiServer).filter(|_| listens)?;
        let tls = credentials
            .api_server(&spec, machine, since, expiry)
            .map_err(issued)
            .ok()?;
        Some(BackendPod::ApiServer(tls))
    })
}

#[cfg(test)]
pub(crate) mod tests;
