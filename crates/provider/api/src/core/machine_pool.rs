//! `MachinePool`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::machine::{MachineInitialization, MachineSpec};

/// The desired state of a group of machines.
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
    /// The wanted number of machines. Cluster API sets it to one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The template of the machines.
    pub template: MachinePoolTemplate,
    /// The failure domains to place them in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<String>,
    /// The provider IDs of the existing machines, which tie them to their Nodes.
    #[serde(rename = "providerIDList", skip_serializing_if = "Vec::is_empty")]
    pub provider_id_list: Vec<String>,
}

/// The template of the machines of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachinePoolTemplate {
    /// The common part of the machines' specs.
    pub spec: MachineSpec,
}

/// The observed state of a group of machines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachinePoolStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl MachinePool {
    /// The wanted number of machines.
    #[must_use]
    pub fn wanted_replicas(&self) -> usize {
        usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// The name of the Secret with the bootstrap data that all of its machines share, once it is ready.
    #[must_use]
    pub fn data_secret_name(&self) -> Option<&str> {
        self.spec
            .template
            .spec
            .bootstrap
            .as_ref()?
            .data_secret_name
            .as_deref()
    }
}
