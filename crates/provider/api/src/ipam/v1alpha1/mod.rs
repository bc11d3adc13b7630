//! Version `v1alpha1` of the IP pools: deprecated, served, never stored.

mod ip_pool;

pub use ip_pool::{GlobalInClusterIPPool, InClusterIPPool, InClusterIPPoolSpec};

/// This version's name.
pub const VERSION: &str = "v1alpha1";
