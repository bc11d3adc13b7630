//! What clusters and Machines say when they are up.

/// The type of the Cluster's condition that is true when everything of the cluster is up.
pub const AVAILABLE: &str = "Available";
/// The phase of a Machine that is up.
pub const RUNNING: &str = "Running";
