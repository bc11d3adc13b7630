//! What the instances of catalogs cost.

use nephele_model::{ResourceId, ResourceKind, SimTime};

use super::Engine;
use crate::clock::CloudTime;
use crate::meter::{Cost, Meter, NamedMeter, Product, Spent};
use crate::usage::{Catalogs, Footprint};

impl Engine {
    /// What the instances of a catalog have cost by now, and cost in an hour. None if they cost nothing.
    #[must_use]
    pub fn cost(&self, catalog: &ResourceId, now: SimTime) -> Option<Cost> {
        let (meter, time) = (self.meters.get(catalog)?, self.cloud_time(catalog, now));
        let cost = meter.cost(time);
        (cost.all != Spent::default()).then_some(cost)
    }

    /// What was spent for each catalog by now.
    pub fn costs(&self, now: SimTime) -> impl Iterator<Item = (&ResourceId, Spent)> {
        let spent = move |(id, meter): (_, &Meter)| (id, meter.spent(self.cloud_time(id, now)));
        self.meters.iter().map(spent).filter(|(_, spent)| *spent != Spent::default())
    }

    /// The time in the cloud of a catalog.
    fn cloud_time(&self, catalog: &ResourceId, now: SimTime) -> CloudTime {
        self.clocks.get(catalog).map_or_else(|| now.into(), |clock| clock.time(now))
    }

    /// Begins to count the price of an instance.
    pub(crate) fn charge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (catalog, product, price, time) = self.priced(now, id, footprint);
            self.meters.entry(catalog).or_default().take(&id.group, product, price, time);
        }
    }

    /// Counts the price of an instance no more.
    pub(crate) fn discharge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (catalog, product, price, time) = self.priced(now, id, footprint);
            let is_of_account = self.catalogs.contains_key(&catalog);
            let Some(meter) = self.meters.get_mut(&catalog) else { return };
            meter.give_back(&id.group, &product, price, time);
            // Nobody deletes the built-in catalog of an account, and accounts come and go without end.
            if meter.is_empty() || (meter.is_idle() && !is_of_account) {
                self.meters.remove(&catalog);
            }
        }
    }

    fn priced(
        &self,
        now: SimTime,
        id: &ResourceId,
        footprint: &Footprint,
    ) -> (ResourceId, Product, u64, CloudTime) {
        let catalog = ResourceId::catalog(&id.account, &footprint.catalog);
        let product = (footprint.instance_type.clone(), footprint.market);
        let price = self.catalogs().price(&catalog, &product);
        let time = self.cloud_time(&catalog, now);
        (catalog, product, price, time)
    }

    /// Adds up what the instances of a catalog have cost, before the catalog changes.
    pub(crate) fn add_up(&mut self, now: SimTime, catalog: &ResourceId) {
        let time = self.cloud_time(catalog, now);
        if let Some(meter) = self.meters.get_mut(catalog) {
            meter.add_up(time);
        }
    }

    /// Goes on at the prices of a catalog that has changed. What its clock has leapt over is paid at the new prices.
    pub(crate) fn reprice(&mut self, now: SimTime, catalog: &ResourceId) {
        let time = self.cloud_time(catalog, now);
        let catalogs = Catalogs { config: &self.config, by_id: &self.catalogs };
        let Some(meter) = self.meters.get_mut(catalog) else { return };
        // Everything was added up before the change, so this changes the rates alone.
        meter.reprice(CloudTime::default(), |product| catalogs.price(catalog, product));
        meter.add_up(time);
    }

    /// Begins a meter for a catalog that is new, or that is gone and whose instances are made from the built-in one from
    /// now on.
    pub(crate) fn begin_meter(&mut self, now: SimTime, catalog: &ResourceId, former: Option<&Cost>) {
        let time = self.cloud_time(catalog, now);
        let catalogs = Catalogs { config: &self.config, by_id: &self.catalogs };
        let mut meter = self.meters.remove(catalog).unwrap_or_default();
        meter.reprice(CloudTime::default(), |product| catalogs.price(catalog, product));
        meter.begin(former, time);
        if !meter.is_empty() {
            self.meters.insert(catalog.clone(), meter);
        }
    }

    pub(crate) fn meters(&self) -> Vec<NamedMeter> {
        self.meters.iter().map(|(id, meter)| meter.named(id)).collect()
    }

    /// Restores what was added up. The instances, catalogs and clocks were restored before.
    pub(crate) fn restore_meters(&mut self, named: Vec<NamedMeter>) {
        for NamedMeter { id, all, groups } in named {
            let catalogs = Catalogs { config: &self.config, by_id: &self.catalogs };
            let meter = self.meters.entry(id.clone()).or_default();
            meter.restore(all, groups);
            meter.reprice(CloudTime::default(), |product| catalogs.price(&id, product));
        }
    }
}
