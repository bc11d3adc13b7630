//! The limits of the cloud.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::identity::ResourceKind;
use crate::room::Room;

/// The configuration of a cloud, the same for every account. An empty collection sets no limit of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Zones by name. If there are none, any zone is accepted.
    pub zones: BTreeMap<String, Zone>,
    /// Limits per account.
    pub quotas: Quotas,
    /// The built-in catalog. Instances that name no catalog use it, unless their account has put a catalog without a
    /// name.
    pub catalog: Catalog,
}

impl Config {
    /// How many resources fit into a room. None means any number.
    pub(crate) fn limit(&self, room: &Room) -> Option<u32> {
        match room {
            Room::Zone(zone) => self.zones.get(zone)?.instances_max,
            Room::Quota { kind: ResourceKind::Instance, .. } => self.quotas.instances_max,
            Room::Quota { kind: ResourceKind::LoadBalancer, .. } => self.quotas.load_balancers_max,
            Room::Quota { kind: ResourceKind::Catalog | ResourceKind::Fault, .. } => None,
        }
    }
}

/// A zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// How many instances fit into the zone, of all accounts together. None means any number.
    pub instances_max: Option<u32>,
}

/// How many resources one account may have at a time; none means any number. A resource counts until its deletion ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Instances.
    pub instances_max: Option<u32>,
    /// Load balancers.
    pub load_balancers_max: Option<u32>,
}
