//! `MachinePool`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{MachineInitialization, MachineSpec};

/// What a group of machines shall be.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachinePool",
    namespaced,
    status = "MachinePoolStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A group of machines that are alike, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub struct MachinePoolSpec {
    /// Its Cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// How many machines there shall be. Cluster API writes one where a user writes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What the machines are.
    pub template: MachinePoolTemplate,
    /// Where they shall be placed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<String>,
    /// What ties those that are there to their Nodes.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    pub provider_id_list: Vec<String>,
}

/// What the machines of a group are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachinePoolTemplate {
    /// What each is, but for what is its own.
    pub spec: MachineSpec,
}

/// What a group of machines is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachinePoolStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    /// How many machines there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Where it is in its life, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl MachinePool {
    /// How many machines there shall be.
    #[must_use]
    pub fn wanted_replicas(&self) -> usize {
        usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// The name of the Secret with the bootstrap data that all of its machines share, once it is ready.
    #[must_use]
    pub fn data_secret_name(&self) -> Option<&str> {
        self.spec.template.spec.bootstrap.as_ref()?.data_secret_name.as_deref()
    }
}
