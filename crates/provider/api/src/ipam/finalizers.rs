//! The finalizers of pools, claims and addresses, with the names of the in-cluster IPAM provider.

/// Holds a claim until its address is released.
pub const CLAIM: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";

/// Holds an address until its claim has released it.
pub const ADDRESS: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// Holds a pool until its last address is gone.
pub const POOL: &str = "ipam.cluster.x-k8s.io/ProtectPool";
