//! A scenario as the plan follows it: its steps with values that cannot be wrong.

use std::time::Duration;

use kube::core::{GroupVersionKind, Selector};
use nephele_api::cloud::v1alpha1::FaultSpec;
use nephele_model::ClockRate;
use serde_json::Value;

/// The steps of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    /// In the order of the status.
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// The names of the objects of its Faults.
    pub(crate) fn fault_names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Fault { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Its name in the status.
    pub(crate) name: String,
    /// The indices of the steps that have to pass before it begins. They are lower than its own.
    pub(crate) after: Vec<usize>,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Waits until this is seen.
    Expect { sight: Sight, within: Duration },
    /// Fails as soon as this is seen.
    Never { sight: Sight, during: Duration },
    /// Creates a Fault, by the name of its object.
    Fault {
        name: String,
        spec: Box<FaultSpec>,
        lasts: Option<Duration>,
    },
    /// Deletes a Fault, by the name of its object.
    Heal { fault: String },
    /// Changes the clock of a SimulatedCloud.
    Clock(ClockChange),
    /// Changes an object. It can be repeated without another effect.
    Change(Change),
    /// Lets time pass.
    Pause(Duration),
    /// Says something.
    Say(String),
}

/// A change of the clock of a SimulatedCloud.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockChange {
    /// The name of the SimulatedCloud.
    pub cloud: String,
    /// The rate, if it changes.
    pub rate: Option<ClockRate>,
    /// Whether the clock stands still, if that changes.
    pub paused: Option<bool>,
    /// How many things end; none if the counter stays as it is.
    pub step: Option<i64>,
    /// How much time passes at once; none if the total stays as it is.
    pub jump: Option<Duration>,
}

/// Something that can be seen in a namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sight {
    /// A condition of a Cluster.
    Cluster {
        name: String,
        condition: String,
        status: String,
    },
    /// A number of Machines. Each of the first three restricts which ones count.
    Machines {
        cluster: Option<String>,
        selector: Selector,
        phase: Option<String>,
        wanted: Wanted,
    },
    /// A field of an object.
    Field {
        kind: GroupVersionKind,
        name: String,
        field: String,
        value: String,
    },
}

/// A number of Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Exactly(usize),
    AtLeast(usize),
    AtMost(usize),
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Sets `spec.replicas`.
    Replicas {
        kind: GroupVersionKind,
        name: String,
        replicas: i32,
    },
    /// Sets the replicas of a part of a Cluster's topology.
    TopologyReplicas {
        cluster: String,
        part: Part,
        replicas: i32,
    },
    /// Sets the version of a Cluster's topology.
    Version { cluster: String, version: String },
    /// Creates or changes objects. They are read when the step begins: as values they take many times as much memory.
    Apply { field: String, manifests: String },
    /// Deletes an object.
    Delete { kind: GroupVersionKind, name: String },
}

/// An object as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) kind: GroupVersionKind,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// A part of a Cluster's topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    ControlPlane,
    MachineDeployment(String),
    MachinePool(String),
}

impl Wanted {
    /// Whether a number is as it should be.
    pub(crate) fn is_met(self, number: usize) -> bool {
        match self {
            Self::Exactly(wanted) => number == wanted,
            Self::AtLeast(wanted) => number >= wanted,
            Self::AtMost(wanted) => number <= wanted,
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(wanted) => write!(formatter, "{wanted}"),
            Self::AtLeast(wanted) => write!(formatter, "{wanted} or more"),
            Self::AtMost(wanted) => write!(formatter, "{wanted} or fewer"),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replicas { kind, name, .. } => write!(formatter, "scale {} {name}", kind.kind),
            Self::TopologyReplicas { cluster, part, .. } => {
                write!(formatter, "scale {part} of Cluster {cluster}")
            }
            Self::Apply { .. } => formatter.write_str("apply the manifests"),
            Self::Delete { kind, name } => write!(formatter, "delete {} {name}", kind.kind),
            Self::Version { cluster, .. } => write!(formatter, "upgrade Cluster {cluster}"),
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ControlPlane => formatter.write_str("the control plane in spec.topology"),
            Self::MachineDeployment(name) => write!(formatter, "MachineDeployment {name} in spec.topology"),
            Self::MachinePool(name) => write!(formatter, "MachinePool {name} in spec.topology"),
        }
    }
}
