//! The templates of the simulated kinds, and where the specs in them are.

/// The group of the simulated kinds.
pub(super) const GROUP: &str = "infrastructure.cluster.x-k8s.io";
pub(super) const CLUSTER_TEMPLATE: &str = "InMemoryClusterTemplate";
pub(super) const MACHINE_TEMPLATE: &str = "InMemoryMachineTemplate";
pub(super) const MACHINE_POOL_TEMPLATE: &str = "InMemoryMachinePoolTemplate";

/// The path of the spec in templates of clusters and machines.
pub(super) const SPEC: [&str; 3] = ["spec", "template", "spec"];
/// The path of the machines' spec in templates of machine pools.
pub(super) const POOL_SPEC: [&str; 4] = ["spec", "template", "spec", "template"];
