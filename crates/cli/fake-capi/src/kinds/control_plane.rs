//! `KubeadmControlPlane`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machines::{Counts, TemplateMetadata};

/// The desired state of a control plane.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "KubeadmControlPlane",
    namespaced,
    status = "KubeadmControlPlaneStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The control plane of a cluster, as the kubeadm control plane provider has it."
)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct KubeadmControlPlaneSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    pub(crate) version: String,
    pub(crate) machine_template: ControlPlaneTemplate,
    /// The configuration of kubeadm; of it, the stand-in only sets the algorithm of keys.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) kubeadm_config_spec: Value,
    /// How Machines are replaced.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) rollout: Value,
}

/// The template of the Machines of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ControlPlaneTemplate {
    pub(crate) metadata: TemplateMetadata,
}

/// The observed state of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct KubeadmControlPlaneStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    pub(crate) initialization: ControlPlaneInitialization,
    /// The selector of its Machines, as text for the subresource `scale`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) selector: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// The lowest version of its Machines.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

/// The progress of a control plane's first provisioning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ControlPlaneInitialization {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) control_plane_initialized: Option<bool>,
}
