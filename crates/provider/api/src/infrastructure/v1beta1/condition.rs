//! Conditions as Cluster API had them before it used those of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as NewCondition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A condition of an object (`api/core/v1beta1/condition_types.go`). All conditions have positive polarity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    /// The severity when the status is `False`, one of [`severity`]; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The reason, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Severities of conditions that are not true.
pub mod severity {
    /// The condition becomes true after some time.
    pub const INFO: &str = "Info";
    /// The condition may become true by itself.
    pub const WARNING: &str = "Warning";
    /// A user has to change something.
    pub const ERROR: &str = "Error";
}

/// The conditions of `v1beta2`. Cluster API from 1.9 on reads these if they exist, and otherwise the old ones
/// (`util/conditions/getter.go`, `UnstructuredGetAll`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct V1Beta2Conditions {
    /// The conditions of the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<NewCondition>,
}
