//! What can be shown, and of which kinds it is.

use clap::ValueEnum;
use nephele_api::{cloud, core, ipam, ipam::PoolKind};

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resource {
    #[value(aliases = ["cluster", "cl"])]
    Clusters,
    #[value(aliases = ["machine", "ma"])]
    Machines,
    #[value(aliases = ["pool"])]
    Pools,
    #[value(aliases = ["claim", "ipaddressclaims", "ipaddressclaim"])]
    Claims,
    #[value(aliases = ["cloud", "simulatedclouds", "simulatedcloud"])]
    Clouds,
    #[value(aliases = ["fault"])]
    Faults,
    #[value(name = "clusterfaults", aliases = ["clusterfault"])]
    ClusterFaults,
    #[value(aliases = ["scenario"])]
    Scenarios,
}

impl Resource {
    /// Group and kinds.
    pub(super) fn kinds(self) -> (&'static str, Vec<&'static str>) {
        match self {
            Self::Clusters => (core::GROUP, vec!["Cluster"]),
            Self::Machines => (core::GROUP, vec!["Machine"]),
            Self::Pools => (ipam::GROUP, PoolKind::ALL.map(PoolKind::as_str).to_vec()),
            Self::Claims => (ipam::GROUP, vec!["IPAddressClaim"]),
            Self::Clouds => (cloud::GROUP, vec!["SimulatedCloud"]),
            Self::Faults => (cloud::GROUP, vec!["Fault"]),
            Self::ClusterFaults => (cloud::GROUP, vec!["ClusterFault"]),
            Self::Scenarios => (cloud::GROUP, vec!["Scenario"]),
        }
    }

    pub(super) fn singular(self) -> &'static str {
        match self {
            Self::Clusters => "Cluster",
            Self::Machines => "Machine",
            Self::Pools => "pool",
            Self::Claims => "IPAddressClaim",
            Self::Clouds => "SimulatedCloud",
            Self::Faults => "Fault",
            Self::ClusterFaults => "ClusterFault",
            Self::Scenarios => "Scenario",
        }
    }
}

/// Whether the objects of a kind are in no namespace.
pub(super) fn is_of_no_namespace(kind: &str) -> bool {
    kind.starts_with("Global") || kind == "ClusterFault"
}
