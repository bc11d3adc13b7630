//! What the instances of catalogs cost.

use nephele_model::{ResourceId, ResourceKind, SimTime};

use super::Engine;
use crate::clock::CloudTime;
use crate::meter::{Cost, Meter, NamedMeter, Product, Spent, price};
use crate::usage::Footprint;

impl Engine {
    /// What the instances of a catalog have cost by now, and cost in an hour. None if they cost nothing.
    #[must_use]
    pub fn cost(&self, catalog: &ResourceId, now: SimTime) -> Option<Cost> {
        let cloud = self.clouds.get(catalog)?;
        let cost = cloud.meter.cost(cloud.time(now));
        (cost.all != Spent::default()).then_some(cost)
    }

    /// What was spent for each catalog by now.
    pub fn costs(&self, now: SimTime) -> impl Iterator<Item = (&ResourceId, Spent)> {
        let spent = self.clouds.iter().map(move |(id, cloud)| (id, cloud.meter.spent(cloud.time(now))));
        spent.filter(|(_, spent)| *spent != Spent::default())
    }

    /// Begins to count the price of an instance.
    pub(crate) fn charge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (catalog, product, price, time) = self.priced(now, id, footprint);
            self.clouds.change(&catalog, |cloud| cloud.meter.take(&id.group, product, price, time));
        }
    }

    /// Counts the price of an instance no more.
    pub(crate) fn discharge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (catalog, product, price, time) = self.priced(now, id, footprint);
            self.clouds.change(&catalog, |cloud| {
                cloud.meter.give_back(&id.group, &product, price, time);
                // The built-in catalog of an account is never deleted, and accounts come and go without end.
                if cloud.meter.is_idle() && cloud.catalog.is_none() {
                    cloud.meter = Meter::default();
                }
            });
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
        let price = self.clouds.price(&catalog, &product);
        let time = self.clouds.time(&catalog, now);
        (catalog, product, price, time)
    }

    /// Adds up what the instances of a catalog have cost, before the catalog changes.
    pub(crate) fn add_up(&mut self, now: SimTime, catalog: &ResourceId) {
        let time = self.clouds.time(catalog, now);
        self.clouds.change(catalog, |cloud| cloud.meter.add_up(time));
    }

    /// Continues at the prices of a catalog that has changed. What its clock has leapt over is paid at the new prices.
    pub(crate) fn reprice(&mut self, now: SimTime, catalog: &ResourceId) {
        let time = self.clouds.time(catalog, now);
        self.clouds.change_meter(catalog, |meter, offered| {
            // Everything was added up before the change, so this changes the rates alone.
            meter.reprice(CloudTime::default(), |product| price(offered, product));
            meter.add_up(time);
        });
    }

    /// Begins a meter for a catalog that is new, or that is gone and whose instances are made from the built-in one from
    /// now on.
    pub(crate) fn begin_meter(&mut self, now: SimTime, catalog: &ResourceId, former: Option<&Cost>) {
        let time = self.clouds.time(catalog, now);
        self.clouds.change_meter(catalog, |meter, offered| {
            meter.reprice(CloudTime::default(), |product| price(offered, product));
            meter.begin(former, time);
        });
    }

    pub(crate) fn meters(&self) -> Vec<NamedMeter> {
        let metered = self.clouds.iter().filter(|(_, cloud)| !cloud.meter.is_empty());
        metered.map(|(id, cloud)| cloud.meter.named(id)).collect()
    }

    /// Restores what was added up. The instances, catalogs and clocks were restored before.
    pub(crate) fn restore_meters(&mut self, named: Vec<NamedMeter>) {
        for NamedMeter { id, all, groups } in named {
            self.clouds.change_meter(&id, |meter, offered| {
                meter.restore(all, groups);
                meter.reprice(CloudTime::default(), |product| price(offered, product));
            });
        }
    }
}
