//! `ClusterFault`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use nephele_model::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{FaultSpec, PHASES};
use crate::schema;

/// The longest list of refused namespaces in a status.
pub const REFUSED_MAX: usize = 100;
/// The longest message about a refused namespace.
pub const REFUSAL_MESSAGE_MAX: usize = 256;

/// What goes wrong in the clouds of many namespaces: which namespaces, and the fields of the Fault that each of them gets.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloud.nephele.dev",
    version = "v1alpha1",
    kind = "ClusterFault",
    status = "ClusterFaultStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes the same Fault in each namespace that it selects; for operators. Each of these Faults has a budget of its own. When the ClusterFault is deleted, so are its Faults.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether one of its Faults can still hit"
    ),
    printcolumn(
        name = "Namespaces",
        type_ = "integer",
        json_path = ".status.namespaces",
        description = "How many namespaces have its Fault"
    ),
    printcolumn(
        name = "Hits",
        type_ = "integer",
        json_path = ".status.hits",
        description = "How many operations, machines or claims its Faults have hit"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterFaultSpec {
    /// Selects the namespaces that get the Fault; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::faulty_namespaces")]
    pub namespace_selector: Option<LabelSelector>,
    /// The spec of the Faults. Its fields, and its rules, are those of the ClusterFault's spec, too.
    #[serde(flatten)]
    pub fault: FaultSpec,
}

/// The status of a cluster fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterFaultStatus {
    /// The generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Active while one of its Faults can hit. Waiting while none can, and one will, or a namespace may still be selected.
    /// Exhausted or Expired when no Fault hits any more. Invalid when the manager cannot use the spec.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = PHASES))]
    pub phase: String,
    /// How many namespaces have its Fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub namespaces: Option<i64>,
    /// How many operations or machines its Faults have matched while they were active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub matched: Option<i64>,
    /// How many of them its Faults have hit. Faults that are gone do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub hits: Option<i64>,
    /// Selected namespaces that cannot have the Fault; the first hundred by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = REFUSED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"]))]
    pub refused: Vec<RefusedNamespace>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A namespace that cannot have the Fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["namespace", "message"]))]
pub struct RefusedNamespace {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Why it cannot.
    #[schemars(length(max = REFUSAL_MESSAGE_MAX))]
    pub message: String,
}
