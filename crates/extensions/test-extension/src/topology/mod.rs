//! The variables of classes of simulated clusters, and their patches, for classes that leave patching to the extension.
//! The patches are the same as the inline patches of the released class
//! (`config/templates/clusterclass-in-memory.yaml`).

mod patches;
mod variables;
mod verdict;

pub use patches::patches;
pub use variables::variables;
pub use verdict::verdict;

/// The group of the simulated kinds.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const CLUSTER_TEMPLATE: &str = "InMemoryClusterTemplate";
const MACHINE_TEMPLATE: &str = "InMemoryMachineTemplate";
const MACHINE_POOL_TEMPLATE: &str = "InMemoryMachinePoolTemplate";

/// The path of the spec in templates of clusters and machines.
const SPEC: [&str; 3] = ["spec", "template", "spec"];
/// The path of the machines' spec in templates of machine pools.
const POOL_SPEC: [&str; 4] = ["spec", "template", "spec", "template"];
