//! A stand-in for Cluster API: core and the kubeadm providers as an infrastructure provider sees them, for the demo and
//! for tests that need no Kubernetes.
//!
//! ```text
//!  management API ──watch──▶ caches ▶ observe ▶ decide ▶ act ──▶ management API
//!                              ▲        ▲        (pure)   │
//!                              └────────┼─────────────────┤  what it wrote
//!                                       └─ workload API ◀─┘  through the cluster's own kubeconfig and endpoint
//! ```
//!
//! It implements Cluster API's side of the contract: it adds owner references to the provider's objects, creates
//! certificates and kubeconfig, creates Machines in the order that kubeadm needs, with the objects that own them, waits
//! for the status that the provider reports, finds Nodes by provider ID and watches over them, replaces machines that a
//! MachineHealthCheck finds unhealthy, and deletes in core's order. It sees the provider only through objects and the
//! endpoint, as Cluster API would.
//!
//! It does so for the clusters of a [`Plan`], and for every Cluster with a topology that a user creates.
//!
//! It must not know the provider's internals. It is not Cluster API: it has no etcd members, no drain, no hooks, no
//! cloud-init, no templates. It replaces terminated instances without a health check. Everything else works as in
//! `core/reconcilers` and `controlplane/kubeadm` of cluster-api.

mod act;
mod cache;
mod certificates;
mod conversion;
mod create;
mod decide;
mod kinds;
mod names;
mod observe;
mod owners;
mod phases;
mod plan;
mod planned;
mod pool;
mod references;
mod run;
mod surroundings;
mod topology;
mod wanted;
mod watches;
mod workload;

pub use conversion::convert;
pub use create::{Error, create};
pub use nephele_pki::KeyAlgorithm;
pub use phases::{AVAILABLE, RUNNING};
pub use plan::{ClusterPlan, DeploymentPlan, HealthCheck, Metadata, Plan, PlannedClusters};
pub use run::{crds, crds_without_conversion, play, run};
pub use surroundings::{Connect, KeyPairs, Surroundings};
pub use topology::TOPOLOGY_RECONCILED;
