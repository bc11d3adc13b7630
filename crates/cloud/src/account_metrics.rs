//! The metrics of the clouds of namespaces. They are read from the engine when somebody asks for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use nephele_engine::{Engine, Leaked};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};

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
    leaked: IntGaugeVec,
}

impl AccountMetrics {
    pub(crate) fn new(driver: Arc<Driver>) -> Result<Self, prometheus::Error> {
        let leaked = IntGaugeVec::new(
            Opts::new("nephele_leaked_instances", "Instances that still exist after they were deleted."),
            &["namespace", "cloud"],
        )?;
        Ok(Self { driver, leaked })
    }
}

impl Collector for AccountMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.leaked.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let leaked = self.driver.look(leaked);
        self.leaked.reset();
        for ((namespace, cloud), count) in bounded(leaked) {
            self.leaked.with_label_values(&[namespace, cloud]).set(count);
        }
        self.leaked.collect()
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
