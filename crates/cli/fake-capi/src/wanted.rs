//! The plan of a cluster, with its author.

use crate::{plan::ClusterPlan, topology::TopologyError};

/// What a cluster should be, and who says so.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// A plan. Its author has created the Cluster and its InMemoryCluster.
    Plan(ClusterPlan),
    /// The topology of the Cluster, if it can be read.
    Topology(Result<ClusterPlan, TopologyError>),
}

impl Wanted {
    pub(crate) fn plan(&self) -> Option<&ClusterPlan> {
        match self {
            Self::Plan(plan) | Self::Topology(Ok(plan)) => Some(plan),
            Self::Topology(Err(_)) => None,
        }
    }
}
