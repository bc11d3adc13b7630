//! Labels of Cluster API (`api/core/v1beta2/common_types.go`) and of clusterctl.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The Cluster that an object belongs to.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Marks control plane machines, with any value.
pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// On a control plane machine: its control plane.
pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
/// On objects that a topology makes, with any value.
pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
/// On a Machine: its MachineDeployment.
pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// On a Machine: its MachineSet.
pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
/// On a Machine of a topology: the name of its MachineDeployment in the topology, without a random part.
pub const TOPOLOGY_DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
/// On a Machine of a topology: the name of its MachinePool in the topology, without a random part.
pub const TOPOLOGY_POOL_NAME: &str = "topology.cluster.x-k8s.io/pool-name";
/// The provider that a CRD or component belongs to.
pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
/// This provider, as clusterctl writes it.
pub const PROVIDER_VALUE: &str = "infrastructure-in-memory";
/// Marks everything that clusterctl installs.
pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
/// On a CRD: the API versions that follow the contract v1beta1.
pub const CONTRACT_V1BETA1: &str = "cluster.x-k8s.io/v1beta1";
/// On a CRD: the API versions that follow the contract v1beta2.
pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";

/// The value of a label.
#[must_use]
pub fn value<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(name).map(String::as_str)
}

/// Whether the object belongs to the control plane.
#[must_use]
pub fn is_control_plane(meta: &ObjectMeta) -> bool {
    value(meta, CONTROL_PLANE).is_some()
}
