//! What the instances of clouds cost.

use nephele_model::{ResourceId, ResourceKind, SimTime};

use super::Engine;
use crate::{
    billing::{Billing, Cost, NamedBilling, Product, Spent, price},
    clock::CloudTime,
    usage::Footprint,
};

impl Engine {
    /// What the instances of a cloud have cost by now, and cost in an hour. None if they cost nothing.
    #[must_use]
    pub fn cost(&self, cloud_spec: &ResourceId, now: SimTime) -> Option<Cost> {
        let cloud = self.clouds.get(cloud_spec)?;
        let cost = cloud.billing.cost(cloud.time(now));
        (cost.all != Spent::default()).then_some(cost)
    }

    /// What was spent for each cloud by now.
    pub fn costs(&self, now: SimTime) -> impl Iterator<Item = (&ResourceId, Spent)> {
        let spent = self
            .clouds
            .iter()
            .map(move |(id, cloud)| (id, cloud.billing.spent(cloud.time(now))));
        spent.filter(|(_, spent)| *spent != Spent::default())
    }

    /// Begins to count the price of an instance.
    pub(crate) fn charge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (cloud_spec, product, price, time) = self.priced(now, id, footprint);
            self.clouds.change(&cloud_spec, |cloud| {
                cloud.billing.take(&id.cluster, product, price, time);
            });
        }
    }

    /// Counts the price of an instance no more.
    pub(crate) fn discharge(&mut self, now: SimTime, id: &ResourceId, footprint: &Footprint) {
        if id.kind == ResourceKind::Instance {
            let (cloud_spec, product, price, time) = self.priced(now, id, footprint);
            self.clouds.change(&cloud_spec, |cloud| {
                cloud.billing.give_back(&id.cluster, &product, price, time);
                // The built-in cloud of a namespace is never deleted, and namespaces come and go without end.
                if cloud.billing.is_idle() && cloud.cloud_spec.is_none() {
                    cloud.billing = Billing::default();
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
        let cloud_spec = ResourceId::cloud(&id.namespace, &footprint.cloud_spec);
        let product = (footprint.instance_type.clone(), footprint.market);
        let price = self.clouds.price(&cloud_spec, &product);
        let time = self.clouds.time(&cloud_spec, now);
        (cloud_spec, product, price, time)
    }

    /// Adds up what the instances of a cloud have cost, before the cloud changes.
    pub(crate) fn add_up(&mut self, now: SimTime, cloud_spec: &ResourceId) {
        let time = self.clouds.time(cloud_spec, now);
        self.clouds.change(cloud_spec, |cloud| cloud.billing.add_up(time));
    }

    /// Continues at the prices of a cloud that has changed. What its clock has leapt over is paid at the new prices.
    pub(crate) fn reprice(&mut self, now: SimTime, cloud_spec: &ResourceId) {
        let time = self.clouds.time(cloud_spec, now);
        self.clouds.change_billing(cloud_spec, |billing, offered| {
            // Everything was added up before the change, so this changes the rates alone.
            billing.reprice(|product| price(offered, product));
            billing.add_up(time);
        });
    }

    /// Begins a meter for a cloud that is new, or that is gone and whose instances are made from the built-in one from
    /// now on.
    pub(crate) fn begin_billing(&mut self, now: SimTime, cloud_spec: &ResourceId, previous: Option<&Cost>) {
        let time = self.clouds.time(cloud_spec, now);
        self.clouds.change_billing(cloud_spec, |billing, offered| {
            billing.reprice(|product| price(offered, product));
            billing.begin(previous, time);
        });
    }

    pub(crate) fn billings(&self) -> Vec<NamedBilling> {
        let billed = self.clouds.iter().filter(|(_, cloud)| !cloud.billing.is_empty());
        billed.map(|(id, cloud)| cloud.billing.named(id)).collect()
    }

    /// Restores what was added up. The instances, clouds and clocks were restored before.
    pub(crate) fn restore_billings(&mut self, named: Vec<NamedBilling>) {
        for NamedBilling { id, all, clusters } in named {
            self.clouds.change_billing(&id, |billing, offered| {
                billing.restore(all, clusters);
                billing.reprice(|product| price(offered, product));
            });
        }
    }
}
