//! `InClusterIPPool` and `GlobalInClusterIPPool`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::PoolStatus;
use crate::ipam::global::global_kind;

/// The desired state of an address pool, global or namespaced.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha2",
    kind = "InClusterIPPool",
    namespaced,
    status = "PoolStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "A pool of IP addresses for the claims of its namespace.",
    printcolumn(
        name = "Addresses",
        type_ = "string",
        json_path = ".spec.addresses",
        description = "What addresses are taken from"
    ),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.ipAddresses.total",
        description = "How many addresses can be handed out"
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
        description = "How many addresses are in use"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["addresses", "prefix"]))]
pub struct InClusterIPPoolSpec {
    /// The addresses to hand out: single ones, ranges such as 10.0.0.10-10.0.0.20, and CIDR blocks, in any order, of
    /// one family.
    pub addresses: Vec<String>,
    /// The length of the subnet's prefix, which comes with every address.
    #[schemars(range(min = 0, max = 128))]
    pub prefix: i32,
    /// The gateway that comes with every address. It is not handed out itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Whether addresses that a subnet reserves are handed out too: the first and, with IPv4, the last.
    #[serde(
        rename = "allocateReservedIPAddresses",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub allocate_reserved_ip_addresses: bool,
    /// Addresses that are not handed out, in the same forms as in addresses. They may be outside of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_addresses: Vec<String>,
    /// For how many seconds an address that was released is not handed out again. Zero by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub address_reuse_grace_period_seconds: Option<i32>,
}

global_kind!(
    /// A pool of IP addresses for the claims of every namespace.
    GlobalInClusterIPPool, "globalinclusterippools", "A pool of IP addresses for the claims of every namespace.",
    of InClusterIPPool, v1alpha2, InClusterIPPoolSpec, PoolStatus
);
