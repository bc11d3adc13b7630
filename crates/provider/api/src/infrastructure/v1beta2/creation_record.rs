//! The origin of clusters and instances ([`super::instance`] says why it is in the spec). After a restart and after a
//! move, the provider restores clusters and instances from it: with the same addresses, and with Nodes and certificates
//! of the same dates.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{kubeadm::Kubeadm, update::Software};
use crate::{core::machine_address::MachineAddress, schema};

/// How a cluster was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "self.cluster != oldSelf.cluster || self.created == oldSelf.created",
        "spec.origin is set once for each cluster",
    ),
]))]
pub struct ClusterCreationRecord {
    /// The name of the InMemoryCluster. A record that was copied from another one does not count.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// When it was created for the first time, in this or an earlier management cluster.
    #[schemars(schema_with = "schema::instant")]
    pub created: Time,
}

/// How an instance was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreationRecord {
    /// When it began to boot.
    #[schemars(schema_with = "schema::instant")]
    pub start_time: MicroTime,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::machine_addresses")]
    pub addresses: Vec<MachineAddress>,
    /// The parts of the cluster's pod networks that its Node has.
    #[serde(default, rename = "podCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pod_cidrs")]
    pub pod_cidrs: Vec<String>,
    /// The failure domain that it was placed in; absent for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
    /// The region of the failure domain; absent when it follows from the failure domain's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub region: String,
    /// The name of its cloud, whose quotas it counts for; absent when an earlier release wrote the origin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub cloud: String,
    /// Its hardware, even if its cloud has changed since; absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<MachineHardware>,
    /// The software that it runs. An update in place changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// What its kubeadm configuration said; absent if there was none, or in a form that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeadm: Option<Kubeadm>,
    /// The key for its random durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "drawKey")]
    pub seed_key: Option<SeedKey>,
    /// Since when each part has been up, by the name of the part in spec.behaviour.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::reached")]
    pub reached: BTreeMap<String, MicroTime>,
}

/// The hardware of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineHardware {
    /// Processor architecture.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub architecture: String,
    /// Operating system.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub operating_system: String,
    /// Quantities by resource name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::capacity")]
    pub capacity: BTreeMap<String, String>,
}

/// The key for the random durations of a machine. The names of machines are random, so they cannot be the key: with
/// this key, the same seed gives the machines of a set the same durations in every run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SeedKey {
    /// The set of machines: the control plane, a MachineDeployment or a MachinePool.
    #[schemars(length(min = 1, max = 512))]
    #[serde(rename = "set")]
    pub owner_set: String,
    /// The number of the machine in the set.
    #[schemars(range(min = 0))]
    pub ordinal: i64,
}

impl CreationRecord {
    /// The origin of an instance of which only the start time is known.
    #[must_use]
    pub fn begun(start_time: MicroTime) -> Self {
        Self {
            start_time,
            addresses: Vec::new(),
            pod_cidrs: Vec::new(),
            failure_domain: String::new(),
            region: String::new(),
            cloud: String::new(),
            hardware: None,
            software: None,
            kubeadm: None,
            seed_key: None,
            reached: BTreeMap::new(),
        }
    }
}
