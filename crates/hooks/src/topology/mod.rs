//! The variables of classes of simulated clusters, and what becomes of them in templates: the same as by the inline patches
//! of the class that is released (`config/templates/clusterclass-in-memory.yaml`), for classes that leave it to the
//! extension.

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

/// Where templates say what the cluster or machine that is made of them has.
const SPEC: [&str; 3] = ["spec", "template", "spec"];
/// Where templates of machine pools say what their machines have.
const POOL_SPEC: [&str; 4] = ["spec", "template", "spec", "template"];
