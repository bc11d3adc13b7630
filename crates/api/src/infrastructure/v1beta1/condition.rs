//! Conditions as Cluster API had them before it took over those of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as NewCondition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is known of a side of an object (`api/core/v1beta1/condition_types.go`). All of them are good when they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// How bad it is when it does not hold, one of [`severity`]; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The reason, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How bad it is when a condition does not hold.
pub mod severity {
    /// It takes its time.
    pub const INFO: &str = "Info";
    /// It may get better by itself.
    pub const WARNING: &str = "Warning";
    /// Somebody has to change something.
    pub const ERROR: &str = "Error";
}

/// The conditions of `v1beta2`. Cluster API from 1.9 on reads these where they are there, and the old ones where they are
/// not (`util/conditions/getter.go`, `UnstructuredGetAll`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct V1Beta2Conditions {
    /// The conditions of the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<NewCondition>,
}
