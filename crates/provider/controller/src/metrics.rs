use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::{
    failures::ObjectKey,
    registered::registered,
    work_queue::{WorkQueue, WorkQueues},
};

/// Buckets: reconciles take milliseconds, or seconds if the management API is slow.
const RECONCILE_SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The most objects that cannot be read of which the metrics know. With keys and messages of half a KiB each, some 4 MiB.
const UNREADABLE_MAX: usize = 4096;

/// The metrics of the controllers, all declared here.
///
/// A metric that controller-runtime has as well has the same name, so that dashboards for Cluster API providers work
/// unchanged (controller-runtime, `pkg/internal/controller/metrics`; Cluster API, `util/controller/metrics.go`).
#[derive(Clone)]
pub struct Metrics {
    families: Arc<Families>,
}

struct Families {
    reconciles: Arc<Reconciles>,
    watch_errors: IntCounterVec,
    unreadable: IntGaugeVec,
    /// What cannot be read of an object, by kind and key. Several watches may see an object.
    mistakes: Mutex<BTreeMap<(String, ObjectKey), String>>,
    events: IntCounterVec,
    leader: IntGaugeVec,
    work_queues: WorkQueues,
}

/// The metrics of reconciles, by controller.
struct Reconciles {
    results: IntCounterVec,
    capi_results: IntCounterVec,
    errors: IntCounterVec,
    terminal_errors: IntCounterVec,
    panics: IntCounterVec,
    seconds: HistogramVec,
    active: IntGaugeVec,
    concurrency_max: IntGaugeVec,
    outcomes: IntCounterVec,
    errors_by_category: IntCounterVec,
}

impl Reconciles {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            results: counters(
                registry,
                "controller_runtime_reconcile_total",
                "Reconciles by controller and result.",
                &["controller", "result"],
            )?,
            capi_results: counters(
                registry,
                "capi_reconcile_total",
                "Reconciles by controller and result.",
                &["controller", "result"],
            )?,
            errors: counters(
                registry,
                "controller_runtime_reconcile_errors_total",
                "Failed reconciles by controller.",
                &["controller"],
            )?,
            terminal_errors: counters(
                registry,
                "controller_runtime_terminal_reconcile_errors_total",
                "Failed reconciles that are not tried again before the object changes, by controller.",
                &["controller"],
            )?,
            panics: counters(
                registry,
                "controller_runtime_reconcile_panics_total",
                "Panics caught in reconciles, by controller.",
                &["controller"],
            )?,
            seconds: reconcile_seconds(registry)?,
            active: gauges(
                registry,
                "controller_runtime_active_workers",
                "Reconciles running now, by controller.",
                &["controller"],
            )?,
            concurrency_max: gauges(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Reconciles that may run at a time, by controller.",
                &["controller"],
            )?,
            outcomes: counters(
                registry,
                "nephele_reconcile_outcomes_total",
                "Reconciles that did not fail, by controller and outcome: done, after, or what they wait on.",
                &["controller", "outcome"],
            )?,
            errors_by_category: counters(
                registry,
                "nephele_reconcile_errors_total",
                "Failed reconciles by controller and category of the error.",
                &["controller", "category"],
            )?,
        })
    }
}

