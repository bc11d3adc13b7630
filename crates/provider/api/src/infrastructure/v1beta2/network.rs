//! Addresses from IPAM pools: the wanted ones, and the ones that were given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{core::ObjectReference, schema};

/// The networking of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineNetwork {
    /// The machine gets one address from each of these pools, in this order. With two pools, one per IP family, it is
    /// dual-stack. The machine boots once it has all of its addresses. A machine without pools gets an address from the
    /// simulated cloud.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pool_references")]
    pub addresses_from_pools: Vec<PoolReference>,
}

/// The networking of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// The pool from which the control plane's load balancer gets an address.
    ///
    /// The address is claimed and shown in the status, but it is not the host of the endpoint. Clients open real
    /// connections to the endpoint, and nothing routes a simulated address to the manager. Even an address that the
    /// manager can bind now would be lost when the manager starts on another node, but a published endpoint can never
    /// change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::load_balancer_pool_reference")]
    pub control_plane_address_from_pool: Option<PoolReference>,
}

/// A pool of any IPAM provider, in the namespace of the object with this reference or cluster-wide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolReference {
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

impl From<&PoolReference> for ObjectReference {
    fn from(pool: &PoolReference) -> Self {
        let PoolReference {
            api_group,
            kind,
            name,
        } = pool.clone();
        Self {
            api_group,
            kind,
            name,
        }
    }
}

/// The status of a machine's networking.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineNetworkStatus {
    /// The addresses from the pools, in the order of spec.network.addressesFromPools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::claimed_addresses")]
    pub addresses: Vec<ClaimedAddress>,
}

/// The status of a cluster's networking.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterNetworkStatus {
    /// The address from the pool of spec.network.controlPlaneAddressFromPool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::claimed_address")]
    pub control_plane_address: Option<ClaimedAddress>,
}

/// An address from a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimedAddress {
    pub address: String,
    /// The length of its subnet's prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway of its subnet; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}
