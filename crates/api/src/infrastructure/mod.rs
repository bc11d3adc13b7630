//! The kinds of the group `infrastructure.cluster.x-k8s.io`, a module per version.

pub mod v1beta2;

pub use crate::definitions::infrastructure_crds as crds;

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
