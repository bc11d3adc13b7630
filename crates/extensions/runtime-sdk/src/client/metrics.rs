//! Metrics of calls.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

use crate::hooks::{HookId, ResponseStatus};

/// The buckets of Cluster API: a call takes milliseconds, or a timeout of up to 30 seconds.
const CALL_SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// The metrics of calls. The first two have the names and labels of Cluster API (`internal/runtime/metrics`).
///
/// | metric | labels |
/// |---|---|
/// | `capi_runtime_sdk_requests_total` | `code` (of HTTP, or `<error>`), `host`, `group`, `version`, `hook`, `status` (`Success`, `Failure` or `Unknown`) |
/// | `capi_runtime_sdk_request_duration_seconds` | `host`, `group`, `version`, `hook` |
/// | `capi_runtime_sdk_ignored_errors_total` | `group`, `version`, `hook` |
/// | `capi_runtime_sdk_circuits_open` | |
///
/// The last one is updated with each call or discovery. Version and group are the caller's. There is one host per
/// registered extension; handlers are not a label.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    ignored: IntCounterVec,
    open: IntGauge,
}

impl Metrics {
    /// Declares the metrics in a registry.
    ///
    /// # Errors
    /// When the registry already has a metric of one of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const HOOK: [&str; 3] = ["group", "version", "hook"];
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "capi_runtime_sdk_requests_total",
                    "Calls of extensions by HTTP status, host, hook and status of the response.",
                ),
                &["code", "host", "group", "version", "hook", "status"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "capi_runtime_sdk_request_duration_seconds",
                    "Time that a call of an extension takes, by host and hook.",
                )
                .buckets(CALL_SECONDS.to_vec()),
                &["host", "group", "version", "hook"],
            )?,
            ignored: IntCounterVec::new(
                Opts::new(
                    "capi_runtime_sdk_ignored_errors_total",
                    "Calls without a response that the failure policy of the handler ignored.",
                ),
                &HOOK,
            )?,
            open: IntGauge::new(
                "capi_runtime_sdk_circuits_open",
                "Extensions that are not called for a while, because calls of them keep failing.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.ignored.clone()))?;
        registry.register(Box::new(metrics.open.clone()))?;
        Ok(metrics)
    }

    /// Counts a sent call. The code is `None` when there was no answer.
    pub(crate) fn sent(&self, code: Option<u16>, host: &str, hook: &HookId, status: Option<&ResponseStatus>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        // An extension may send any status, but a label needs a fixed set.
        let status = match status {
            Some(ResponseStatus::Success) => "Success",
            Some(ResponseStatus::Failure) => "Failure",
            Some(ResponseStatus::Other(_)) | None => "Unknown",
        };
        self.requests
            .with_label_values(&[&*code, host, &*hook.group, &*hook.version, &*hook.hook, status])
            .inc();
    }

    /// Records how long a call or an attempt took.
    pub(crate) fn took(&self, host: &str, hook: &HookId, took: Duration) {
        let labels = [host, &*hook.group, &*hook.version, &*hook.hook];
        self.seconds
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn ignored(&self, hook: &HookId) {
        self.ignored
            .with_label_values(&[&*hook.group, &*hook.version, &*hook.hook])
            .inc();
    }

    pub(crate) fn open(&self, circuits: usize) {
        self.open.set(i64::try_from(circuits).unwrap_or(i64::MAX));
    }
}
