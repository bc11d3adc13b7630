//! `InMemoryMachinePoolTemplate`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::InMemoryMachinePoolSpec;
use crate::infrastructure::v1beta2::{InMemoryMachinePoolTemplateStatus, TemplateMetadata};

/// The template of machine pools of a ClusterClass.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "InMemoryMachinePoolTemplate",
    namespaced,
    status = "InMemoryMachinePoolTemplateStatus",
    category = "cluster-api",
    storage = false,
    derive = "Default",
    derive = "PartialEq",
    doc = "A template of the InMemoryMachinePools of a ClusterClass.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryMachinePoolTemplateSpec {
    /// The template.
    pub template: InMemoryMachinePoolTemplateResource,
}

/// Metadata and spec of the InMemoryMachinePools to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryMachinePoolTemplateResource {
    /// Their labels and annotations.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// Their spec.
    pub spec: InMemoryMachinePoolSpec,
}
