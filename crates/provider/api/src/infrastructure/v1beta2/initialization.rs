//! The progress of the first provisioning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What Cluster API watches to learn that the first provisioning is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// True once the simulated infrastructure is provisioned; it never becomes false again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}
