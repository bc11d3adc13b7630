//! The finalizers of pools, claims and addresses, as the in-cluster IPAM provider names them.

/// Holds a claim until its address is released.
pub const CLAIM: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";

/// Holds an address until its claim lets go of it.
pub const ADDRESS: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// Holds a pool until its last address is gone.
pub const POOL: &str = "ipam.cluster.x-k8s.io/ProtectPool";
