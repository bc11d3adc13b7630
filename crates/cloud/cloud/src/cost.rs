//! What the machines of a cloud cost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Cost, Spent};

use crate::clock::{cloud_time, instant};

/// What the machines of a cloud cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostObservation {
    /// The time in the cloud.
    pub time: Timestamp,
    pub all: Spent,
    /// By cluster. Only the dearest of the clusters without machines are remembered.
    pub clusters: BTreeMap<String, Spent>,
}

impl CostObservation {
    pub(crate) fn of(Cost { time, all, clusters }: Cost) -> Self {
        Self {
            time: instant(time),
            all,
            clusters,
        }
    }

    pub(crate) fn record(self) -> Cost {
        Cost {
            time: cloud_time(self.time),
            all: self.all,
            clusters: self.clusters,
        }
    }
}
