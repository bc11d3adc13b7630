//! The metrics of pools and claims, all declared here.

use std::{sync::Arc, time::Duration};

use nephele_api::ipam::{PoolKind, v1alpha2::IPAddressCounts};
use nephele_controller::registered;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::pool::{PoolKey, Troubles};

/// Buckets from the time of one claim on an idle manager to the time of the last of 20,000 claims.
const ALLOCATION_SECONDS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0,
];

/// Metrics of pools and claims. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    families: Arc<Families>,
}

struct Families {
    /// In the order of [`POOL_GAUGES`].
    pool: [IntGaugeVec; 6],
    allocation_seconds: HistogramVec,
    bound: IntCounterVec,
    released: IntCounterVec,
}

const POOL_LABELS: [&str; 3] = ["kind", "namespace", "name"];

/// Gauges per pool. The labels name the pool, so there are as many series as pools; they are removed with the pool.
const POOL_GAUGES: [(&str, &str); 6] = [
    (
        "nephele_ipam_pool_addresses_total",
        "Addresses or prefixes that the pool can hand out.",
    ),
    ("nephele_ipam_pool_addresses_free", "Of these, how many are free."),
    (
        "nephele_ipam_pool_addresses_used",
        "Addresses or prefixes of the pool in use.",
    ),
    (
        "nephele_ipam_pool_addresses_out_of_range",
        "Of these, how many the pool could not hand out any more.",
    ),
    (
        "nephele_ipam_pool_claims_waiting",
        "Claims that wait for an address of the pool.",
    ),
    (
        "nephele_ipam_pool_addresses_orphaned",
        "IPAddresses of the pool that have no claim any more.",
    ),
];

impl Metrics {
    /// Declares the metrics in a registry.
    ///
    /// # Errors
    /// When the registry already has a metric of one of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let mut pool = Vec::new();
        for (name, help) in POOL_GAUGES {
            pool.push(registered(
                registry,
                IntGaugeVec::new(Opts::new(name, help), &POOL_LABELS)?,
            )?);
        }
        let pool = <[IntGaugeVec; 6]>::try_from(pool)
            .map_err(|_| ())
            .expect("six were declared");
        let counters = |name: &str, help: &str| {
            IntCounterVec::new(Opts::new(name, help), &["kind"])
                .and_then(|family| registered(registry, family))
        };
        let options = HistogramOpts::new(
            "nephele_ipam_allocation_seconds",
            "Time from the first look at a claim until it has its address, by kind of pool.",
        );
        let families = Families {
            pool,
            allocation_seconds: registered(
                registry,
                HistogramVec::new(options.buckets(ALLOCATION_SECONDS.to_vec()), &["kind"])?,
            )?,
            bound: counters(
                "nephele_ipam_claims_bound_total",
                "Claims that got an address, by kind of pool.",
            )?,
            released: counters(
                "nephele_ipam_claims_released_total",
                "Claims whose address was released, by kind of pool.",
            )?,
        };
        for kind in PoolKind::ALL {
            families.bound.with_label_values(&[kind.as_str()]);
            families.released.with_label_values(&[kind.as_str()]);
        }
        Ok(Self {
            families: Arc::new(families),
        })
    }

    /// Sets the gauges of a pool.
    pub(crate) fn measure(&self, pool: &PoolKey, counts: IPAddressCounts, troubles: &Troubles) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let values = [
            counts.total,
            counts.free,
            counts.used,
            counts.out_of_range,
            count(troubles.waiting),
            count(troubles.orphans.count),
        ];
        for (gauge, value) in self.families.pool.iter().zip(values) {
            gauge.with_label_values(&labels(pool)).set(value);
        }
    }

    /// Removes the gauges of a pool that is gone.
    pub(crate) fn forget(&self, pool: &PoolKey) {
        for gauge in &self.families.pool {
            // The pool may never have been measured.
            let _ = gauge.remove_label_values(&labels(pool));
        }
    }

    /// Counts a claim that got its address, `after` this time if it is known.
    pub(crate) fn bound(&self, kind: PoolKind, after: Option<Duration>) {
        self.families.bound.with_label_values(&[kind.as_str()]).inc();
        if let Some(after) = after {
            self.families
                .allocation_seconds
                .with_label_values(&[kind.as_str()])
                .observe(after.as_secs_f64());
        }
    }

    /// Counts a claim whose address was released.
    pub(crate) fn released(&self, kind: PoolKind) {
        self.families.released.with_label_values(&[kind.as_str()]).inc();
    }
}

fn labels(pool: &PoolKey) -> [&str; 3] {
    [pool.kind.as_str(), &pool.namespace, &pool.name]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauges_of_a_pool_go_with_it() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).expect("a new registry");
        let pool = PoolKey {
            kind: PoolKind::InClusterIPPool,
            namespace: "ns".into(),
            name: "pool".into(),
        };
        let counts = IPAddressCounts {
            total: 9,
            free: 7,
            used: 2,
            out_of_range: 1,
        };
        let gauges = || {
            let families = registry.gather();
            let of_pools = families
                .iter()
                .filter(|family| family.name().starts_with("nephele_ipam_pool_"));
            of_pools
                .flat_map(prometheus::proto::MetricFamily::get_metric)
                .map(|metric| metric.get_gauge().get_value())
                .collect::<Vec<_>>()
        };
        metrics.measure(
            &pool,
            counts,
            &Troubles {
                waiting: 3,
                ..Troubles::default()
            },
        );
        // By name: free, orphaned, out of range, total, used, waiting.
        assert_eq!(gauges(), [7.0, 0.0, 1.0, 9.0, 2.0, 3.0]);
        metrics.forget(&pool);
        assert_eq!(gauges(), Vec::<f64>::new());
    }
}
