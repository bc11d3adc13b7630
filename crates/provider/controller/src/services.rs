use std::time::Duration;

use crate::{clock::Clock, events::Events, metrics::Metrics, readiness::Readiness};

/// What the manager gives every controller. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Counters and histograms of the controllers.
    pub metrics: Metrics,
    pub events: Events,
    pub clock: Clock,
    /// The gates that caches and controllers open after their first list.
    pub readiness: Readiness,
    /// The time after which every object is reconciled again without a change; `None` for never.
    pub resync: Option<Duration>,
}
