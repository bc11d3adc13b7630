//! `MachineDeployment`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machines::{MachineTemplate, ReplicaStatus};

/// The desired state of a group of worker machines.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineDeployment",
    namespaced,
    status = "ReplicaStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A group of worker machines that are alike, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MachineDeploymentSpec {
    pub(crate) cluster_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    pub(crate) selector: LabelSelector,
    pub(crate) template: MachineTemplate,
    /// How Machines are replaced.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) rollout: Value,
}
