//! How much of the limits of a catalog is used.

use nephele_engine::RoomUsage;
use nephele_model::{Quota, ResourceId, Room};

use crate::cloud::Cloud;

/// How much is made of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageObservation {
    /// The number of its machines, including those from before a restart that are not back yet.
    pub machines: u64,
    /// Its limits, in a fixed order.
    pub limits: Vec<RoomUsage>,
}

impl Cloud {
    /// How much is made of a catalog of a namespace.
    #[must_use]
    pub fn observe_usage(&self, namespace: &str, name: &str) -> UsageObservation {
        let catalog = ResourceId::catalog(namespace, name);
        self.look(|engine| UsageObservation {
            limits: engine.usage(&catalog),
            machines: engine.taken(&Room::CatalogQuota { catalog, of: Quota::Instances }),
        })
    }
}
