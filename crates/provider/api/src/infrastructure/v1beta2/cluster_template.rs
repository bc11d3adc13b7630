//! `InMemoryClusterTemplate`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{cluster::InMemoryClusterSpec, template_metadata::TemplateMetadata};

/// The template of clusters of a ClusterClass.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryClusterTemplate",
    namespaced,
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "A template of the InMemoryCluster of each cluster of a ClusterClass.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryClusterTemplateSpec {
    /// The template.
    pub template: InMemoryClusterTemplateResource,
}

/// Metadata and spec of the InMemoryClusters to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryClusterTemplateResource {
    /// Their labels and annotations.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_empty")]
    pub metadata: TemplateMetadata,
    /// Their spec.
    pub spec: InMemoryClusterSpec,
}
