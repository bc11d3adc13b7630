//! `MachineSet`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::machines::{MachineTemplate, ReplicaStatus};

/// The desired state of the machines with one template.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineSet",
    namespaced,
    status = "ReplicaStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The machines of a MachineDeployment with one template, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MachineSetSpec {
    pub(crate) cluster_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    pub(crate) selector: LabelSelector,
    pub(crate) template: MachineTemplate,
}
