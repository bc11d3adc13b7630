//! A machine as its cell shows it. Pure.

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{
    cloud::v1alpha1::Fault,
    conditions::{self, reasons, types},
    core::Machine,
    infrastructure::v1beta2::{InMemoryMachine, pool_machine::POOL_NAME_LABEL},
    ipam::conditions::POOL_EXHAUSTED,
    labels,
};
use nephele_model::Market;

use crate::{objects::Key, stages::Stage, surroundings::Surroundings};

/// The phase of a Machine whose Node has joined, as Cluster API reports it.
const RUNNING: &str = "Running";

/// The condition of a Machine that says whether its Node is ready (`api/core/v1beta2/machine_types.go` of cluster-api).
pub(crate) const NODE_READY: &str = "NodeReady";

/// What a machine is for. It decides the shape of its cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A hexagon.
    ControlPlane,
    /// A square.
    #[default]
    Worker,
    /// A triangle: a member of a MachinePool.
    Pool,
}

impl Role {
    /// The role in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
            Self::Pool => "pool member",
        }
    }

    /// The role as an attribute.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
            Self::Pool => "pool",
        }
    }
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It has no instance yet.
    #[default]
    Waiting,
    Starting,
    Running,
    /// It runs, and its Node is not ready.
    NotReady,
    /// A stage failed.
    Failed,
    /// Its instance was terminated.
    Gone,
    Deleting,
}

impl State {
    /// All states, the most usual first.
    pub(crate) const ALL: [Self; 7] = [
        Self::Running,
        Self::Starting,
        Self::Waiting,
        Self::NotReady,
        Self::Failed,
        Self::Gone,
        Self::Deleting,
    ];

    /// The state in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::NotReady => "not ready",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::Deleting => "deleting",
        }
    }
}

/// The four stages of a machine, with the condition that reports each.
pub(crate) const STAGES: [(&str, &str); 4] = [
    ("vm", types::VM_PROVISIONED),
    ("node", types::NODE_PROVISIONED),
    ("etcd", types::ETCD_PROVISIONED),
    ("api", types::API_SERVER_PROVISIONED),
];

/// The progress of a stage in one word. A worker has no third and fourth stage.
pub(crate) fn stage_word(stage: Option<Stage>) -> &'static str {
    match stage {
        None => "none",
        Some(Stage::Waiting) => "waiting",
        Some(Stage::Starting) => "starting",
        Some(Stage::Up) => "up",
        Some(Stage::Failed | Stage::Terminated) => "failed",
    }
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineView {
    /// The key of its Machine, or of its InMemoryMachine if it has no Machine.
    pub key: Key,
    /// The name of its Cluster.
    pub cluster: String,
    pub role: Role,
    pub state: State,
    pub zone: String,
    pub stages: [Option<Stage>; 4],
    pub is_spot: bool,
    /// The names of the Faults that affect it now.
    pub faults: Vec<String>,
    /// The reason why it has no virtual machine yet, and more words.
    pub reason: String,
    pub message: String,
    /// It changes when a detail changes that the cell does not show.
    pub revision: String,
}

/// What the view of a machine is made of.
pub(crate) struct Seen<'a> {
    /// The key of its Machine, or of its InMemoryMachine if it has no Machine.
    pub(crate) key: Key,
    cluster: &'a str,
    metadata: &'a ObjectMeta,
    machine: Option<&'a Machine>,
    behind: Option<&'a InMemoryMachine>,
    /// The Faults that affect it now.
    faults: &'a [&'a Fault],
    revision: String,
}

impl<'a> Seen<'a> {
    /// All machines: those of Cluster API, and InMemoryMachines without a Machine.
    pub(crate) fn all(around: &'a Surroundings<'a>) -> Vec<Self> {
        let mut owned = HashSet::new();
        let mut machines = Vec::with_capacity(around.objects.machines.len());
        for machine in &around.objects.machines {
            let behind = behind(machine, around);
            owned.extend(behind.map(std::ptr::from_ref));
            machines.push(Self::new(&machine.metadata, Some(machine), behind, around));
        }
        for orphan in &around.objects.in_memory_machines {
            if !owned.contains(&Arc::as_ptr(orphan)) {
                machines.push(Self::new(&orphan.metadata, None, Some(orphan), around));
            }
        }
        machines
    }

