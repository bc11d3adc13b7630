//! What is asked of resources.

use std::collections::{BTreeMap, BTreeSet};

use nephele_model::{Endpoint, Market, Odds, ResourceId, SeedKey, StageName};
use serde::{Deserialize, Serialize};

use crate::{active_effect::ActiveEffect, cloud_spec::Model, latency::Latency};

/// The specification of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceSpec {
    pub id: ResourceId,
    /// The key of its draws. None uses the name.
    #[serde(rename = "draw_key")]
    pub seed_key: Option<SeedKey>,
    pub zone: Option<String>,
    /// Its region. The engine gives it no meaning but in faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The cloud of its namespace that it is made from. Empty for the cloud without a name.
    #[serde(rename = "catalog")]
    pub cloud_spec: String,
    pub instance_type: Option<String>,
    /// How an instance is paid for.
    #[serde(default, skip_serializing_if = "Market::is_on_demand")]
    pub market: Market,
    /// The image that it boots from.
    pub image: Option<String>,
    /// The Kubernetes version that its image must have, such as `v1.36.3`.
    pub version: Option<String>,
    /// Its address; for load balancers only.
    pub endpoint: Option<Endpoint>,
    /// The resource that it belongs to.
    pub owner: Option<ResourceId>,
    /// Labels for rules to match on.
    pub labels: BTreeMap<String, String>,
    /// The addresses of an instance. The engine gives them no meaning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The stages that it passes through until it is up.
    pub stages: Vec<StageSpec>,
    /// How long its deletion takes. None leaves that to its cloud.
    pub deletion: Option<Latency>,
}

/// One stage of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// Its name, unique in the resource.
    pub name: StageName,
    /// The stages that must be reached before this one is entered.
    pub after: Vec<StageName>,
    /// How long it takes. None leaves that to the cloud.
    pub latency: Option<Latency>,
    pub failure: Odds,
}

impl ResourceSpec {
    /// A resource with nothing but a name. It is up at once, and its deletion takes no time.
    #[must_use]
    pub fn new(id: ResourceId) -> Self {
        Self {
            id,
            seed_key: None,
            zone: None,
            region: None,
            cloud_spec: String::new(),
            instance_type: None,
            market: Market::OnDemand,
            image: None,
            version: None,
            endpoint: None,
            owner: None,
            labels: BTreeMap::new(),
            addresses: Vec::new(),
            stages: Vec::new(),
            deletion: Some(Latency::ZERO),
        }
    }

    /// What its draws are keyed by.
    pub(crate) fn drawn_by(&self) -> (&ResourceId, Option<&SeedKey>) {
        (&self.id, self.seed_key.as_ref())
    }

    pub(crate) fn cloud_id(&self) -> ResourceId {
        ResourceId::cloud(&self.id.namespace, &self.cloud_spec)
    }

    /// Whether it can have an active effect.
    pub(crate) fn can_have(&self, active_effect: &ActiveEffect) -> bool {
        let has = |name: &StageName| self.stages.iter().any(|stage| stage.name == *name);
        active_effect.of == self.id.kind
            && active_effect.among.as_ref().is_none_or(has)
            && active_effect.after.as_ref().is_none_or(has)
            && active_effect.market.is_none_or(|market| market == self.market)
    }

    pub(crate) fn model(&self) -> Model {
        let Self {
            instance_type,
            image,
            version,
            ..
        } = self;
        Model {
            instance_type: instance_type.clone(),
            image: image.clone(),
            version: version.clone(),
        }
    }

    /// Whether the stages form a graph that can be walked: unique names, predecessors that exist, no cycle.
    pub(crate) fn is_walkable(&self) -> bool {
        let names: BTreeSet<_> = self.stages.iter().map(|stage| &stage.name).collect();
        if names.len() != self.stages.len() {
            return false;
        }
        let mut reached = BTreeSet::new();
        // Each round reaches every stage whose predecessors were reached. A round without progress means a cycle or a
        // predecessor that does not exist.
        while reached.len() < names.len() {
            let before = reached.len();
            let next: Vec<_> = self
                .stages
                .iter()
                .filter(|stage| stage.after.iter().all(|name| reached.contains(name)))
                .map(|stage| &stage.name)
                .collect();
            reached.extend(next);
            if reached.len() == before {
                return false;
            }
        }
        true
    }
}
