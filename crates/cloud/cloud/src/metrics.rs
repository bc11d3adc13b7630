//! The metrics of the cloud.

use std::time::Duration;

use nephele_apiserver::{RequestInfo, RequestObserver};
use nephele_engine::Outcome;
use nephele_etcd::CallObserver;
use nephele_model::Stage;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector, exponential_buckets,
};

use crate::operation_times::OperationTime;

/// The cloud's metrics, registered once.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    etcd_calls: IntCounterVec,
    etcd_seconds: HistogramVec,
    operations: IntCounterVec,
    operation_seconds: HistogramVec,
    stages_reached: IntGaugeVec,
    pub(crate) clusters: IntGauge,
    machines: IntGauge,
    pub(crate) connections: IntGauge,
    pub(crate) connections_held: IntGauge,
    pub(crate) tunnels: IntGauge,
    /// How long the engine's lock is held each time.
    pub(crate) engine_lock_seconds: Histogram,
    state_commit_seconds: Histogram,
    state_commit_failures: IntCounter,
    state_bytes: IntGauge,
}

/// 0.1 s to 2 h, in steps of two to three: stages of tests take less than seconds, virtual machines a minute or two, slow
/// clouds and bare metal up to an hour. What takes no time is below the first one.
const OPERATION_BUCKETS: [f64; 12] = [
    0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 7_200.0,
];

/// Resources that appear under their own name. All others count as `other`, because clients can define any kind.
const RESOURCES: [&str; 20] = [
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "endpoints",
    "events",
    "leases",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "replicasets",
    "secrets",
    "serviceaccounts",
    "services",
    "volumeattachments",
];

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name, help, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        Ok(Self {
            requests: counters(
                "nephele_workload_requests_total",
                "Requests answered by workload API servers.",
                &["verb", "resource", "code"],
            )?,
            request_seconds: registered(registry, request_seconds()?)?,
            etcd_calls: counters(
                "nephele_workload_etcd_calls_total",
                "Calls answered by workload etcd members.",
                &["method", "code"],
            )?,
            etcd_seconds: registered(registry, etcd_seconds()?)?,
            operations: counters(
                "nephele_cloud_operations_total",
                "Operations of the simulated cloud, by what came of them: Accepted, AlreadyDone, Delayed, or the reason of a \
                 refusal.",
                &["operation", "outcome"],
            )?,
            operation_seconds: registered(registry, operation_seconds()?)?,
            stages_reached: registered(registry, stages_reached()?)?,
            clusters: gauge("nephele_clusters", "Simulated clusters.")?,
            machines: gauge("nephele_machines", "Simulated machines.")?,
            connections: gauge(
                "nephele_workload_connections",
                "Open connections to workload API servers.",
            )?,
            connections_held: gauge(
                "nephele_workload_connections_held",
                "Connections that wait for their control plane's first backend.",
            )?,
            tunnels: gauge(
                "nephele_workload_tunnels",
                "Open port-forwards into simulated clusters.",
            )?,
            engine_lock_seconds: registered(registry, Histogram::with_opts(engine_lock_seconds())?)?,
            state_commit_seconds: registered(registry, Histogram::with_opts(state_commit_seconds()?)?)?,
            state_commit_failures: registered(
                registry,
                IntCounter::new(
                    "nephele_state_commit_failures_total",
                    "Attempts to write to the state file that failed. While they do, simulated clusters refuse changes.",
                )?,
            )?,
            state_bytes: gauge("nephele_state_bytes", "Size of the state file.")?,
        })
    }
}

fn request_seconds() -> Result<HistogramVec, prometheus::Error> {
    let options = answers(
        "nephele_workload_request_seconds",
        "Time to answer a request of a workload API server.",
    )?;
    HistogramVec::new(options, &["verb"])
}

fn etcd_seconds() -> Result<HistogramVec, prometheus::Error> {
    let options = answers(
        "nephele_workload_etcd_call_seconds",
        "Time to answer a call of a workload etcd member.",
    )?;
    HistogramVec::new(options, &["method"])
}

