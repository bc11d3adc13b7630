//! `InMemoryCluster`.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, V1Beta2Conditions};
use crate::{
    infrastructure::v1beta2::{
        CloudReference, ClusterNetwork, ClusterNetworkStatus, LoadBalancerStatus,
        creation_record::ClusterCreationRecord,
    },
    schema,
};

/// The desired state of a simulated cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "InMemoryCluster",
    namespaced,
    status = "InMemoryClusterStatus",
    category = "cluster-api",
    storage = false,
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
        json_path = ".status.ready",
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
        json_path = ".status.v1beta2.conditions[?(@.type=='Paused')].status",
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
    schema::rule(
        "!has(oldSelf.controlPlaneEndpoint) || has(self.controlPlaneEndpoint) || \
         (oldSelf.controlPlaneEndpoint.host == '' && oldSelf.controlPlaneEndpoint.port == 0)",
        "spec.controlPlaneEndpoint is immutable once set",
    ),
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
    /// The failure domains of the simulated cluster, by name; by default the zones of its cloud.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::wanted_failure_domains_by_name")]
    pub failure_domains: BTreeMap<String, FailureDomain>,
    /// How the cluster was created. Set by the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<ClusterCreationRecord>,
}

/// Where an API server is reached. Both fields are always written: an empty host and the port 0 stand for what is not
/// known yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["host", "port"]))]
pub struct ControlPlaneEndpoint {
    /// A host name or an IP address; empty for the provider's choice.
    #[schemars(length(max = 512))]
    #[schemars(extend("x-kubernetes-validations" = [
        schema::rule(
            "oldSelf == '' || self == oldSelf",
            "spec.controlPlaneEndpoint.host is immutable once set",
        ),
    ]))]
    pub host: String,
    /// A TCP port; 0 for the provider's choice.
    #[schemars(range(min = 0, max = 65535))]
    #[schemars(extend("x-kubernetes-validations" = [
        schema::rule(
            "oldSelf == 0 || self == oldSelf",
            "spec.controlPlaneEndpoint.port is immutable once set",
        ),
    ]))]
    pub port: i32,
}

/// A part of the simulated world that fails independently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureDomain {
    /// Whether control plane machines may be placed there; Cluster API takes absence for no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// The observed state of a simulated cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryClusterStatus {
    /// True once the simulated infrastructure is provisioned; it never becomes false again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The status of its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ClusterNetworkStatus>,
    /// What the cloud says about its load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
    /// The failure domains that machines can be placed in, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::reported_failure_domains_by_name")]
    pub failure_domains: BTreeMap<String, FailureDomain>,
    /// Why the cluster must be replaced, as one word. This provider never sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_reason: Option<String>,
    /// The same as a message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10240))]
    pub failure_message: Option<String>,
    /// Its conditions, in Cluster API's old form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::old_conditions")]
    pub conditions: Vec<Condition>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<V1Beta2Conditions>,
}
