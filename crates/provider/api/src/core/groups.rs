//! The API groups of Cluster API and of its kubeadm providers.

/// The API group of Cluster API's core.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The API group of the kubeadm control plane provider.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// The API group of the kubeadm bootstrap provider.
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
