//! What a cloud has called deleted, and what still exists.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_model::Market;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A leaked instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "cluster", "since"]))]
pub struct LeakedInstance {
    /// The name of its InMemoryMachine, which is gone or has another instance. Another InMemoryMachine of this name has
    /// another instance, too.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The cluster of the InMemoryMachine. It may be gone.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// Its instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub instance_type: String,
    /// How it is paid for, if it is not OnDemand.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = Market::ALL))]
    pub market: String,
    /// Its zone.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub zone: String,
    /// Its processors.
    #[serde(rename = "vCPUs", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub vcpus: Option<i64>,
    /// Its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[schemars(inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<String>,
    /// When the cloud called it deleted, or made another one in its place.
    pub since: Option<MicroTime>,
    /// The Fault that made it leak.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub fault: String,
    /// The SimulatedCloud of which it is, in the status of a Fault, if that was deleted before it leaked.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub cloud: String,
}

/// A leaked load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["cluster", "since"]))]
pub struct LeakedLoadBalancer {
    /// The cluster that it was for, which is gone. Another cluster of this name has another load balancer.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// The host of its endpoint.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub host: String,
    /// The port of its endpoint, which no other cluster gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// When the cloud called it deleted.
    pub since: Option<MicroTime>,
    /// The Fault that made it leak.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub fault: String,
    /// The SimulatedCloud of which it is, in the status of a Fault, if that was deleted before it leaked.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub cloud: String,
}