    fn new(
        metadata: &'a ObjectMeta,
        machine: Option<&'a Machine>,
        behind: Option<&'a InMemoryMachine>,
        around: &'a Surroundings<'a>,
    ) -> Self {
        let key = Key::of(metadata);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let cluster = match machine {
            Some(machine) => machine.spec.cluster_name.as_str(),
            None => labels::value(metadata, labels::CLUSTER_NAME).unwrap_or_default(),
        };
        let instance = behind.and_then(|behind| behind.metadata.name.as_deref());
        let version = |metadata: Option<&'a ObjectMeta>| {
            metadata
                .and_then(|metadata| metadata.resource_version.as_deref())
                .unwrap_or_default()
        };
        let revision = format!(
            "{}.{}.{}",
            version(machine.map(|machine| &machine.metadata)),
            version(behind.map(|behind| &behind.metadata)),
            around.last_record(namespace, cluster, instance.unwrap_or_default()),
        );
        let faults = match instance {
            Some(instance) => around.faults(namespace, cluster, instance),
            None => &[],
        };
        Self {
            key,
            cluster,
            metadata,
            machine,
            behind,
            faults,
            revision,
        }
    }

    /// The name of its InMemoryMachine, by which Faults know it.
    pub(crate) fn instance(&self) -> Option<&'a str> {
        self.behind?.metadata.name.as_deref()
    }

    /// Its Machine, if Cluster API has one.
    pub(crate) fn machine(&self) -> Option<&'a Machine> {
        self.machine
    }

    /// What its Machine says of itself, or its InMemoryMachine if it has no Machine.
    pub(crate) fn metadata(&self) -> &'a ObjectMeta {
        self.metadata
    }

    /// Whether the view would be the same as this one of the same key: the API server gives each state of an object a
    /// version of its own.
    pub(crate) fn is_shown_by(&self, view: &MachineView) -> bool {
        let faults = self.faults.iter().map(|fault| fault.metadata.name.as_deref());
        view.revision == self.revision && faults.eq(view.faults.iter().map(|name| Some(name.as_str())))
    }

    /// The view.
    pub(crate) fn view(self) -> MachineView {
        let Self { machine, behind, .. } = self;
        let role = role(self.metadata);
        let stages = stages(behind, role);
        let vm = behind
            .and_then(|behind| behind.status.as_ref())
            .and_then(|status| conditions::find(&status.conditions, types::VM_PROVISIONED));
        let waits = vm.filter(|vm| vm.status != conditions::TRUE);
        MachineView {
            state: state(machine, self.metadata, &stages),
            zone: zone(machine, behind),
            is_spot: behind.is_some_and(|behind| Market::of(&behind.spec.market) == Market::Spot),
            faults: self
                .faults
                .iter()
                .filter_map(|fault| fault.metadata.name.clone())
                .collect(),
            reason: waits.map(|vm| vm.reason.clone()).unwrap_or_default(),
            message: waits.map(|vm| vm.message.clone()).unwrap_or_default(),
            revision: self.revision,
            key: self.key,
            cluster: self.cluster.to_owned(),
            role,
            stages,
        }
    }
}

impl MachineView {
    /// Its stages by name. A worker has two.
    pub fn named_stages(&self) -> impl Iterator<Item = (&'static str, Stage)> {
        let named = STAGES.iter().zip(&self.stages);
        named.filter_map(|((name, _), stage)| Some((*name, (*stage)?)))
    }

