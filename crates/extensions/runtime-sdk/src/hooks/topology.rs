//! The topology hooks (Cluster API, `topologymutation_types.go`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hook::{HookMeta, hook};
pub use super::patch::PatchType;
use crate::{
    request, response,
    wire::{Bytes, Object},
};

const TAGS: &[&str] = &["Topology Mutation Hook"];

hook! {
    /// Called each time a cluster's topology is computed, to change its templates.
    GeneratePatches: GeneratePatchesRequest => GeneratePatchesResponse,
    HookMeta::new("Called to change the templates of a cluster's topology")
        .description(
            "Called each time the topology of a Cluster is computed, with every template of its ClusterClass and the \
             variables that apply to each.\n\nThe response has a patch for each template that is to be changed.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`GeneratePatches`].
    pub struct GeneratePatchesRequest {
        /// The variables that apply to all templates.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
        /// The templates.
        pub items: Vec<GeneratePatchesRequestItem>,
    }
}

/// A template that may be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratePatchesRequestItem {
    /// Identifies the template in the response. It is different in each request.
    pub uid: String,
    /// The object that the template is for.
    pub holder_reference: HolderReference,
    /// The template.
    pub object: Object,
    /// The variables that apply to this template only. They override those that apply to all templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
}

response! {
    /// The response of [`GeneratePatches`].
    pub struct GeneratePatchesResponse: plain {
        /// The patches, applied in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub items: Vec<GeneratePatchesResponseItem>,
    }
}

/// A patch of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratePatchesResponseItem {
    /// The `uid` of the template in the request.
    pub uid: String,
    /// The type of patch.
    pub patch_type: PatchType,
    /// The patch. A JSON Patch that changes nothing is `[]`. Cluster API refuses a patch without bytes.
    pub patch: Bytes,
}

impl Default for GeneratePatchesResponseItem {
    fn default() -> Self {
        Self {
            uid: String::new(),
            patch_type: PatchType::Other(String::new()),
            patch: Bytes::default(),
        }
    }
}

hook! {
    /// Called each time a cluster's topology was computed, to validate it.
    ValidateTopology: ValidateTopologyRequest => ValidateTopologyResponse,
    HookMeta::new("Called to validate the computed topology of a cluster")
        .description(
            "Called each time the topology of a Cluster was computed and all patches were applied, with the templates \
             that came of it.\n\nA failure keeps the topology from being applied.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`ValidateTopology`].
    pub struct ValidateTopologyRequest {
        /// The variables that apply to all templates.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
        /// The templates.
        pub items: Vec<ValidateTopologyRequestItem>,
    }
}

/// A template after all patches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ValidateTopologyRequestItem {
    /// The object that the template is for.
    pub holder_reference: HolderReference,
    /// The template.
    pub object: Object,
    /// The variables that apply to this template only. They override those that apply to all templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
}

response! {
    /// The response of [`ValidateTopology`].
    pub struct ValidateTopologyResponse: plain {}
}

/// A variable with its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub value: Value,
}

/// The object that a template is for, and the field that refers to the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HolderReference {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path of the field that refers to the template, such as `spec.infrastructureRef`.
    pub field_path: String,
}

hook! {
    /// Called when a `ClusterClass` is reconciled, to learn the variables of its patches.
    DiscoverVariables: DiscoverVariablesRequest => DiscoverVariablesResponse,
    HookMeta::new("Called to learn the variables of patches")
        .description(
            "Called when a ClusterClass is reconciled.\n\nThe response defines every variable of the patch.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`DiscoverVariables`].
    pub struct DiscoverVariablesRequest {}
}

response! {
    /// The response of [`DiscoverVariables`].
    pub struct DiscoverVariablesResponse: plain {
        /// The variables.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<ClusterClassVariable>,
    }
}

/// The definition of a variable (Cluster API, `ClusterClassVariable`), as in v1beta2. With
/// [`metadata`](Self::metadata) it is also that of v1beta1, which Cluster API used here until 1.12.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterClassVariable {
    /// Its name.
    pub name: String,
    /// Whether the variable needs a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Labels and annotations, as v1beta2 still accepts them.
    #[serde(rename = "deprecatedV1Beta1Metadata", skip_serializing_if = "Option::is_none")]
    pub deprecated_v1beta1_metadata: Option<ClusterClassVariableMetadata>,
    /// Labels and annotations of v1beta1. Cluster API ignores this field in v1beta2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClusterClassVariableMetadata>,
    /// The schema of its values.
    pub schema: VariableSchema,
}

/// Labels and annotations of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterClassVariableMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The schema of a variable's values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VariableSchema {
    /// The schema, in the subset of `OpenAPI` v3 that custom resource definitions use.
    #[serde(rename = "openAPIV3Schema")]
    pub open_api_v3_schema: Object,
}