impl Metrics {
    /// Declares the metrics in a registry.
    ///
    /// # Errors
    ///
    /// When the registry already has a metric of one of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families {
            reconciles: Arc::new(Reconciles::register(registry)?),
            watch_errors: counters(
                registry,
                "nephele_watch_errors_total",
                "Watches of the management API that broke and were restarted, by kind.",
                &["kind"],
            )?,
            unreadable: gauges(
                registry,
                "nephele_unreadable_objects",
                "Objects that the manager watches and cannot read in whole, by kind.",
                &["kind"],
            )?,
            mistakes: Mutex::default(),
            events: counters(
                registry,
                "nephele_events_total",
                "Kubernetes Events by result: published, repeated, dropped, failed.",
                &["result"],
            )?,
            leader: leader(registry)?,
            work_queues: WorkQueues::register(registry)?,
        };
        Ok(Self {
            families: Arc::new(families),
        })
    }

    /// The metrics of one controller.
    pub(crate) fn controller(&self, controller: &'static str, concurrency_max: i64) -> ControllerMetrics {
        let reconciles = &self.families.reconciles;
        reconciles
            .concurrency_max
            .with_label_values(&[controller])
            .set(concurrency_max);
        // These counters exist from the start, so that a rate includes the first failure.
        reconciles.errors.with_label_values(&[controller]);
        reconciles.panics.with_label_values(&[controller]);
        ControllerMetrics {
            controller,
            reconciles: Arc::clone(reconciles),
        }
    }

    /// The work queue of one controller.
    pub(crate) fn work_queue(&self, controller: &'static str) -> Arc<WorkQueue> {
        self.families.work_queues.of(controller)
    }

    pub(crate) fn watch_errors(&self, kind: &str) -> IntCounter {
        self.families.watch_errors.with_label_values(&[kind])
    }

    /// Notes what cannot be read of an object. Whether that is news.
    pub(crate) fn unreadable(&self, kind: &str, key: &ObjectKey, mistake: &str) -> bool {
        let mut known = self.families.mistakes.lock();
        let id = (kind.to_owned(), key.clone());
        let before = known.get(&id);
        if before.is_some_and(|before| before == mistake)
            || (before.is_none() && known.len() >= UNREADABLE_MAX)
        {
            return false;
        }
        if known.insert(id, mistake.to_owned()).is_none() {
            self.families.unreadable.with_label_values(&[kind]).inc();
        }
        true
    }

    /// Notes that an object can be read in whole, or is gone.
    pub(crate) fn readable(&self, kind: &str, key: &ObjectKey) {
        if self
            .families
            .mistakes
            .lock()
            .remove(&(kind.to_owned(), key.clone()))
            .is_some()
        {
            self.families.unreadable.with_label_values(&[kind]).dec();
        }
    }

    pub(crate) fn event(&self, result: &'static str) -> IntCounter {
        self.families.events.with_label_values(&[result])
    }

    pub(crate) fn leading(&self, lease: &str, leading: bool) {
        self.families
            .leader
            .with_label_values(&[lease])
            .set(leading.into());
    }
}

/// The metrics of one controller.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    controller: &'static str,
    reconciles: Arc<Reconciles>,
}

impl ControllerMetrics {
    /// Counts a reconcile as running until the guard is dropped.
    pub(crate) fn running(&self) -> Running {
        let gauge = self.reconciles.active.with_label_values(&[self.controller]);
        gauge.inc();
        Running(gauge)
    }

    /// Counts a reconcile that ended with this result, one of controller-runtime's four results.
    pub(crate) fn ended(&self, result: &'static str, took: Duration) {
        let labels = [self.controller, result];
        self.reconciles.results.with_label_values(&labels).inc();
        self.reconciles.capi_results.with_label_values(&labels).inc();
        self.reconciles
            .seconds
            .with_label_values(&[self.controller])
            .observe(took.as_secs_f64());
    }

    pub(crate) fn outcome(&self, outcome: &'static str) {
        self.reconciles
            .outcomes
            .with_label_values(&[self.controller, outcome])
            .inc();
    }

    pub(crate) fn failed(&self, category: &'static str, terminal: bool) {
        self.reconciles.errors.with_label_values(&[self.controller]).inc();
        self.reconciles
            .errors_by_category
            .with_label_values(&[self.controller, category])
            .inc();
        if terminal {
            self.reconciles
                .terminal_errors
                .with_label_values(&[self.controller])
                .inc();
        }
    }

    pub(crate) fn panicked(&self) {
        self.reconciles.panics.with_label_values(&[self.controller]).inc();
    }
}

/// One reconcile in flight.
pub(crate) struct Running(prometheus::IntGauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn reconcile_seconds(registry: &Registry) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(
        "controller_runtime_reconcile_time_seconds",
        "Time a reconcile takes.",
    );
    registered(
        registry,
        HistogramVec::new(options.buckets(RECONCILE_SECONDS.to_vec()), &["controller"])?,
    )
}

fn leader(registry: &Registry) -> Result<IntGaugeVec, prometheus::Error> {
    gauges(
        registry,
        "leader_election_master_status",
        "Whether this process holds the lease of that name.",
        &["name"],
    )
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    registered(registry, IntGaugeVec::new(Opts::new(name, help), labels)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_register_once() {
        let registry = Registry::new();
        assert!(Metrics::register(&registry).is_ok());
        assert!(matches!(
            Metrics::register(&registry),
            Err(prometheus::Error::AlreadyReg)
        ));
    }

    #[test]
    fn a_reconcile_is_in_flight_until_its_guard_is_dropped() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry)
            .expect("registers")
            .controller("inmemorymachine", 4);
        let gauge = metrics.reconciles.active.with_label_values(&["inmemorymachine"]);
        let running = metrics.running();
        assert_eq!(gauge.get(), 1);
        drop(running);
        assert_eq!(gauge.get(), 0);
    }
}
