//! What the provider reads of Cluster API's kinds.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The name of the cluster on its Machines.
pub(crate) const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(group = "cluster.x-k8s.io", version = "v1beta2", kind = "Cluster", namespaced)]
#[kube(status = "ClusterStatus", schema = "disabled")]
pub struct ClusterSpec {}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ClusterStatus {
    #[serde(default)]
    pub initialization: Initialization,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    #[serde(default)]
    pub control_plane_initialized: bool,
}

#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(group = "cluster.x-k8s.io", version = "v1beta2", kind = "Machine", namespaced)]
#[kube(status = "MachineStatus", schema = "disabled")]
pub struct MachineSpec {}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct MachineStatus {
    #[serde(default)]
    pub addresses: Vec<Address>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Address {
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}
