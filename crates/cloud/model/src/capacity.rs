//! Limits of a cloud that only so much fits into.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::{ResourceId, ResourceKind};

/// A limit that only so many resources fit into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Capacity {
    /// The quota of a namespace for a kind of resource.
    Quota {
        #[serde(rename = "account")]
        namespace: String,
        kind: ResourceKind,
    },
    /// A zone.
    Zone(String),
    /// A quota of a cloud.
    #[serde(rename = "CatalogQuota")]
    CloudQuota {
        #[serde(rename = "catalog")]
        cloud_spec: ResourceId,
        of: Quota,
    },
    /// The stock of a cloud.
    Stock {
        #[serde(rename = "catalog")]
        cloud_spec: ResourceId,
        /// The instance type. None for all instances together.
        instance_type: Option<String>,
        /// The zone. None for all zones together.
        zone: Option<String>,
    },
}

/// What a quota of a cloud limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quota {
    /// Instances.
    Instances,
    /// Processors of instances.
    Processors,
    /// Load balancers.
    LoadBalancers,
}

impl Quota {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Instances, Self::Processors, Self::LoadBalancers];

    /// What it counts, in words.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Processors => "vCPUs",
            Self::LoadBalancers => "load balancers",
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { kind, .. } => write!(f, "the quota of {}", kind.plural()),
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::CloudQuota { cloud_spec, of } => {
                write!(f, "the quota of {} of cloud {}", of.plural(), cloud_spec.name)
            }
            Self::Stock {
                cloud_spec,
                instance_type,
                zone,
            } => {
                f.write_str("the stock of instances")?;
                if let Some(name) = instance_type {
                    write!(f, " of type {name}")?;
                }
                if let Some(zone) = zone {
                    write!(f, " in zone {zone}")?;
                }
                write!(f, " of cloud {}", cloud_spec.name)
            }
        }
    }
}

impl Capacity {
    /// Whether no other gets this room before those that have waited longer. Without that, a large instance would wait
    /// while small ones keep coming. Where all take up the same, the order of asking does not matter: whoever
    /// asks between the telling and the asking of another takes no more than that one gives up.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        match self {
            Self::CloudQuota { of, .. } => *of == Quota::Processors,
            Self::Quota { .. } | Self::Zone(_) | Self::Stock { .. } => false,
        }
    }
}
