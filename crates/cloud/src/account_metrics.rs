//! The metrics of the clouds of namespaces. They are read from the engine when somebody asks for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_engine::{Engine, Leaked, ResourceId, SimTime};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, IntGaugeVec, Opts};

use crate::clock::CloudClock;
use crate::driver::Driver;

/// How many clouds have values of their own. Those beyond, in the order of their names, are counted together: users can
/// make any number of clouds. A manager is made for about a thousand clusters.
const CLOUDS_MAX: usize = 1000;

/// The name of the clouds that are counted together.
const OTHERS: &str = "others";

/// A cloud by namespace and name.
type CloudName = (String, String);

/// Reads the metrics of clouds.
pub(crate) struct AccountMetrics {
    driver: Arc<Driver>,
    clock: CloudClock,
    leaked: IntGaugeVec,
    cost: CounterVec,
}

impl AccountMetrics {
    pub(crate) fn new(driver: Arc<Driver>, clock: CloudClock) -> Result<Self, prometheus::Error> {
        let leaked = IntGaugeVec::new(
            Opts::new("nephele_leaked_instances", "Instances that still exist after they were deleted."),
            &["namespace", "cloud"],
        )?;
        let cost = CounterVec::new(
            Opts::new("nephele_cloud_cost_total", "What the machines of a cloud have cost."),
            &["namespace", "cloud"],
        )?;
        Ok(Self { driver, clock, leaked, cost })
    }
}

impl Collector for AccountMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.leaked.desc(), self.cost.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = self.clock.now();
        let (leaked, spent) = self.driver.look(|engine| (leaked(engine), spent(engine, now)));
        self.leaked.reset();
        self.cost.reset();
        for ((namespace, cloud), count) in bounded(leaked) {
            self.leaked.with_label_values(&[namespace, cloud]).set(count);
        }
        for ((namespace, cloud), total) in bounded(spent) {
            self.cost.with_label_values(&[namespace, cloud]).inc_by(total);
        }
        [self.leaked.collect(), self.cost.collect()].concat()
    }
}

/// How many instances of each cloud are leaked.
fn leaked(engine: &Engine) -> BTreeMap<CloudName, i64> {
    let mut counts = BTreeMap::new();
    for Leaked { id, footprint, .. } in engine.all_leaked() {
        *counts.entry((id.account.clone(), footprint.catalog.clone())).or_default() += 1;
    }
    counts
}

/// What was spent for each cloud.
fn spent(engine: &Engine, now: SimTime) -> BTreeMap<CloudName, f64> {
    let spent = engine.costs(now);
    let name = |id: &ResourceId| (id.account.clone(), id.name.clone());
    spent.map(|(id, spent)| (name(id), spent.total as f64 / 1e6)).collect()
}

/// The values of the first clouds, and the sum of the others.
fn bounded<T: Copy + std::iter::Sum>(values: BTreeMap<CloudName, T>) -> Vec<(CloudName, T)> {
    let mut values: Vec<_> = values.into_iter().collect();
    if values.len() > CLOUDS_MAX {
        let others = values.split_off(CLOUDS_MAX - 1);
        let sum = others.into_iter().map(|(_, value)| value).sum();
        values.push(((OTHERS.to_owned(), OTHERS.to_owned()), sum));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_beyond_the_bound_are_counted_together() {
        let values = |count: usize| {
            let cloud = |number| (("default".to_owned(), format!("c{number:04}")), 1_i64);
            bounded((0..count).map(cloud).collect())
        };
        let all = values(CLOUDS_MAX);
        assert_eq!((all.len(), all.iter().map(|(_, count)| count).sum::<i64>()), (CLOUDS_MAX, 1000));
        let more = values(CLOUDS_MAX + 7);
        assert_eq!(more.len(), CLOUDS_MAX);
        assert_eq!(more.last(), Some(&((OTHERS.to_owned(), OTHERS.to_owned()), 8)));
    }
}
