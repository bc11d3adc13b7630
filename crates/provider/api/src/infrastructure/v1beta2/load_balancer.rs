//! What the cloud says about the load balancer of a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The most backends in a status. Each takes at most 253 + 256 + 32 + 512 bytes and the names of its fields: 71 KiB for all.
pub const BACKENDS_MAX: usize = 64;
/// Why a backend gets no connections.
pub const BACKEND_REASONS: [&str; 5] = ["Deleting", "Starting", "HealthCheckFailed", "Drained", "Diverted"];

/// What the cloud says about the load balancer of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// The machines that are registered with it, by name; the first 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = BACKENDS_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub backends: Vec<Backend>,
    /// How many more machines are registered with it.
    #[serde(skip_serializing_if = "schema::is_default")]
    #[schemars(range(min = 0))]
    pub other_backends: i64,
}

/// A machine that is registered with a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "inService"]))]
pub struct Backend {
    /// The name of the InMemoryMachine.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The address at which the load balancer reaches it.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
    /// Whether it gets connections.
    pub in_service: bool,
    /// Why it gets none. Starting until its API server is up. Deleting while it is being deleted. HealthCheckFailed when
    /// nothing answers on it, or no API server of the cluster does. Drained when the load balancer has lost its
    /// backends. Diverted when it leads to machines of another cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = BACKEND_REASONS))]
    pub reason: String,
    /// More words, with the name of the Fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub message: String,
}
