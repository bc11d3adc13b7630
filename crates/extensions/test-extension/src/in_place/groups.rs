//! The groups of the objects of a machine.

/// The group of KubeadmConfigs.
pub(super) const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
/// The group of InMemoryMachines.
pub(super) const INFRASTRUCTURE_GROUP: &str = nephele_api::infrastructure::GROUP;
