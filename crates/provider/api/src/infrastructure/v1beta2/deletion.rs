//! Deletions of simulated instances.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The deletion of an instance that takes time, or that something else waits for. Its duration counts from here, also after
/// a restart and in another management cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// When it began.
    #[schemars(schema_with = "schema::instant")]
    pub time: MicroTime,
    /// When the instance was gone; absent while it exists. It is recorded only if the object outlives the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ended: Option<MicroTime>,
}
