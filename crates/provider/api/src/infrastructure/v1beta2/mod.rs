//! Version `v1beta2`: Cluster API's contract v1beta2 for infrastructure providers, and the storage version.

mod cluster;
mod cluster_template;
pub mod creation_record;
pub mod deletion;
mod initialization;
pub mod instance;
pub mod kubeadm;
mod load_balancer;
mod machine;
mod machine_pool;
mod machine_pool_template;
mod machine_template;
mod network;
pub mod pool_machine;
mod template_metadata;
pub mod termination;
pub mod update;

pub use cluster::{
    CloudReference, ControlPlaneEndpoint, InMemoryCluster, InMemoryClusterSpec, InMemoryClusterStatus,
};
pub use cluster_template::{
    InMemoryClusterTemplate, InMemoryClusterTemplateResource, InMemoryClusterTemplateSpec,
};
pub use initialization::Initialization;
pub use load_balancer::{BACKEND_REASONS, BACKENDS_MAX, Backend, LoadBalancerStatus};
pub use machine::{
    Behaviour, Component, InMemoryMachine, InMemoryMachineSpec, InMemoryMachineStatus, Provisioning,
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
pub use template_metadata::TemplateMetadata;

pub use crate::core::{failure_domain::FailureDomain, machine_address::MachineAddress};

/// This version's name.
pub const VERSION: &str = "v1beta2";

#[cfg(test)]
mod tests;
