//! The status of pools, the same for all kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How many entries [`PoolStatus::pending`] has at most: eight batches of 64, of about 200 bytes each.
pub const PENDING_MAX: usize = 512;

/// The observed state of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolStatus {
    /// The number of addresses of the pool, or of prefixes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<IPAddressCounts>,
    /// The conditions of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The metadata.generation that the rest was last computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// The manager that hands out the addresses of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorStatus>,
    /// Allocations whose IPAddress may not exist yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PENDING_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub pending: Vec<PendingAllocation>,
}

/// How many addresses or prefixes a pool has. Higher counts are shown as 9223372036854775807.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["free", "outOfRange", "total", "used"]))]
pub struct IPAddressCounts {
    /// How many can be handed out.
    pub total: i64,
    /// How many of them are free.
    pub free: i64,
    /// How many are in use.
    pub used: i64,
    /// How many are in use although the pool no longer has them.
    pub out_of_range: i64,
}

/// The manager that hands out the addresses of a pool. It distinguishes two writers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["holder", "revision"]))]
pub struct AllocatorStatus {
    /// The process that wrote this status.
    #[schemars(length(max = 253))]
    pub holder: String,
    /// How often it was written.
    pub revision: i64,
}

/// An address that was chosen for a claim, and whose IPAddress may not exist yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["address", "name", "uid"]))]
pub struct PendingAllocation {
    /// The namespace of the claim; by default that of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The name of the claim, and of its IPAddress.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The uid of the claim.
    #[schemars(length(min = 1, max = 128))]
    pub uid: String,
    /// The address, or the first one of the prefix.
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// The length of the prefix, where the pool hands out prefixes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i32>,
}
