//! The limits of the cloud.

use std::collections::BTreeMap;

use nephele_model::ResourceKind;
use serde::{Deserialize, Serialize};

use crate::cloud_spec::CloudSpec;

/// The configuration of a cloud, the same for every namespace. An empty collection sets no limit of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Zones by name. If there are none, any zone is accepted.
    pub zones: BTreeMap<String, Zone>,
    pub quotas: NamespaceQuotas,
    /// The built-in cloud. Instances that name no cloud or the default cloud use it, unless their namespace has put
    /// a cloud of that name.
    #[serde(rename = "catalog")]
    pub cloud_spec: CloudSpec,
}

/// A zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// How many instances fit into the zone, of all namespaces together. None means any number.
    pub instances_max: Option<u32>,
}

/// How many resources one namespace may have at a time; none means any number. A resource counts until its deletion ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceQuotas {
    pub instances_max: Option<u32>,
    pub load_balancers_max: Option<u32>,
}

impl NamespaceQuotas {
    pub(crate) fn limit(&self, kind: ResourceKind) -> Option<u32> {
        match kind {
            ResourceKind::Instance => self.instances_max,
            ResourceKind::LoadBalancer => self.load_balancers_max,
            ResourceKind::Cloud | ResourceKind::Fault => None,
        }
    }
}
