//! `InMemoryMachineTemplate`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{machine::InMemoryMachineSpec, template_metadata::TemplateMetadata};
use crate::schema;

/// The template of machines.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryMachineTemplate",
    namespaced,
    status = "InMemoryMachineTemplateStatus",
    category = "cluster-api",
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

/// What is known of machines of a template before the first one exists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachineTemplateStatus {
    /// The capacity of such a machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What the Node of such a machine reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// What a Node reports of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct NodeInfo {
    /// Processor architecture.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["amd64", "arm64", "s390x", "ppc64le"]))]
    pub architecture: String,
    /// Operating system.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub operating_system: String,
}
