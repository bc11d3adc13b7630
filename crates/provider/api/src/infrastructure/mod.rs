//! The kinds of the group `infrastructure.cluster.x-k8s.io`, a module per version.
//!
//! ```text
//!  v1beta2 ── InMemoryCluster, InMemoryMachine, their templates ── stored, and what we work with ──┐
//!  v1beta1 ── the same for those who read Cluster API's contract v1beta1 ────────── conversion ────┘
//! ```

pub mod conversion;
pub mod v1beta1;
pub mod v1beta2;

pub use crate::definitions::infrastructure_crds as crds;

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
