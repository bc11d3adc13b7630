//! A circuit breaker: suspends calls of an extension that does not answer.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use tokio::time::Instant;

/// When calls of an extension are suspended, and for how long.
///
/// The Runtime SDK proposal asks callers to back off from a failing extension, so that it is not overrun while it
/// recovers. After `failures` failed calls in a row the extension is not called for `wait`. Each further failure
/// doubles the wait, up to `wait_max`. After each wait, one call is let through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitSettings {
    /// The number of failures in a row, at least 1.
    pub failures: u32,
    pub wait: Duration,
    pub wait_max: Duration,
    /// The most random time that is added to a wait, as a fraction of it: callers that failed together should not
    /// retry together.
    pub jitter: f64,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            failures: 5,
            wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(60),
            jitter: 0.2,
        }
    }
}

impl CircuitSettings {
    /// Never suspends calls, as in Cluster API.
    #[must_use]
    pub fn never() -> Self {
        Self {
            failures: u32::MAX,
            ..Self::default()
        }
    }

    /// The wait after this many failures in a row; `key` seeds the random part.
    fn wait_after(&self, failures: u32, key: &str) -> Duration {
        let doublings = failures.saturating_sub(self.failures).min(31);
        let wait = self.wait.saturating_mul(1 << doublings).min(self.wait_max);
        let mut hasher = DefaultHasher::new();
        (key, failures).hash(&mut hasher);
        // 32 bits of the hash are random enough, and an f64 holds them exactly.
        let draw = f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX);
        let jitter = if self.jitter.is_finite() {
            self.jitter.clamp(0.0, 1.0)
        } else {
            0.0
        };
        wait.mul_f64(1.0 + jitter * draw)
    }
}

/// The state of an extension's circuit: whether the extension is called now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    /// The extension is called.
    #[default]
    Closed,
    /// The extension is called, though the last calls failed.
    Failing {
        /// The number of failed calls.
        failures: u32,
    },
    /// The extension is not called.
    Open {
        /// The number of failed calls in a row.
        failures: u32,
        /// The end of the wait. The first call after it is let through.
        until: Instant,
        /// The error of the last failed call.
        cause: String,
    },
}

impl Circuit {
    /// How long a call that was let through can block the next one. It is the longest timeout that a handler can have.
    const PROBE: Duration = Duration::from_secs(30);

    /// Whether a call may be made. After a wait, one call is let through. The next is refused until that one ends, or
    /// for 30 seconds.
    ///
    /// # Errors
    /// The last failure, if the call may not be made.
    pub fn admit(&mut self, now: Instant) -> Result<(), String> {
        match self {
            Self::Open { until, cause, .. } if now < *until => Err(cause.clone()),
            Self::Open { until, .. } => {
                *until = now + Self::PROBE;
                Ok(())
            }
            Self::Closed | Self::Failing { .. } => Ok(()),
        }
    }

    /// Records a call that was answered.
    pub fn succeeded(&mut self) {
        *self = Self::Closed;
    }

    /// Records a call that failed.
    pub fn failed(&mut self, now: Instant, settings: &CircuitSettings, key: &str, cause: &str) {
        let failures = match self {
            Self::Closed => 1,
            Self::Failing { failures } | Self::Open { failures, .. } => failures.saturating_add(1),
        };
        *self = if failures < settings.failures.max(1) {
            Self::Failing { failures }
        } else {
            let until = now + settings.wait_after(failures, key);
            Self::Open {
                failures,
                until,
                cause: cause.to_owned(),
            }
        };
    }

    /// Whether calls of the extension are suspended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXACT: CircuitSettings = CircuitSettings {
        failures: 3,
        wait: Duration::from_secs(1),
        wait_max: Duration::from_secs(5),
        jitter: 0.0,
    };

    #[test]
    fn waits_double_up_to_the_longest_and_one_call_is_let_through_after_each() {
        let mut now = Instant::now();
        let mut circuit = Circuit::default();
        for _ in 0..2 {
            circuit.admit(now).unwrap();
            circuit.failed(now, &EXACT, "e", "refused");
        }
        assert_eq!(circuit, Circuit::Failing { failures: 2 });
        circuit.failed(now, &EXACT, "e", "refused");
        for (failures, wait) in [(3, 1), (4, 2), (5, 4), (6, 5), (7, 5)] {
            let wait = Duration::from_secs(wait);
            assert_eq!(
                circuit,
                Circuit::Open {
                    failures,
                    until: now + wait,
                    cause: "refused".into()
                }
            );
            assert_eq!(
                circuit.admit(now + wait - Duration::from_millis(1)),
                Err("refused".to_owned())
            );
            now += wait;
            assert_eq!(circuit.admit(now), Ok(()));
            assert_eq!(
                circuit.admit(now),
                Err("refused".to_owned()),
                "only one is let through"
            );
            circuit.failed(now, &EXACT, "e", "refused");
        }
        circuit.admit(now + Duration::from_secs(5)).unwrap();
        circuit.succeeded();
        assert_eq!(circuit, Circuit::Closed);
    }

    #[test]
    fn a_probe_that_never_ended_does_not_shut_the_circuit_for_ever() {
        let now = Instant::now();
        let mut circuit = Circuit::Open {
            failures: 3,
            until: now,
            cause: "slow".into(),
        };
        assert_eq!(circuit.admit(now), Ok(()));
        assert_eq!(
            circuit.admit(now + Duration::from_secs(29)),
            Err("slow".to_owned())
        );
        assert_eq!(circuit.admit(now + Duration::from_secs(30)), Ok(()));
    }

    #[test]
    fn never_means_that_it_is_called_however_often_it_fails() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        for _ in 0..1000 {
            circuit.failed(now, &CircuitSettings::never(), "e", "refused");
        }
        assert!(!circuit.is_open());
    }

    proptest! {
        #[test]
        fn jitter_lengthens_a_wait_by_at_most_its_own_length(
            failures in 0..10_000_u32, jitter in -1.0..3.0_f64, key in ".{0,8}",
        ) {
            let settings = CircuitSettings { jitter, ..EXACT };
            let exact = EXACT.wait_after(failures, &key);
            let wait = settings.wait_after(failures, &key);
            prop_assert!(exact <= wait && wait <= exact.mul_f64(2.0), "{wait:?}");
            prop_assert!(exact <= EXACT.wait_max);
        }
    }
}
