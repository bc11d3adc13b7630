//! Cluster API's own kinds, group `cluster.x-k8s.io`, version `v1beta2`: the fields we read.
//!
//! They are read and patched, never written whole, as that would lose what is not here. Every field may be absent.
//! They read what Cluster API up to 1.10 has as `v1beta1`, too: where a field has another shape there, either will do.

mod cluster;
mod definitions;
mod machine;
mod machine_pool;
mod older;

use serde::{Deserialize, Serialize};

pub use cluster::{
    Cluster, ClusterInitialization, ClusterNetwork, ClusterSpec, ClusterStatus, Endpoint, NetworkRanges,
};
pub use definitions::loose_crds;
pub(crate) use definitions::{column, loose};
pub use machine::{Bootstrap, Machine, MachineInitialization, MachineSpec, MachineStatus, NodeReference};
pub use machine_pool::{MachinePool, MachinePoolSpec, MachinePoolStatus, MachinePoolTemplate};

/// The API group.
pub const GROUP: &str = "cluster.x-k8s.io";

/// A reference to an object of the same namespace, in whatever version its kind has now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", from = "older::ObjectReference")]
pub struct ObjectReference {
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl ObjectReference {
    /// Whether it refers to an object of this group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.api_group == group && self.kind == kind
    }
}

#[cfg(test)]
mod tests;
