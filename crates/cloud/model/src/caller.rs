//! Who calls the operations of a cloud.

use serde::{Deserialize, Serialize};

/// Who calls an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Caller {
    /// The controller of InMemoryClusters, about the load balancer of a cluster.
    Cluster,
    /// The controller of InMemoryMachines, about a machine that is of no pool.
    #[default]
    Machine,
    /// The controller of InMemoryMachines, about a machine of a MachinePool.
    MachinePool,
}

impl Caller {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Machine, Self::MachinePool];

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Machine => "machine",
            Self::MachinePool => "machinePool",
        }
    }
}
