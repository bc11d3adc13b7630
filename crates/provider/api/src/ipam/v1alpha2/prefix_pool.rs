//! `InClusterPrefixPool` and `GlobalInClusterPrefixPool`.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::status::PoolStatus;
use crate::{ipam::global::global_kind, schema};

/// The length of the prefixes that a pool hands out unless it says otherwise.
pub const ALLOCATION_PREFIX_LENGTH_DEFAULT: i32 = 64;

/// The desired state of a pool of IPv6 prefixes, global or namespaced.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha2",
    kind = "InClusterPrefixPool",
    namespaced,
    status = "PoolStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "A pool of IPv6 prefixes for the claims of its namespace.",
    printcolumn(
        name = "Prefixes",
        type_ = "string",
        json_path = ".spec.prefixes",
        description = "What prefixes are taken from"
    ),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.ipAddresses.total",
        description = "How many prefixes can be handed out"
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        json_path = ".status.ipAddresses.free",
        description = "How many of them are free"
    ),
    printcolumn(
        name = "Used",
        type_ = "integer",
        json_path = ".status.ipAddresses.used",
        description = "How many prefixes are in use"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["prefixes"]))]
pub struct InClusterPrefixPoolSpec {
    /// The IPv6 CIDR blocks to carve prefixes from.
    pub prefixes: Vec<String>,
    /// The length of each prefix that is handed out. It cannot be changed.
    #[schemars(schema_with = "allocation_prefix_length")]
    pub allocation_prefix_length: i32,
    /// The gateway that comes with every prefix. No address is reserved for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Addresses, ranges and CIDR blocks: no prefix that touches one of them is handed out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_prefixes: Vec<String>,
}

/// The schema of a length that is set once, which a derive cannot express.
fn allocation_prefix_length(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The length of each prefix that is handed out. It cannot be changed.",
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 128,
        "default": ALLOCATION_PREFIX_LENGTH_DEFAULT,
        "x-kubernetes-validations": [
            schema::rule("self == oldSelf", "spec.allocationPrefixLength is immutable"),
        ],
    })
}

impl Default for InClusterPrefixPoolSpec {
    fn default() -> Self {
        Self {
            prefixes: Vec::new(),
            allocation_prefix_length: ALLOCATION_PREFIX_LENGTH_DEFAULT,
            gateway: String::new(),
            excluded_prefixes: Vec::new(),
        }
    }
}

impl InClusterPrefixPoolSpec {
    /// The length of each prefix that is handed out: zero stands for the default, as an absent key does.
    #[must_use]
    pub fn effective_allocation_prefix_length(&self) -> i32 {
        match self.allocation_prefix_length {
            0 => ALLOCATION_PREFIX_LENGTH_DEFAULT,
            length => length,
        }
    }
}

global_kind!(
    /// A pool of IPv6 prefixes for the claims of every namespace.
    GlobalInClusterPrefixPool, "globalinclusterprefixpools",
    "A pool of IPv6 prefixes for the claims of every namespace.",
    of InClusterPrefixPool, v1alpha2, InClusterPrefixPoolSpec, PoolStatus
);
