//! The observable state of clusters and machines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::Hardware;
use nephele_model::{ClusterId, Endpoint, FaultId, MachineId, Stage, VisibleEffect};

use crate::{
    backend::Backend,
    spec::{Allocation, Software},
    user_data::Kubeadm,
};

/// The state of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterObservation {
    pub endpoint: Endpoint,
    /// Whether its authorities are known.
    pub authorities_set: bool,
    /// How many backends are in service.
    pub backends: usize,
    /// How many machines it has.
    pub machines: usize,
    /// The members of etcd, by name.
    pub etcd_members: Vec<String>,
}

/// A load balancer as the cloud describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    pub endpoint: Endpoint,
    /// The machines that are registered with it, by name.
    pub backends: BTreeMap<String, Backend>,
}

/// The state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObservation {
    /// When it began to boot.
    pub started_at: Timestamp,
    /// The state of its stages.
    pub stages: BTreeMap<Stage, StageObservation>,
    /// The provider ID, which links it to its Node.
    pub provider_id: String,
    /// Its allocation in its cluster.
    pub allocation: Allocation,
    pub zone: Option<String>,
    /// The cloud that it was made from.
    pub cloud_spec: String,
    /// The region of its zone, if known.
    pub region: Option<String>,
    pub hardware: Hardware,
    pub software: Software,
    /// What its kubeadm configuration says.
    pub kubeadm: Option<Box<Kubeadm>>,
    /// The last update in place that was requested.
    pub update: Option<UpdateObservation>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What is wrong with it, by the name of the fault.
    pub wrong: BTreeMap<String, VisibleEffect>,
}

/// The state of an update in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateObservation {
    /// When it was requested. This identifies the update.
    pub asked_at: Timestamp,
    /// When it ended; none while it is under way.
    pub ended: Option<Timestamp>,
}

impl MachineObservation {
    /// Whether its instance is gone for good.
    #[must_use]
    pub fn has_vanished(&self) -> bool {
        self.wrong
            .values()
            .any(|visible_effect| *visible_effect == VisibleEffect::Vanished)
    }

    /// The first fault because of which the cloud takes its instance back.
    #[must_use]
    pub fn reclaimed_by(&self) -> Option<&str> {
        let told = self
            .wrong
            .iter()
            .find(|(_, visible_effect)| matches!(visible_effect, VisibleEffect::SpotReclaim(_)));
        told.map(|(fault, _)| fault.as_str())
    }

    /// The first fault that keeps it from getting past a stage, and how.
    #[must_use]
    pub fn held_by(&self, stage: Stage) -> Option<(&str, &VisibleEffect)> {
        let held = self
            .wrong
            .iter()
            .find(|(_, visible_effect)| visible_effect.held_stages().contains(&stage));
        held.map(|(fault, visible_effect)| (fault.as_str(), visible_effect))
    }

    /// When a stage was reached. None if it was not.
    #[must_use]
    pub fn reached(&self, stage: Stage) -> Option<Timestamp> {
        match self.stages.get(&stage)? {
            StageObservation::Reached { at } => Some(*at),
            StageObservation::Blocked
            | StageObservation::Waiting { .. }
            | StageObservation::Failed { .. } => None,
        }
    }
}

/// The state of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageObservation {
    /// An earlier stage is not reached yet.
    Blocked,
    /// Under way.
    Waiting {
        /// When it will end. None while the clock of the cloud stands still.
        due: Option<Timestamp>,
    },
    /// Reached.
    Reached { at: Timestamp },
    /// Failed.
    Failed { cause: String },
}

/// The state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing is left.
    Gone,
    /// The deletion takes time. A change will report its end.
    InProgress { since: Timestamp },
}

/// A change. It has only ids: read the state again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    /// A cluster.
    Cluster(ClusterId),
    /// What the load balancer of a cluster says about its backends. Those that come into or go out of service change the
    /// cluster.
    Backends(ClusterId),
    /// A machine.
    Machine(MachineId),
    /// A fault: it has hit something, or its time is over.
    Fault(FaultId),
    /// The resources of this namespace, or those that wait for room there.
    Usage(String),
    /// What every resource of this namespace may do: a fault there has changed or is over.
    Namespace(String),
    /// More changes than could be reported one by one.
    Everything,
}
