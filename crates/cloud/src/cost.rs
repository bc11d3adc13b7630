//! What the machines of a catalog cost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Cost, Spent};
use nephele_model::ResourceId;

use crate::clock::{cloud_time, instant};
use crate::cloud::Cloud;

/// What the machines of a catalog cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostObservation {
    /// The time in the cloud.
    pub time: Timestamp,
    /// All together.
    pub all: Spent,
    /// By cluster. Only the dearest of the clusters without machines are remembered.
    pub clusters: BTreeMap<String, Spent>,
}

impl CostObservation {
    pub(crate) fn record(self) -> Cost {
        Cost { time: cloud_time(self.time), all: self.all, groups: self.clusters }
    }
}

impl Cloud {
    /// What the machines of a catalog of a namespace have cost by now, and cost in an hour. None if they cost nothing.
    #[must_use]
    pub fn observe_cost(&self, namespace: &str, name: &str) -> Option<CostObservation> {
        let (catalog, now) = (ResourceId::catalog(namespace, name), self.now());
        let Cost { time, all, groups } = self.look(|engine| engine.cost(&catalog, now))?;
        Some(CostObservation { time: instant(time), all, clusters: groups })
    }
}
