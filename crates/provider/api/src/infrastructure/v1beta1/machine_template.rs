//! `InMemoryMachineTemplate`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::InMemoryMachineSpec;
use crate::infrastructure::v1beta2::{InMemoryMachineTemplateStatus, TemplateMetadata};

/// The template of machines.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "InMemoryMachineTemplate",
    namespaced,
    status = "InMemoryMachineTemplateStatus",
    category = "cluster-api",
    storage = false,
    derive = "Default",
    derive = "PartialEq",
    doc = "A template of InMemoryMachines.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryMachineTemplateSpec {
    /// The template.
    pub template: InMemoryMachineTemplateResource,
}

/// Metadata and spec of the InMemoryMachines to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryMachineTemplateResource {
    /// Their labels and annotations.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// Their spec.
    pub spec: InMemoryMachineSpec,
}
