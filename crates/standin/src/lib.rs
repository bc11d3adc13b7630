//! A stand-in for Cluster API: core and the kubeadm providers as an infrastructure provider sees them, for the demo and
//! for tests that need no Kubernetes.
//!
//! ```text
//!  management API ──watch──▶ observe ▶ decide ▶ act ──▶ management API
//!                              ▲          (pure)  │
//!                              └─ workload API ◀──┘  through the cluster's own kubeconfig and endpoint
//! ```
//!
//! It follows the contract from the other side: it owns what the provider made, makes certificates and kubeconfig,
//! creates Machines in the order kubeadm needs, waits for what the provider reports, looks Nodes up by provider id, and
//! deletes in core's order. Everything it knows of the provider it learns from objects and from the endpoint, as
//! Cluster API would.
//!
//! It must not know the provider's insides. It is not Cluster API: no health checks but for instances that were terminated, no
//! etcd members, no
//! drain, no cloud-init. What it does, it does as `core/reconcilers` and `controlplane/kubeadm` of cluster-api do.

mod act;
mod certificates;
mod decide;
mod kubeconfig;
mod names;
mod observe;
mod plan;
mod pool;
mod run;
mod surroundings;
mod workload;

pub use kubeconfig::kubeconfig;
pub use nephele_pki::KeyAlgorithm;
pub use plan::{ClusterPlan, Plan, PlannedClusters};
pub use run::{Error, crds, create, play, run};
pub use surroundings::{Connect, KeyPairs, Surroundings};

/// The type of the Cluster's condition that says that all of it is up.
pub const AVAILABLE: &str = "Available";
/// The phase of a Machine that is up.
pub const RUNNING: &str = "Running";
