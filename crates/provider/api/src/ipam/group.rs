//! The API group of pools, claims and addresses.

/// The API group.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
