//! `InMemoryMachinePool`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Behaviour, InMemoryMachineSpec, Initialization, MachineNetwork, NodeInfo};
use crate::schema;

/// What a simulated group of machines shall be. How many of them there are says the MachinePool.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryMachinePool",
    namespaced,
    status = "InMemoryMachinePoolStatus",
    category = "cluster-api",
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
        description = "Machines that are there"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Paused')].status",
        description = "Whether nothing is done for it",
        priority = 10
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.ready",
        description = "Whether the first provisioning is through"
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
    /// What ties the machines to their Nodes, one for each that is there. Set by the provider.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::provider_ids")]
    pub provider_id_list: Vec<String>,
    /// What the machines are made from. A change replaces them, one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PoolMachine>,
}

/// What the machines of a pool are made from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolMachine {
    /// How large a machine is, by the name of an instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub instance_type: String,
    /// What the machine boots from, by the name of an image. It need not be said.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub image: String,
    /// Its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetwork>,
    /// How the machine behaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
}

impl From<PoolMachine> for InMemoryMachineSpec {
    fn from(machine: PoolMachine) -> Self {
        let PoolMachine { instance_type, image, network, behaviour } = machine;
        Self { instance_type, image, network, behaviour, ..Self::default() }
    }
}

/// What a simulated group of machines is.
///
/// There is no `failureReason` and no `failureMessage` on purpose: Cluster API 1.11 to 1.14 panics over a pool that has
/// one (`core/reconcilers/machinepool/machinepool_controller_phases.go`, `reconcileExternal`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachinePoolStatus {
    /// True once as many machines as wanted were up for the first time; it never becomes false again. The same as
    /// initialization.provisioned, which Cluster API's contract has in its place and its controller does not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// How far the first provisioning is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// How many machines there are, as many as spec.providerIDList has.
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
    /// What a machine of this pool offers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What such a machine's Node reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// What is known of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl InMemoryMachinePool {
    /// Whether the first provisioning is through.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        self.status.as_ref().and_then(|status| status.ready) == Some(true)
    }
}
