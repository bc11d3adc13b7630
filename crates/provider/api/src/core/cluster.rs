//! `Cluster`.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{
    failure_domain::{self, FailureDomain},
    object_reference::ObjectReference,
};
use crate::{conditions, host_port};

/// The desired state of a cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    namespaced,
    status = "ClusterStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether the cluster and all its objects are paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Networks of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
    /// The endpoint of the API server; from the user, or else from the infrastructure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
    /// The infrastructure cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,
    /// The control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ObjectReference>,
}

/// Networks of a cluster's workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// The address ranges of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// The address ranges of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// The DNS domain of services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_domain: String,
}

/// Address ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkRanges {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cidr_blocks: Vec<String>,
}

/// The endpoint of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    /// A host name or an address; empty when it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// A port; zero when it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub port: i32,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        host_port::write(f, &self.host, self.port)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(port: &i32) -> bool {
    *port == 0
}

/// The observed state of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// In `v1beta1`: whether the infrastructure cluster is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ready: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The numbers of control plane machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ReplicaCounts>,
    /// The numbers of worker machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<ReplicaCounts>,
    /// The failure domains for machines, as the infrastructure reported them.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "failure_domain::list_or_map"
    )]
    pub failure_domains: Vec<FailureDomain>,
    /// Its phase, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// Numbers of machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaCounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Those with the current template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
}

/// The progress of a cluster's first provisioning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Whether the infrastructure cluster is provisioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the first control plane node has come up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

impl Cluster {
    /// Whether the user paused it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// Whether its infrastructure has been provisioned once.
    #[must_use]
    pub fn is_infrastructure_provisioned(&self) -> bool {
        self.initialization()
            .and_then(|known| known.infrastructure_provisioned)
            == Some(true)
            || self
                .status
                .as_ref()
                .and_then(|status| status.infrastructure_ready)
                == Some(true)
    }

    /// Whether its first control plane node has come up.
    #[must_use]
    pub fn is_control_plane_initialized(&self) -> bool {
        let list = self
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        conditions::is_true(list, conditions::types::CONTROL_PLANE_INITIALIZED)
            || self
                .initialization()
                .and_then(|known| known.control_plane_initialized)
                == Some(true)
    }

    fn initialization(&self) -> Option<&ClusterInitialization> {
        self.status.as_ref()?.initialization.as_ref()
    }
}