fn state_commit_seconds() -> Result<HistogramOpts, prometheus::Error> {
    answers(
        "nephele_state_commit_seconds",
        "Time to write and synchronise the changes of simulated clusters to the state file.",
    )
}

/// 50 µs to 1.6 s: an answer takes microseconds, a held request seconds.
fn answers(name: &str, help: &str) -> Result<HistogramOpts, prometheus::Error> {
    Ok(HistogramOpts::new(name, help).buckets(exponential_buckets(0.000_05, 4.0, 9)?))
}

fn operation_seconds() -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(
        "nephele_operation_seconds",
        "How long operations of the simulated cloud took, in seconds of the cloud: from when a creation or deletion was \
         accepted until a stage was reached, or until nothing was left to be done (all).",
    );
    HistogramVec::new(options.buckets(OPERATION_BUCKETS.into()), &["verb", "stage"])
}

fn stages_reached() -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(
        Opts::new(
            "nephele_machine_stages_reached",
            "Machines that have reached a stage.",
        ),
        &["stage"],
    )
}

fn engine_lock_seconds() -> HistogramOpts {
    HistogramOpts::new(
        "nephele_engine_lock_seconds",
        "How long the lock of the simulated cloud's engine was held each time.",
    )
    .buckets(vec![
        0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03,
    ])
}

/// Registers a metric and returns it.
fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
    /// Counts an operation. Names and reasons are from fixed sets: some thirty operations, some twenty outcomes.
    pub(crate) fn count_operation(&self, operation: &str, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Accepted => "Accepted",
            Outcome::AlreadyDone => "AlreadyDone",
            Outcome::Delayed { .. } => "Delayed",
            Outcome::Refused(error) => error.category(),
        };
        self.operations.with_label_values(&[operation, outcome]).inc();
    }

    /// Counts how long an operation took. There are eight series: four verbs, one of them with four stages.
    pub(crate) fn observe_operation(&self, OperationTime { verb, stage, time }: &OperationTime) {
        let stage = stage.map_or("all", Stage::as_str);
        self.operation_seconds
            .with_label_values(&[verb.as_str(), stage])
            .observe(time.as_secs_f64());
    }

    /// Sets the number of machines, and how many have reached each stage.
    pub(crate) fn count_machines(&self, machines: u64, reached: impl Iterator<Item = (Stage, u64)>) {
        let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.machines.set(gauge(machines));
        for (stage, count) in reached {
            self.stages_reached
                .with_label_values(&[stage.as_str()])
                .set(gauge(count));
        }
    }
}

impl RequestObserver for Metrics {
    fn observe(&self, request: &RequestInfo, code: u16, duration: Duration) {
        let resource = match request.resource.as_str() {
            "" => "none",
            name => RESOURCES
                .iter()
                .copied()
                .find(|known| *known == name)
                .unwrap_or("other"),
        };
        self.requests
            .with_label_values(&[request.verb, resource, &code.to_string()])
            .inc();
        self.request_seconds
            .with_label_values(&[request.verb])
            .observe(duration.as_secs_f64());
    }
}

impl nephele_state::Observer for Metrics {
    fn committed(&self, took: Duration, file_bytes: u64) {
        self.state_commit_seconds.observe(took.as_secs_f64());
        self.state_bytes
            .set(i64::try_from(file_bytes).unwrap_or(i64::MAX));
    }

    fn failed(&self) {
        self.state_commit_failures.inc();
    }
}

impl CallObserver for Metrics {
    fn observe(&self, method: &'static str, code: &'static str, duration: Duration) {
        self.etcd_calls.with_label_values(&[method, code]).inc();
        self.etcd_seconds
            .with_label_values(&[method])
            .observe(duration.as_secs_f64());
    }
}

/// Counts one on a gauge while this value lives. A guard, because a task may be dropped at any await.
pub(crate) struct Counted<'a>(&'a IntGauge);

impl<'a> Counted<'a> {
    pub(crate) fn new(gauge: &'a IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
