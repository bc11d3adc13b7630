//! Catalogs: what each offers, what has happened in it, and what of that is put back after a restart.

use jiff::Timestamp;
use nephele_engine::{CallerFindings, Catalog, Leaked, Request, RoomUsage};
use nephele_model::{Quota, ResourceId, Room};

use crate::clock::ClockObservation;
use crate::cloud::Cloud;
use crate::cost::CostObservation;
use crate::error::CallError;

/// What has happened in a catalog. A status shows it, and the next manager puts it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogRecord {
    /// Its clock. None if it was never changed.
    pub clock: Option<ClockObservation>,
    /// Its leaked instances and load balancers, the oldest first.
    pub leaked: Vec<Leaked<Timestamp>>,
    /// What its machines have cost, and cost in an hour. None if they cost nothing.
    pub cost: Option<CostObservation>,
    /// What was found about its callers.
    pub findings: CallerFindings,
}

/// A catalog as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogObservation {
    /// The number of its machines, including those from before a restart that are not back yet.
    pub machines: u64,
    /// Its limits, in a fixed order.
    pub limits: Vec<RoomUsage>,
    /// What has happened in it.
    pub record: CatalogRecord,
}

impl Cloud {
    /// Sets a catalog of a namespace. New machines use it; existing machines keep their hardware. Its limits hold at
    /// once for what is created from then on, and its clock for all its machines. `former` is what was published about it
    /// before a restart.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn put_catalog(
        &self,
        namespace: &str,
        name: &str,
        catalog: Catalog,
        former: CatalogRecord,
    ) -> Result<(), CallError> {
        let id = ResourceId::catalog(namespace, name);
        let CatalogRecord { clock, leaked, cost, findings } = former;
        let cost = cost.map(|cost| Box::new(cost.record()));
        let clock = clock.map(|former| former.record(self.clock()));
        let leaked = self.unpublished(leaked);
        self.ask(Request::PutCatalog { id, catalog: Box::new(catalog), clock, leaked, cost, findings })
    }

    /// A catalog of a namespace, at one instant.
    #[must_use]
    pub fn observe_catalog(&self, namespace: &str, name: &str) -> CatalogObservation {
        let id = ResourceId::catalog(namespace, name);
        let now = self.now();
        let (mut observed, leaked) = self.look(|engine| {
            let clock = engine.clock(&id).zip(engine.clock_setting(&id));
            let record = CatalogRecord {
                clock: clock.map(|(clock, setting)| ClockObservation::new(setting, clock, self.clock())),
                cost: engine.cost(&id, now).map(CostObservation::of),
                findings: engine.findings(&id).cloned().unwrap_or_default(),
                ..CatalogRecord::default()
            };
            let machines = engine.taken(&Room::CatalogQuota { catalog: id.clone(), of: Quota::Instances });
            let observed = CatalogObservation { machines, limits: engine.usage(&id), record };
            (observed, engine.leaked(&id).cloned().collect())
        });
        observed.record.leaked = self.published(leaked);
        observed
    }

    /// Deletes a catalog. No new machine can use it.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_catalog(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(Request::Delete(ResourceId::catalog(namespace, name)))
    }
}
