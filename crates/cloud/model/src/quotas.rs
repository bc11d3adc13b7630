//! How much may be made of a cloud at a time: quotas of everything together, and the stock of instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    capacity::Quota,
    name_patterns::{NAME_PATTERN, PLACE_PATTERN},
};

/// How much the clusters of a cloud may have at a time. Lowering a quota deletes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Quotas {
    /// Machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 0, max = 1_000_000))]
    pub instances: Option<u32>,
    /// Processors of all machines together. A small machine waits behind a large one.
    #[serde(rename = "vCPUs", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 0, max = 1_000_000))]
    pub vcpus: Option<u32>,
    /// Load balancers. Each cluster has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", range(min = 0, max = 1_000_000))]
    pub load_balancers: Option<u32>,
}

impl Quotas {
    /// The limit of what a quota counts. None means any amount.
    #[must_use]
    pub fn limit(&self, of: Quota) -> Option<u32> {
        match of {
            Quota::Instances => self.instances,
            Quota::Processors => self.vcpus,
            Quota::LoadBalancers => self.load_balancers,
        }
    }
}

/// How many machines there are of an instance type, in a zone. Lowering the number deletes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["count"]))]
pub struct Stock {
    /// The instance type; by default all machines together.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub instance_type: String,
    /// The zone; by default all zones together.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN))]
    pub zone: String,
    /// How many machines.
    #[schemars(with = "i32", range(min = 0, max = 1_000_000))]
    pub count: u32,
}

impl Stock {
    /// The instance type and the zone that the entry covers; an empty one covers all.
    #[must_use]
    pub fn of(&self) -> (Option<&str>, Option<&str>) {
        (named(&self.instance_type), named(&self.zone))
    }
}

fn named(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}
