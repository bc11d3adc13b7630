use std::time::Duration;

/// Exponential backoff: `base`, doubled with each failure in a row, never more than `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base: Duration,
    pub max: Duration,
}

impl Default for Backoff {
    /// 200 ms, 400 ms … 60 s: after ten failures once a minute.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(200),
            max: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row; the first failure is number 1, and 0 counts as 1.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff {
            base: Duration::from_secs(1),
            max: Duration::from_secs(10),
        };
        let delays: Vec<u64> = (1..=6)
            .map(|failures| backoff.delay(failures).as_secs())
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
    }

    proptest! {
        #[test]
        fn delays_never_shrink_and_stay_within_bounds(
            base_ms in 1u64..10_000,
            max_ms in 1u64..10_000_000,
            failures in 0u32..u32::MAX - 1,
        ) {
            let backoff = Backoff { base: Duration::from_millis(base_ms), max: Duration::from_millis(max_ms) };
            let delay = backoff.delay(failures);
            prop_assert!(delay <= backoff.max);
            prop_assert!(delay >= backoff.base.min(backoff.max));
            prop_assert!(backoff.delay(failures + 1) >= delay);
        }
    }
}
