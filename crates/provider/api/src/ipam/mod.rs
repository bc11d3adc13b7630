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
mod group;
mod pool_kind;
pub mod v1alpha1;
pub mod v1alpha2;
pub mod v1beta2;

pub use definitions::{MOVE_HIERARCHY_LABEL, PROVIDER_VALUE, crds, loose_crds};
pub use group::GROUP;
pub use pool_kind::PoolKind;
