//! The kinds of the group `ipam.cluster.x-k8s.io`, a module per version.
//!
//! The group has two owners. The pools are ours, and equal those of the in-cluster IPAM provider exactly, so that its
//! manifests and its users' objects work unchanged. Claims and addresses are Cluster API's own: we read and write them,
//! and define them only in the demo and the tests.
//!
//! ```text
//!  v1alpha2 ── InClusterIPPool, GlobalInClusterIPPool ─────── stored ──┐
//!           └─ InClusterPrefixPool, GlobalInClusterPrefixPool          ├─ conversion
//!  v1alpha1 ── InClusterIPPool, GlobalInClusterIPPool ── deprecated ───┘
//!  v1beta2 ─── IPAddressClaim, IPAddress, Cluster API's own, trimmed
//! ```

pub mod annotations;
pub mod conditions;
pub mod conversion;
mod definitions;
pub mod finalizers;
mod global;
mod pool_kind;
mod schema;
pub mod v1alpha1;
pub mod v1alpha2;
pub mod v1beta2;

pub use definitions::{crds, loose_crds};
pub use pool_kind::PoolKind;

/// The API group.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";

/// The value of [`crate::labels::PROVIDER`] on objects of this provider, as clusterctl writes it.
pub const PROVIDER_VALUE: &str = "ipam-in-cluster";

/// Label of a CRD: `clusterctl move` moves all its objects, with everything that they own
/// (`cmd/clusterctl/client/cluster/objectgraph.go`).
pub const MOVE_HIERARCHY_LABEL: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
