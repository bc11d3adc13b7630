//! `Machine`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{machine_address::MachineAddress, object_reference::ObjectReference};

/// The desired state of a machine.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A machine, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineSpec {
    /// Its Cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Its bootstrap data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// Its infrastructure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
    /// The Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The provider ID, which ties it to its Node.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The failure domain to place it in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_domain: String,
}

/// The bootstrap data of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Bootstrap {
    /// The object of the bootstrap provider that creates the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ObjectReference>,
    /// The Secret with the data. Machines of a pool have an empty name; the field is absent while the data is not
    /// ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// The observed state of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// The failure domain that it was placed in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure_domain: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// The progress of a machine's first provisioning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineInitialization {
    /// Whether the infrastructure machine is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the bootstrap data exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_data_secret_created: Option<bool>,
}

/// The Node of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl Machine {
    /// The name of the Secret with the bootstrap data, once it is ready.
    #[must_use]
    pub fn data_secret_name(&self) -> Option<&str> {
        self.spec.bootstrap.as_ref()?.data_secret_name.as_deref()
    }
}
