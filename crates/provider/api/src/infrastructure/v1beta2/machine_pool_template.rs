//! `InMemoryMachinePoolTemplate`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    machine_pool::InMemoryMachinePoolSpec, machine_template::NodeInfo, template_metadata::TemplateMetadata,
};
use crate::schema;

/// The template of machine pools of a ClusterClass.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryMachinePoolTemplate",
    namespaced,
    status = "InMemoryMachinePoolTemplateStatus",
    category = "cluster-api",
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

/// What is known of machines of such a pool before the first one exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachinePoolTemplateStatus {
    /// The capacity of such a machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What the Node of such a machine reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}
