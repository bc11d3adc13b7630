//! What can be seen of clusters and machines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Endpoint, Hardware};

use crate::identity::{ClusterId, MachineId, Stage};
use crate::spec::{Allocation, Software};

/// A cluster as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterObservation {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// Whether its authorities are known.
    pub authorities_set: bool,
    /// Machines that its load balancer leads to.
    pub backends: usize,
    /// Machines.
    pub machines: usize,
    /// The members of etcd, by name.
    pub etcd_members: Vec<String>,
}

/// A load balancer as the cloud describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// The names of the machines that are registered with it, in order.
    pub backends: Vec<String>,
    /// Those of them that it leads to.
    pub in_service: Vec<String>,
}

/// A machine as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObservation {
    /// When it began to boot.
    pub started_at: Timestamp,
    /// Its stages.
    pub stages: BTreeMap<Stage, StageObservation>,
    /// What ties it to its Node.
    pub provider_id: String,
    /// What it has to itself in its cluster.
    pub allocation: Allocation,
    /// Where it is.
    pub zone: Option<String>,
    /// The region of its zone, where it was told.
    pub region: Option<String>,
    /// What it has.
    pub hardware: Hardware,
    /// What it runs.
    pub software: Software,
    /// The last update in place that it was asked for.
    pub update: Option<UpdateObservation>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// How far an update in place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateObservation {
    /// When it was asked for, which tells it from others.
    pub asked_at: Timestamp,
    /// When it was over; none while it is under way.
    pub ended: Option<Timestamp>,
}

impl MachineObservation {
    /// When a stage was reached; none while it was not.
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

/// Where a machine stands in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageObservation {
    /// An earlier stage is not reached yet.
    Blocked,
    /// Under way.
    Waiting {
        /// When it will be decided.
        due: Timestamp,
    },
    /// Passed.
    Reached {
        /// When.
        at: Timestamp,
    },
    /// Failed.
    Failed {
        /// Why.
        cause: String,
    },
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There is nothing left.
    Gone,
    /// It takes its time; a change will tell.
    InProgress,
}

/// What changed. Ids only: look again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    /// A cluster.
    Cluster(ClusterId),
    /// A machine.
    Machine(MachineId),
    /// More than could be told.
    Everything,
}
