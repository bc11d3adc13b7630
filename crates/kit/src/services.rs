use std::time::Duration;

use crate::{clock::Clock, events::Events, metrics::Metrics, readiness::Readiness};

/// What the manager hands to every controller. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Counters and histograms of the controllers.
    pub metrics: Metrics,
    /// Publishes Kubernetes Events.
    pub events: Events,
    /// What time it is.
    pub clock: Clock,
    /// Where caches and controllers say that they have caught up.
    pub readiness: Readiness,
    /// How often every object is looked at without having changed; `None` never.
    pub resync: Option<Duration>,
}
