//! `InMemoryMachinePool`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition};
use kube::CustomResource;
use nephele_model::Market;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    initialization::Initialization,
    machine::{Behaviour, InMemoryMachineSpec},
    machine_template::NodeInfo,
    network::MachineNetwork,
};
use crate::schema;

/// The desired state of a simulated group of machines. The MachinePool sets how many there are.
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
        description = "Number of machines"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Paused')].status",
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

/// The template of the machines of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolMachine {
    /// The size of a machine, by the name of an instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub instance_type: String,
    /// How a machine is paid for: OnDemand, which is the default, or Spot, which is cheaper. A Fault can let the cloud take
    /// machines of the market Spot back.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = Market::ALL))]
    pub market: String,
    /// The name of the image that the machine boots from. Optional.
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
        let PoolMachine {
            instance_type,
            market,
            image,
            network,
            behaviour,
        } = machine;
        Self {
            instance_type,
            market,
            image,
            network,
            behaviour,
            ..Self::default()
        }
    }
}

/// The observed state of a simulated group of machines.
///
/// There is no `failureReason` and no `failureMessage` on purpose: Cluster API 1.11 to 1.14 panics when a pool has one
/// of them (`core/reconcilers/machinepool/machinepool_controller_phases.go`, `reconcileExternal`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachinePoolStatus {
    /// True once all wanted machines were up for the first time; it never becomes false again. The same as
    /// initialization.provisioned, which replaces it in Cluster API's contract, but which Cluster API's controller does
    /// not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
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
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl InMemoryMachinePool {
    /// Whether the first provisioning is done.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        self.status.as_ref().and_then(|status| status.ready) == Some(true)
    }
}
