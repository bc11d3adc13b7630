//! What a fault matches.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{caller::Caller, market::Market, selector::Selector, verb::Verb};

/// What a fault matches. An operation, a resource or a claim has to fit every field. An empty field fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matches {
    /// The operations. If empty, all that change something. Not for resources.
    pub operations: BTreeSet<Verb>,
    /// The callers. Not for resources.
    pub callers: BTreeSet<Caller>,
    /// The names of the instances. A load balancer goes by the name of its cluster.
    pub names: BTreeSet<String>,
    /// The names of pools of addresses. Only for claims.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pools: BTreeSet<String>,
    /// The zones of the instances. A load balancer has no zone and fits none.
    pub zones: BTreeSet<String>,
    /// The regions of the instances and load balancers. What has no region fits none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub regions: BTreeSet<String>,
    /// The instance types. A load balancer has none and fits none.
    pub instance_types: BTreeSet<String>,
    /// How instances are paid for. A load balancer is not paid for and fits none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub markets: BTreeSet<Market>,
    /// Labels of the cluster, which are the labels of its load balancer, and those of the cluster of a claim.
    #[serde(rename = "group")]
    pub cluster: Selector,
    /// Labels of the instance. A load balancer fits only an empty selector.
    pub instance: Selector,
}