    /// The machine in words, for people who do not see its cell.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = format!("{} {}", self.role.words(), self.key.name);
        if !self.zone.is_empty() {
            label += &format!(", zone {}", self.zone);
        }
        label += &format!(", {}", self.state.word());
        if self.state == State::Starting {
            let under_way: Vec<_> = self
                .named_stages()
                .filter(|(_, stage)| *stage == Stage::Starting)
                .map(|(name, _)| name)
                .collect();
            if !under_way.is_empty() {
                label += &format!(": {}", under_way.join(" and "));
            }
        }
        if self.is_spot {
            label += ", spot";
        }
        if !self.faults.is_empty() {
            label += &format!(", Fault {}", self.faults.join(", "));
        }
        label
    }
}

/// The infrastructure of a Machine.
pub(crate) fn behind<'a>(machine: &Machine, around: &Surroundings<'a>) -> Option<&'a InMemoryMachine> {
    let reference = machine.spec.infrastructure_ref.as_ref()?;
    if reference.kind != "InMemoryMachine" {
        return None;
    }
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    around.in_memory_machine(namespace, &reference.name)
}

pub(crate) fn role(metadata: &ObjectMeta) -> Role {
    let is_pool = |name| labels::value(metadata, name).is_some();
    if labels::is_control_plane(metadata) {
        Role::ControlPlane
    } else if is_pool(POOL_NAME_LABEL) || is_pool(labels::TOPOLOGY_POOL_NAME) {
        Role::Pool
    } else {
        Role::Worker
    }
}

pub(crate) fn stages(behind: Option<&InMemoryMachine>, role: Role) -> [Option<Stage>; 4] {
    let mut stages = STAGES.map(|(_, condition)| {
        let stage = behind.and_then(|behind| Stage::of(behind, condition));
        Some(stage.unwrap_or(Stage::Waiting))
    });
    if role != Role::ControlPlane {
        stages[2] = None;
        stages[3] = None;
    }
    stages
}

fn state(machine: Option<&Machine>, metadata: &ObjectMeta, stages: &[Option<Stage>; 4]) -> State {
    let any = |wanted: Stage| stages.contains(&Some(wanted));
    let are_up = stages.iter().flatten().all(|stage| *stage == Stage::Up);
    let status = machine.and_then(|machine| machine.status.as_ref());
    let phase = status.map(|status| status.phase.as_str());
    let node = status.and_then(|status| conditions::find(&status.conditions, NODE_READY));
    let is_ready = node.is_none_or(|node| node.status == conditions::TRUE);
    if metadata.deletion_timestamp.is_some() {
        State::Deleting
    } else if any(Stage::Terminated) {
        State::Gone
    } else if any(Stage::Failed) {
        State::Failed
    } else if are_up && phase.is_none_or(|phase| phase == RUNNING) {
        if is_ready { State::Running } else { State::NotReady }
    } else if any(Stage::Starting) || any(Stage::Up) {
        State::Starting
    } else {
        State::Waiting
    }
}

/// Where the machine is, or where it is to be.
fn zone(machine: Option<&Machine>, behind: Option<&InMemoryMachine>) -> String {
    let placed = behind
        .and_then(|behind| behind.status.as_ref())
        .map(|status| status.failure_domain.as_str())
        .filter(|zone| !zone.is_empty());
    let recorded = || {
        let instance = behind?.spec.instance.as_deref()?;
        let origin = instance.origin.as_ref()?;
        Some(origin.failure_domain.as_str()).filter(|zone| !zone.is_empty())
    };
    let wanted = || machine.map(|machine| machine.spec.failure_domain.as_str());
    placed
        .or_else(recorded)
        .or_else(wanted)
        .unwrap_or_default()
        .to_owned()
}

/// Whether a machine waits for the cloud, an address or an extension rather than for Cluster API.
pub(crate) fn waits_for(reason: &str) -> Option<&'static str> {
    match reason {
        reasons::QUOTA_EXCEEDED => Some("quota"),
        reasons::INSUFFICIENT_CAPACITY => Some("stock"),
        reasons::WAITING_FOR_HOOK | reasons::HOOK_FAILED => Some("hook"),
        reasons::WAITING_FOR_IP_ADDRESS | POOL_EXHAUSTED => Some("address"),
        reasons::THROTTLED | reasons::REQUEST_DELAYED => Some("rate"),
        _ => None,
    }
}
