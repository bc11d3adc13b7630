//! `InClusterIPPool` and `GlobalInClusterIPPool`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ipam::{global::global_kind, v1alpha2::PoolStatus};

/// The desired state of an address pool, global or namespaced: addresses, or a part of one subnet.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "InClusterIPPool",
    namespaced,
    status = "PoolStatus",
    category = "cluster-api",
    storage = false,
    deprecated,
    derive = "Default",
    derive = "PartialEq",
    doc = "A pool of IP addresses for the claims of its namespace.",
    printcolumn(
        name = "Subnet",
        type_ = "string",
        json_path = ".spec.subnet",
        description = "The subnet that addresses are taken from"
    ),
    printcolumn(
        name = "First",
        type_ = "string",
        json_path = ".spec.start",
        description = "The first address of the range"
    ),
    printcolumn(
        name = "Last",
        type_ = "string",
        json_path = ".spec.end",
        description = "The last address of the range"
    ),
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
pub struct InClusterIPPoolSpec {
    /// The addresses to hand out: single ones, ranges such as 10.0.0.10-10.0.0.20, and CIDR blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The subnet to hand addresses out of, in CIDR notation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// The first address of the range to hand out; by default the second one of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// The last address of the range to hand out; by default the last but one of the subnet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub end: String,
    /// The length of the subnet's prefix, which comes with every address; by default that of the subnet.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(max = 128))]
    pub prefix: i32,
    /// The gateway that comes with every address. It is not handed out itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(prefix: &i32) -> bool {
    *prefix == 0
}

global_kind!(
    /// A pool of IP addresses for the claims of every namespace.
    GlobalInClusterIPPool, "globalinclusterippools", "A pool of IP addresses for the claims of every namespace.",
    of InClusterIPPool, v1alpha1, InClusterIPPoolSpec, PoolStatus
);
