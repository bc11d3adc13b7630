//! Addresses from IPAM pools: which are wanted, and which were given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::ObjectReference;
use crate::schema;

/// The networking of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineNetwork {
    /// Pools that each give the machine an address, in this order: two of them, one per family, make it dual-stack. The
    /// machine boots once it has all of its addresses; one without pools gets an address from the simulated cloud.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pool_references")]
    pub addresses_from_pools: Vec<PoolReference>,
}

/// The networking of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// The pool that gives the control plane's load balancer its address.
    ///
    /// The address is claimed and shown, and is not the host of the endpoint. Clients connect to the endpoint for real,
    /// and nothing routes a simulated address to the manager. Even one that happens to be bindable where the manager
    /// runs now would be lost with its next start on another node, while a published endpoint can never change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::load_balancer_pool_reference")]
    pub control_plane_address_from_pool: Option<PoolReference>,
}

/// A pool of any IPAM provider, in the namespace of whoever refers to it or cluster-wide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolReference {
    /// API group.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl From<&PoolReference> for ObjectReference {
    fn from(pool: &PoolReference) -> Self {
        let PoolReference { api_group, kind, name } = pool.clone();
        Self { api_group, kind, name }
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
    /// The address.
    pub address: String,
    /// The length of its subnet's prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway of its subnet; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}
