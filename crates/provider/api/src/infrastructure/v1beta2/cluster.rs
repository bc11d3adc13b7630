//! `InMemoryCluster`.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    creation_record::ClusterCreationRecord,
    initialization::Initialization,
    load_balancer::LoadBalancerStatus,
    network::{ClusterNetwork, ClusterNetworkStatus, PoolReference},
};
use crate::{core::failure_domain::FailureDomain, host_port, schema};

/// The desired state of a simulated cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryCluster",
    namespaced,
    status = "InMemoryClusterStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "The infrastructure of a simulated cluster: its load balancer and its failure domains.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster that this belongs to"
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        description = "Whether the first provisioning is done"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host",
        description = "Host of the API server"
    ),
    printcolumn(
        name = "Port",
        type_ = "integer",
        json_path = ".spec.controlPlaneEndpoint.port",
        description = "Port of the API server"
    ),
    printcolumn(
        name = "Load balancer",
        type_ = "string",
        json_path = ".status.network.controlPlaneAddress.address",
        description = "Address of the load balancer, from a pool",
        priority = 10
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Paused')].status",
        description = "Whether it is paused",
        priority = 10
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("!has(oldSelf.controlPlaneEndpoint) || has(self.controlPlaneEndpoint)", "spec.controlPlaneEndpoint is immutable once set"),
    schema::rule("!has(oldSelf.origin) || has(self.origin)", "spec.origin is set once and stays"),
]))]
pub struct InMemoryClusterSpec {
    /// The endpoint of the API server. The provider sets what is left out; once set, it cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ClusterNetwork>,
    /// The cloud of the cluster; by default the one named default, if the namespace has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_ref: Option<CloudReference>,
    /// The failure domains of the simulated cluster; by default the zones of its cloud.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::wanted_failure_domains")]
    pub failure_domains: Vec<FailureDomain>,
    /// How the cluster was created. Set by the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<ClusterCreationRecord>,
}

/// A SimulatedCloud of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct CloudReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where an API server is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("!has(oldSelf.host) || has(self.host)", "spec.controlPlaneEndpoint.host is immutable once set"),
    schema::rule("!has(oldSelf.port) || has(self.port)", "spec.controlPlaneEndpoint.port is immutable once set"),
]))]
pub struct ControlPlaneEndpoint {
    /// A host name or an IP address.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    #[schemars(extend("x-kubernetes-validations" = [
        schema::rule("self == oldSelf", "spec.controlPlaneEndpoint.host is immutable once set"),
    ]))]
    pub host: String,
    /// A TCP port.
    #[serde(skip_serializing_if = "schema::is_default")]
    #[schemars(range(min = 1, max = 65535))]
    #[schemars(extend("x-kubernetes-validations" = [
        schema::rule("self == oldSelf", "spec.controlPlaneEndpoint.port is immutable once set"),
    ]))]
    pub port: i32,
}

impl fmt::Display for ControlPlaneEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        host_port::write(f, &self.host, self.port)
    }
}

/// The observed state of a simulated cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryClusterStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The status of its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ClusterNetworkStatus>,
    /// What the cloud says about its load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// The failure domains that machines can be placed in, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::reported_failure_domains")]
    pub failure_domains: Vec<FailureDomain>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl InMemoryCluster {
    /// Whether the first provisioning is done.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        let initialization = self
            .status
            .as_ref()
            .and_then(|status| status.initialization.as_ref());
        initialization.and_then(|initialization| initialization.provisioned) == Some(true)
    }

    /// The pool for the address of its load balancer.
    #[must_use]
    pub fn control_plane_address_pool(&self) -> Option<&PoolReference> {
        self.spec
            .network
            .as_ref()?
            .control_plane_address_from_pool
            .as_ref()
    }

    /// When the cluster was created for the first time, if the object records it.
    #[must_use]
    pub fn first_created(&self) -> Option<jiff::Timestamp> {
        let origin = self
            .spec
            .origin
            .as_ref()
            .filter(|origin| Some(&origin.cluster) == self.metadata.name.as_ref());
        origin.map(|origin| origin.created.0)
    }

    /// Records when the cluster was created for the first time.
    pub fn set_first_created(&mut self, at: jiff::Timestamp) {
        let cluster = self.metadata.name.clone().unwrap_or_default();
        self.spec.origin = Some(ClusterCreationRecord {
            cluster,
            created: Time(at),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_remembers_when_it_was_created_first_and_a_copy_does_not() {
        let mut cluster = InMemoryCluster::default();
        cluster.metadata.name = Some("c".into());
        assert_eq!(cluster.first_created(), None);
        let created = "2026-01-02T03:04:05Z".parse().expect("a time");
        cluster.set_first_created(created);
        assert_eq!(cluster.first_created(), Some(created));
        assert_eq!(
            cluster.spec.origin,
            Some(ClusterCreationRecord {
                cluster: "c".into(),
                created: Time(created)
            })
        );
        cluster.metadata.name = Some("copy".into());
        assert_eq!(cluster.first_created(), None);
    }
}
