//! The metrics of the webhooks.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// A call takes less than a millisecond, unless its handler calls the API server.
const CALL_SECONDS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.01, 0.05, 0.1, 0.5, 2.0, 10.0];

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    Converted,
    NotConverted,
    Malformed,
    TooLarge,
    Refused,
    TimedOut,
    Panicked,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Converted => "converted",
            Self::NotConverted => "not_converted",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

/// The metrics of the webhooks. Metrics that controller-runtime has too have the same names (controller-runtime,
/// `pkg/webhook/internal/metrics`, `pkg/webhook/admission/metrics`, `pkg/certwatcher/metrics`).
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    panics: IntCounter,
    seconds: HistogramVec,
    outcomes: IntCounterVec,
    expiry: IntGauge,
    certificate_reads: IntCounter,
    certificate_errors: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// When the registry already has a metric of one of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "controller_runtime_webhook_requests_total",
                    "Calls by webhook and HTTP status.",
                ),
                &["webhook", "code"],
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "controller_runtime_webhook_requests_in_flight",
                    "Calls not answered yet, by webhook.",
                ),
                &["webhook"],
            )?,
            panics: IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Panics of webhooks that were caught.",
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "controller_runtime_webhook_latency_seconds",
                    "Time a call takes, by webhook.",
                )
                .buckets(CALL_SECONDS.to_vec()),
                &["webhook"],
            )?,
            outcomes: IntCounterVec::new(
                Opts::new("nephele_webhook_outcomes_total", "Calls by webhook and outcome."),
                &["webhook", "outcome"],
            )?,
            expiry: IntGauge::new(
                "nephele_webhook_certificate_expiry_timestamp_seconds",
                "When the served certificate expires; zero while there is none.",
            )?,
            certificate_reads: IntCounter::new(
                "certwatcher_read_certificate_total",
                "Attempts to read the certificate to serve.",
            )?,
            certificate_errors: IntCounter::new(
                "certwatcher_read_certificate_errors_total",
                "Failed attempts to read the certificate to serve.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.outcomes.clone()))?;
        registry.register(Box::new(metrics.expiry.clone()))?;
        registry.register(Box::new(metrics.certificate_reads.clone()))?;
        registry.register(Box::new(metrics.certificate_errors.clone()))?;
        Ok(metrics)
    }

    /// Counts a call as in flight until the guard is dropped.
    pub(crate) fn calling(&self, path: &str) -> InFlight {
        let gauge = self.in_flight.with_label_values(&[path]);
        gauge.inc();
        InFlight(gauge)
    }

    /// Counts a call. Only served paths become labels.
    pub(crate) fn called(&self, path: &str, code: u16, outcome: Outcome, took: Duration) {
        self.requests.with_label_values(&[path, &code.to_string()]).inc();
        self.seconds
            .with_label_values(&[path])
            .observe(took.as_secs_f64());
        self.outcomes.with_label_values(&[path, outcome.as_str()]).inc();
        if outcome == Outcome::Panicked {
            self.panics.inc();
        }
    }

    /// Counts an attempt to read the certificate.
    pub(crate) fn read_certificate(&self, can_be_served: bool) {
        self.certificate_reads.inc();
        if !can_be_served {
            self.certificate_errors.inc();
        }
    }

    pub(crate) fn expires(&self, second: i64) {
        self.expiry.set(second);
    }
}

/// A call in flight. It is also dropped when the client disconnects before the answer.
pub(crate) struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
