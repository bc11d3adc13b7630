//! What the kinds that own Machines have in common.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::core::MachineSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The template of the Machines of a MachineDeployment or MachineSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MachineTemplate {
    pub(crate) metadata: TemplateMetadata,
    pub(crate) spec: MachineSpec,
}

/// The field `rollout`: what the stand-in does, which is what Cluster API does by default.
pub(crate) fn rollout(rolling_update: &Value) -> Value {
    json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling_update } })
}

/// The labels and annotations of the Machines of a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TemplateMetadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The observed state of a MachineDeployment or MachineSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplicaStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// The selector of its Machines, as text for the subresource `scale`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) selector: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    /// Its phase, as one word; only a MachineDeployment has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) phase: String,
}

/// Numbers of Machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Counts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) up_to_date_replicas: Option<i32>,
}
