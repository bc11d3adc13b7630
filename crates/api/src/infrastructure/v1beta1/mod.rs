//! Version `v1beta1`: Cluster API's contract v1beta1 for infrastructure providers, which Cluster API up to 1.10 reads.
//!
//! Nobody but the API server's clients sees it: objects are stored as `v1beta2`, and [`super::conversion`] leads from
//! one to the other. What differs is here, everything else is `v1beta2`'s own. A machine has no failure domain in its
//! spec here either: Cluster API would take it over into the Machine.

mod cluster;
mod cluster_template;
mod condition;
mod machine;
mod machine_pool;
mod machine_pool_template;
mod machine_template;

pub use cluster::{
    ControlPlaneEndpoint, FailureDomain, InMemoryCluster, InMemoryClusterSpec, InMemoryClusterStatus,
};
pub use cluster_template::{
    InMemoryClusterTemplate, InMemoryClusterTemplateResource, InMemoryClusterTemplateSpec,
};
pub use condition::{Condition, V1Beta2Conditions, severity};
pub use machine::{InMemoryMachine, InMemoryMachineSpec, InMemoryMachineStatus};
pub use machine_pool::{InMemoryMachinePool, InMemoryMachinePoolSpec, InMemoryMachinePoolStatus};
pub use machine_pool_template::{
    InMemoryMachinePoolTemplate, InMemoryMachinePoolTemplateResource, InMemoryMachinePoolTemplateSpec,
};
pub use machine_template::{
    InMemoryMachineTemplate, InMemoryMachineTemplateResource, InMemoryMachineTemplateSpec,
};

/// This version's name.
pub const VERSION: &str = "v1beta1";
