//! Metrics of served calls.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// A handler answers in less than a millisecond, or calls another service. 30 s is the longest timeout.
const CALL_SECONDS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The handler succeeded.
    Success,
    /// The caller has to call again.
    Retry,
    /// The handler failed.
    Failure,
    Panicked,
    /// The body is not a request.
    Malformed,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive completely.
    Unread,
    /// The body did not arrive in time.
    Slow,
    /// There is no room for it.
    Refused,
    /// The caller's timeout passed.
    TimedOut,
    /// The response cannot be written as JSON.
    Unwritten,
}

impl Outcome {
    const ALL: [Self; 11] = [
        Self::Success,
        Self::Retry,
        Self::Failure,
        Self::Panicked,
        Self::Malformed,
        Self::TooLarge,
        Self::Unread,
        Self::Slow,
        Self::Refused,
        Self::TimedOut,
        Self::Unwritten,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Retry => "retry",
            Self::Failure => "failure",
            Self::Panicked => "panicked",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Unread => "unread",
            Self::Slow => "slow",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Unwritten => "unwritten",
        }
    }
}

/// The metrics of an extension. Every label is from a fixed set: registered hooks and handlers.
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: IntCounterVec,
    seconds: HistogramVec,
    in_flight: IntGaugeVec,
    reloads: IntCounterVec,
}

impl Metrics {
    /// Declares the metrics in a registry.
    ///
    /// # Errors
    /// When the registry already has a metric of one of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self::unregistered()?;
        registry.register(Box::new(metrics.calls.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.reloads.clone()))?;
        Ok(metrics)
    }

    /// Metrics that are not exported.
    pub(super) fn unregistered() -> Result<Self, prometheus::Error> {
        Ok(Self {
            calls: IntCounterVec::new(
                Opts::new(
                    "capi_runtime_extension_calls_total",
                    "Served calls by group, hook, handler and outcome.",
                ),
                &["group", "hook", "handler", "outcome"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "capi_runtime_extension_call_duration_seconds",
                    "Time from the head of a request to its response, by group, hook and handler.",
                )
                .buckets(CALL_SECONDS.to_vec()),
                &["group", "hook", "handler"],
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "capi_runtime_extension_calls_in_flight",
                    "Calls being served, by group, hook and handler.",
                ),
                &["group", "hook", "handler"],
            )?,
            reloads: IntCounterVec::new(
                Opts::new(
                    "capi_runtime_extension_certificate_reloads_total",
                    "Reloads of changed certificate files, by result.",
                ),
                &["result"],
            )?,
        })
    }

    /// The metrics of a handler, looked up once, not on each call.
    pub(super) fn of(&self, group: &str, hook: &str, handler: &str) -> HandlerMetrics {
        let labels = [group, hook, handler];
        HandlerMetrics {
            calls: Outcome::ALL.map(|outcome| {
                self.calls
                    .with_label_values(&[group, hook, handler, outcome.as_str()])
            }),
            seconds: self.seconds.with_label_values(&labels),
            in_flight: self.in_flight.with_label_values(&labels),
        }
    }

    pub(super) fn reloaded(&self, taken: bool) {
        self.reloads
            .with_label_values(&[if taken { "taken" } else { "failed" }])
            .inc();
    }
}

/// The metrics of a handler.
#[derive(Clone, Debug)]
pub(super) struct HandlerMetrics {
    calls: [IntCounter; Outcome::ALL.len()],
    seconds: Histogram,
    in_flight: IntGauge,
}

impl HandlerMetrics {
    /// Counts a call as in flight until it is dropped.
    pub(super) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(super) fn ended(&self, outcome: Outcome, took: Duration) {
        self.calls[outcome as usize].inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

pub(super) struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
