//! Version `v1beta1`: Cluster API's contract v1beta1 for infrastructure providers, which Cluster API up to 1.10 reads.
//!
//! Only clients of the API server see this version: objects are stored as `v1beta2`, and [`super::conversion`] converts
//! between the two. Types that differ are here, all others are those of `v1beta2`. A machine has no failure domain in
//! its spec here either: Cluster API would copy it to the Machine.

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
