//! Version `v1beta2`: Cluster API's contract v1beta2 for infrastructure providers, and the storage version.

mod cluster;
mod cluster_template;
pub mod creation_record;
pub mod deletion;
pub mod instance;
pub mod kubeadm;
mod load_balancer;
mod machine;
mod machine_pool;
mod machine_pool_template;
mod machine_template;
mod network;
pub mod pool_machine;
pub mod termination;
pub mod update;

use std::collections::BTreeMap;

pub use cluster::{
    CloudReference, ControlPlaneEndpoint, FailureDomain, InMemoryCluster, InMemoryClusterSpec,
    InMemoryClusterStatus,
};
pub use cluster_template::{
    InMemoryClusterTemplate, InMemoryClusterTemplateResource, InMemoryClusterTemplateSpec,
};
pub use load_balancer::{BACKEND_REASONS, BACKENDS_MAX, Backend, LoadBalancerStatus};
pub use machine::{
    Behaviour, Component, InMemoryMachine, InMemoryMachineSpec, InMemoryMachineStatus, MachineAddress,
    Provisioning,
};
pub use machine_pool::{
    InMemoryMachinePool, InMemoryMachinePoolSpec, InMemoryMachinePoolStatus, PoolMachine,
};
pub use machine_pool_template::{
    InMemoryMachinePoolTemplate, InMemoryMachinePoolTemplateResource, InMemoryMachinePoolTemplateSpec,
    InMemoryMachinePoolTemplateStatus,
};
pub use machine_template::{
    InMemoryMachineTemplate, InMemoryMachineTemplateResource, InMemoryMachineTemplateSpec,
    InMemoryMachineTemplateStatus, NodeInfo,
};
pub use network::{
    ClaimedAddress, ClusterNetwork, ClusterNetworkStatus, MachineNetwork, MachineNetworkStatus, PoolReference,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// This version's name.
pub const VERSION: &str = "v1beta2";

/// What Cluster API watches to learn that the first provisioning is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// True once the simulated infrastructure is provisioned; it never becomes false again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// Labels and annotations that objects made from a template get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// Whether a value is the default of an absent key, and so need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
