//! Changes that faults hide from reads.

use std::{collections::BTreeMap, time::Duration};

use nephele_model::{ResourceId, SimTime, Verb};
use serde::{Deserialize, Serialize};

/// A change that reads do not show until some time, because of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HiddenWrite {
    /// The operation that made the change.
    pub(crate) operation: Verb,
    pub(crate) caller: String,
    /// The cloud of what was changed, which may be gone since.
    #[serde(rename = "catalog")]
    pub(crate) cloud_spec: String,
    /// How long reads do not show the change.
    pub(crate) lag: Duration,
    pub(crate) until: SimTime,
}

impl HiddenWrite {
    /// Whether reads show the change.
    pub(crate) fn is_over(&self, now: SimTime) -> bool {
        self.until <= now
    }

    /// Whether reads show another change of the same resource before this one.
    pub(crate) fn outlasts(&self, other: &Self) -> bool {
        self.until > other.until
    }
}

/// The changes that a fault hides, by what they changed.
pub(crate) type HiddenWrites = BTreeMap<ResourceId, HiddenWrite>;
