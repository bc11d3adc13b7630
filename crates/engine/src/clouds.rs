//! The clouds of accounts: what each offers, and what happened in it.
//!
//! A cloud is known by the name of its catalog. Its parts know nothing of each other: what one change means for several of
//! them is a matter of the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use nephele_model::{CallRate, CloudError, ResourceId, ResourceKind, Room, SimTime};

use crate::api_limits::Calls;
use crate::catalog::{Catalog, Hardware, Model};
use crate::clock::{Clock, CloudTime};
use crate::config::Config;
use crate::findings::{CallerFindings, Findings};
use crate::meter::{Meter, Product, price};
use crate::seed::Seed;
use crate::setting::Setting;
use crate::spec::ResourceSpec;

/// One cloud of an account.
#[derive(Clone, Debug, Default)]
pub(crate) struct CloudState {
    /// What it offers. None if it was not put: it is the built-in one, or it is gone and still has instances.
    pub(crate) catalog: Option<Catalog>,
    /// Its clock. None if it was never changed.
    pub(crate) clock: Option<Clock>,
    /// The calls so far, if it has a rate and was called.
    pub(crate) calls: Option<Calls>,
    /// What its instances cost.
    pub(crate) meter: Meter,
    /// What was found about its callers. Empty if it was not put.
    pub(crate) findings: CallerFindings,
}

impl CloudState {
    /// Its time at an instant.
    pub(crate) fn time(&self, now: SimTime) -> CloudTime {
        self.clock.map_or_else(|| now.into(), |clock| clock.time(now))
    }

    /// Notes what a caller did.
    pub(crate) fn note(&mut self, caller: &str, found: impl FnOnce(&mut Findings)) {
        let is_known = self.findings.contains_key(caller);
        if self.catalog.is_some() && (is_known || self.findings.len() < Findings::CALLERS_MAX) {
            found(self.findings.entry(caller.to_owned()).or_default());
        }
    }

    /// Whether it is as if it had never been.
    fn is_nothing(&self) -> bool {
        let Self { catalog, clock, calls, meter, findings } = self;
        catalog.is_none() && clock.is_none() && calls.is_none() && meter.is_empty() && findings.is_empty()
    }
}

/// All clouds, and what they have in common.
#[derive(Clone, Debug)]
pub(crate) struct Clouds {
    pub(crate) config: Config,
    pub(crate) seed: Seed,
    /// No more than were put, have instances, or have cost something.
    by_id: BTreeMap<ResourceId, CloudState>,
    /// How many were put.
    put: usize,
}

impl Clouds {
    pub(crate) fn new(config: Config, seed: Seed) -> Self {
        Self { config, seed, by_id: BTreeMap::new(), put: 0 }
    }

    /// Whether any was put. Only those that were put have rates.
    pub(crate) fn any_put(&self) -> bool {
        self.put > 0
    }

    pub(crate) fn is_put(&self, id: &ResourceId) -> bool {
        self.put(id).is_some()
    }

    /// The catalog that was put under this name.
    pub(crate) fn put(&self, id: &ResourceId) -> Option<&Catalog> {
        self.get(id)?.catalog.as_ref()
    }

    pub(crate) fn get(&self, id: &ResourceId) -> Option<&CloudState> {
        self.by_id.get(id)
    }

    pub(crate) fn clock(&self, id: &ResourceId) -> Option<&Clock> {
        self.get(id)?.clock.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ResourceId, &CloudState)> {
        self.by_id.iter()
    }

    /// The time of a cloud at an instant.
    pub(crate) fn time(&self, id: &ResourceId, now: SimTime) -> CloudTime {
        self.get(id).map_or_else(|| now.into(), |cloud| cloud.time(now))
    }

    /// Changes a cloud, which is forgotten if nothing is left of it.
    pub(crate) fn change<R>(&mut self, id: &ResourceId, change: impl FnOnce(&mut CloudState) -> R) -> R {
        self.change_priced(id, |cloud, _| change(cloud))
    }

    /// Changes the meter of a cloud. `change` gets the catalog that says the prices there.
    pub(crate) fn change_meter(
        &mut self,
        id: &ResourceId,
        change: impl FnOnce(&mut Meter, Option<&Catalog>),
    ) {
        self.change_priced(id, |CloudState { catalog, meter, .. }, built_in| {
            change(meter, catalog.as_ref().or(built_in));
        });
    }

    fn change_priced<R>(
        &mut self,
        id: &ResourceId,
        change: impl FnOnce(&mut CloudState, Option<&Catalog>) -> R,
    ) -> R {
        let Self { config, by_id, put, .. } = self;
        if !by_id.contains_key(id) {
            by_id.insert(id.clone(), CloudState::default());
        }
        let cloud = by_id.get_mut(id).expect("it was added");
        let was_put = cloud.catalog.is_some();
        let changed = change(cloud, is_built_in(id).then_some(&config.catalog));
        *put = *put + usize::from(cloud.catalog.is_some()) - usize::from(was_put);
        if cloud.meter.is_empty() {
            cloud.meter = Meter::default();
        }
        if cloud.is_nothing() {
            by_id.remove(id);
        }
        changed
    }

    /// Counts a call, or returns when to retry.
    pub(crate) fn take_call(&mut self, id: &ResourceId, rate: CallRate, at: SimTime) -> Result<(), Duration> {
        self.change(id, |cloud| cloud.calls.get_or_insert_default().take(rate, at))
    }

    /// The catalog of this name: one that was put, or the built-in one.
    pub(crate) fn catalog(&self, id: &ResourceId) -> Option<&Catalog> {
        self.put(id).or_else(|| is_built_in(id).then_some(&self.config.catalog))
    }

    /// The hardware of an instance that is made from a model.
    pub(crate) fn hardware(&self, id: &ResourceId, model: &Model) -> Result<Hardware, CloudError> {
        self.catalog(id).ok_or_else(|| CloudError::UnknownCatalog(id.name.clone()))?.hardware(model)
    }

    /// The price of an instance in millionths for an hour.
    pub(crate) fn price(&self, id: &ResourceId, product: &Product) -> u64 {
        price(self.catalog(id), product)
    }

    /// How much fits into a room. None means any amount.
    pub(crate) fn limit(&self, room: &Room) -> Option<u32> {
        match room {
            Room::Zone(zone) => self.config.zones.get(zone)?.instances_max,
            Room::Quota { kind, .. } => self.config.quotas.limit(*kind),
            Room::CatalogQuota { catalog, of } => self.catalog(catalog)?.limits.quota(*of),
            Room::Stock { catalog, instance_type, zone } => {
                self.catalog(catalog)?.limits.stock(instance_type.as_ref(), zone.as_ref())
            }
        }
    }

    /// What everything that happens to a resource depends on besides the resource itself, as it is now.
    pub(crate) fn setting_of(&self, spec: &ResourceSpec) -> Setting<'_> {
        let id = spec.catalog_id();
        let catalog = self.catalog(&id);
        // Load balancers take no time.
        let is_clocked = spec.id.kind == ResourceKind::Instance;
        Setting {
            seed: catalog.and_then(|catalog| catalog.seed.as_ref()).unwrap_or(&self.seed),
            latencies: catalog.map(|catalog| &catalog.latencies),
            clock: self.clock(&id).copied().filter(|_| is_clocked),
        }
    }
}

fn is_built_in(id: &ResourceId) -> bool {
    id.name.is_empty() || id.name == Catalog::DEFAULT
}
