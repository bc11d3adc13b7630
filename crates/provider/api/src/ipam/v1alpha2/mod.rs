//! Version `v1alpha2`, in which pools are stored.

mod ip_pool;
mod prefix_pool;
mod status;

pub use ip_pool::{GlobalInClusterIPPool, InClusterIPPool, InClusterIPPoolSpec};
pub use prefix_pool::{
    ALLOCATION_PREFIX_LENGTH_DEFAULT, GlobalInClusterPrefixPool, InClusterPrefixPool, InClusterPrefixPoolSpec,
};
pub use status::{AllocatorStatus, IPAddressCounts, PENDING_MAX, PendingAllocation, PoolStatus};

/// This version's name.
pub const VERSION: &str = "v1alpha2";
