//! `InMemoryMachinePool`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, V1Beta2Conditions};
use crate::{
    infrastructure::v1beta2::{NodeInfo, PoolMachine},
    schema,
};

/// The desired state of a simulated group of machines. The MachinePool sets how many there are.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "InMemoryMachinePool",
    namespaced,
    status = "InMemoryMachinePoolStatus",
    category = "cluster-api",
    storage = false,
    derive = "Default",
    derive = "PartialEq",
    doc = "A simulated group of machines that are alike.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster that this belongs to"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Number of machines"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.v1beta2.conditions[?(@.type=='Paused')].status",
        description = "Whether it is paused",
        priority = 10
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.ready",
        description = "Whether the first provisioning is done"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether all of its machines are up"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachinePoolSpec {
    /// The provider IDs of the machines that exist. Set by the provider.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provider_ids")]
    pub provider_id_list: Vec<String>,
    /// The template of the machines. A change replaces them, one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PoolMachine>,
}

/// The observed state of a simulated group of machines. No `failureReason`, no `failureMessage`, as in `v1beta2`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachinePoolStatus {
    /// True once all wanted machines were up for the first time; it never becomes false again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The number of machines, the same as in spec.providerIDList.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// The kind of the machines: Cluster API makes a Machine for each.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub infrastructure_machine_kind: String,
    /// The number that the next machine gets in its name. No number is used twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub next_ordinal: Option<i64>,
    /// The capacity of a machine of this pool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What the Node of such a machine reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// Its conditions, in Cluster API's old form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::old_conditions")]
    pub conditions: Vec<Condition>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<V1Beta2Conditions>,
}
