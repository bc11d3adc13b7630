//! What instances cost.
//!
//! ```text
//!   take, give back, PutCatalog ──▶ what was spent until now is added up ──▶ another rate from now on
//!   a reading ──▶ what was added up, and what was spent since then at this rate
//! ```
//!
//! An instance costs its price from its creation until its deletion ends, also while it is leaked or only reserved. Prices
//! are millionths of a unit for an hour of the time of its cloud, so nothing is spent while the clock of the cloud stands
//! still. Everything is added up in whole numbers, a price times microseconds, so no reading and no order changes a sum.
//!
//! The time of a meter never goes back. While the wall clock is set back, a meter stands at the last time until
//! which it was added up, and shows that time: so a cost that was written down predicts the one that is read later.
//!
//! A price is below 10^12 millionths. So a million instances spend less than 10^18 in an hour, and in all microseconds that
//! a clock can count less than 2 * 10^37, which is a tenth of the largest number here. More would stay at that number.

use std::collections::BTreeMap;

use nephele_model::{Market, ResourceId};
use serde::{Deserialize, Serialize};

use crate::{clock::CloudTime, cloud_spec::CloudSpec};

/// The microseconds of an hour.
const HOUR: u128 = 3_600_000_000;

/// What was spent, in millionths, and what is spent in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Millionths so far. A part of a millionth is left out.
    pub total: u64,
    /// Millionths in an hour of the time of the cloud.
    pub per_hour: u64,
}

/// What the instances of a cloud cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The time of the cloud.
    pub time: CloudTime,
    pub all: Spent,
    /// By cluster. At most [`Billing::IDLE_MAX`] clusters without instances are remembered, the dearest.
    #[serde(rename = "groups")]
    pub clusters: BTreeMap<String, Spent>,
}

/// What was added up for a cloud, for a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBilling {
    pub id: ResourceId,
    pub all: Sum,
    #[serde(rename = "groups")]
    pub clusters: BTreeMap<String, Sum>,
}

/// A sum of prices times microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    spent: u128,
    /// The time of the cloud until which it was added up.
    until: CloudTime,
}

/// What is spent, and how fast.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    sum: Sum,
    rate: u128,
}

impl Gauge {
    fn spent(&self, time: CloudTime) -> u128 {
        let passed = time.as_micros().saturating_sub(self.sum.until.as_micros());
        self.sum
            .spent
            .saturating_add(self.rate.saturating_mul(passed.into()))
    }

    fn add_up(&mut self, time: CloudTime) {
        let spent = self.spent(time);
        self.sum = Sum {
            spent,
            until: self.sum.until.max(time),
        };
    }

    fn read(&self, time: CloudTime) -> Spent {
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        Spent {
            total: whole(self.spent(time) / HOUR),
            per_hour: whole(self.rate),
        }
    }

    /// Continues from what an earlier process had spent by `then`.
    fn resume(&mut self, before: Spent, then: CloudTime, now: CloudTime) {
        let rate = u128::from(before.per_hour);
        let sum = Sum {
            spent: u128::from(before.total).saturating_mul(HOUR),
            until: then,
        };
        let spent = Self { sum, rate }.spent(now);
        self.sum = Sum {
            spent,
            until: then.max(now),
        };
    }
}

/// An instance type and how it is paid for.
pub(crate) type Product = (Option<String>, Market);

/// What the instances of one cloud cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Billing {
    all: Gauge,
    clusters: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    gauge: Gauge,
    counts: BTreeMap<Product, u64>,
}

impl Billing {
    /// How many clusters without instances are remembered, some 100 bytes each: clusters come and go without end.
    const IDLE_MAX: usize = 100;

    /// The time of this meter at a time of the cloud.
    fn time(&self, of_cloud: CloudTime) -> CloudTime {
        of_cloud.max(self.all.sum.until)
    }

    /// The gauge of everything, and that of a cluster.
    fn both(&mut self, cluster: &str) -> [&mut Gauge; 2] {
        let Self { all, clusters } = self;
        [all, &mut clusters.entry(cluster.to_owned()).or_default().gauge]
    }

    pub(crate) fn take(&mut self, cluster: &str, product: Product, price: u64, time: CloudTime) {
        let time = self.time(time);
        for gauge in self.both(cluster) {
            gauge.add_up(time);
            gauge.rate = gauge.rate.saturating_add(price.into());
        }
        *self
            .clusters
            .entry(cluster.to_owned())
            .or_default()
            .counts
            .entry(product)
            .or_default() += 1;
    }

    pub(crate) fn give_back(&mut self, cluster: &str, product: &Product, price: u64, time: CloudTime) {
        let time = self.time(time);
        for gauge in self.both(cluster) {
            gauge.add_up(time);
            gauge.rate = gauge.rate.saturating_sub(price.into());
        }
        let Some(Group { counts, .. }) = self.clusters.get_mut(cluster) else {
            return;
        };
        if let Some(count) = counts.get_mut(product) {
            *count -= 1;
            if *count == 0 {
                counts.remove(product);
            }
        }
        if counts.is_empty() {
            self.forget_idle();
        }
    }

    /// Forgets the cheapest clusters without instances beyond the bound, and those that have cost nothing.
    fn forget_idle(&mut self) {
        self.clusters
            .retain(|_, cluster| !cluster.counts.is_empty() || cluster.gauge.sum.spent > 0);
        let idle = self
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.counts.is_empty());
        let mut idle: Vec<_> = idle
            .map(|(name, cluster)| (cluster.gauge.sum.spent, name.clone()))
            .collect();
        idle.sort();
        let more = idle.len().saturating_sub(Self::IDLE_MAX);
        for (_, name) in idle.into_iter().take(more) {
            self.clusters.remove(&name);
        }
    }

    /// Continues at other prices. What was spent at those before must have been added up.
    pub(crate) fn reprice(&mut self, price: impl Fn(&Product) -> u64) {
        self.all.rate = 0;
        for Group { gauge, counts } in self.clusters.values_mut() {
            let prices = counts
                .iter()
                .map(|(product, count)| u128::from(price(product)).saturating_mul(u128::from(*count)));
            gauge.rate = prices.fold(0, u128::saturating_add);
            self.all.rate = self.all.rate.saturating_add(gauge.rate);
        }
    }

    pub(crate) fn add_up(&mut self, time: CloudTime) {
        let time = self.time(time);
        let Self { all, clusters } = self;
        all.add_up(time);
        clusters
            .values_mut()
            .for_each(|cluster| cluster.gauge.add_up(time));
    }

    /// Begins again with what an earlier process had spent, or with nothing.
    pub(crate) fn begin(&mut self, previous: Option<&Cost>, now: CloudTime) {
        let nothing = Cost::default();
        let Cost { time, all, clusters } = previous.unwrap_or(&nothing);
        self.all.resume(*all, *time, now);
        for name in clusters.keys() {
            self.clusters.entry(name.clone()).or_default();
        }
        for (name, cluster) in &mut self.clusters {
            cluster
                .gauge
                .resume(clusters.get(name).copied().unwrap_or_default(), *time, now);
        }
        self.forget_idle();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.all.sum.spent == 0
    }

    /// Whether it counts no instance.
    pub(crate) fn is_idle(&self) -> bool {
        self.clusters.values().all(|cluster| cluster.counts.is_empty())
    }

    /// What everything has cost until a time of the cloud, and costs in an hour.
    pub(crate) fn spent(&self, time: CloudTime) -> Spent {
        self.all.read(time)
    }

    /// The same, and that of each cluster that has cost something.
    pub(crate) fn cost(&self, time: CloudTime) -> Cost {
        let time = self.time(time);
        let clusters = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), cluster.gauge.read(time)));
        let clusters = clusters.filter(|(_, spent)| *spent != Spent::default());
        Cost {
            time,
            all: self.spent(time),
            clusters: clusters.collect(),
        }
    }

    /// What was added up, for a state.
    pub(crate) fn named(&self, id: &ResourceId) -> NamedBilling {
        let clusters = self
            .clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), cluster.gauge.sum));
        NamedBilling {
            id: id.clone(),
            all: self.all.sum,
            clusters: clusters.collect(),
        }
    }

    /// Continues with what was added up. The instances are counted already.
    pub(crate) fn restore(&mut self, all: Sum, clusters: BTreeMap<String, Sum>) {
        self.all.sum = all;
        for (name, sum) in clusters {
            self.clusters.entry(name).or_default().gauge.sum = sum;
        }
    }
}

/// The price of an instance in millionths for an hour. An instance without a type costs nothing.
pub(crate) fn price(cloud_spec: Option<&CloudSpec>, (instance_type, market): &Product) -> u64 {
    let of_type = |cloud_spec: &CloudSpec| {
        let found = cloud_spec
            .instance_types
            .iter()
            .find(|known| Some(&known.name) == instance_type.as_ref())?;
        Some(found.price(*market))
    };
    cloud_spec.and_then(of_type).unwrap_or(0)
}
