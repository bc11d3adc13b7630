//! How often the operations of a cloud may be called, and how soon reads show what was created.

use std::time::Duration;

use nephele_model::{CallRate, ResourceId, SimTime};
use serde::{Deserialize, Serialize};

/// What the interface of a cloud does to its callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiLimits {
    /// How often operations may be called. None means any number of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallRate>,
    /// How long after its creation a resource does not show in reads, in the engine's time.
    #[serde(rename = "read_lag")]
    pub read_after_write_lag: Duration,
}

impl ApiLimits {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The longest time after which a refused caller is told to retry.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The calls of a cloud so far: the generic cell rate algorithm (ITU-T I.371), which keeps one number instead of a
/// count that has to be refilled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// When the calls so far would be over at the average rate, in microseconds since the Unix epoch.
    busy_until: u64,
    /// The last time at which a refused caller was told to retry, in microseconds since the Unix epoch.
    last_slot: u64,
}

impl Calls {
    /// Counts a call, or refuses it and returns when to retry. Each refused caller is told another time, so that
    /// those who were refused together do not retry together.
    pub(crate) fn take(&mut self, rate: CallRate, at: SimTime) -> Result<(), Duration> {
        let now = at.as_millis().saturating_mul(1000);
        let interval = rate.interval();
        let tolerance = rate.tolerance();
        // Calls are never further ahead than this, unless the wall clock was set back.
        let furthest = now.saturating_add(tolerance).saturating_add(interval);
        let busy_until = self.busy_until.clamp(now, furthest);
        if busy_until - now <= tolerance {
            self.busy_until = busy_until.saturating_add(interval);
            return Ok(());
        }
        // Otherwise it would be as far ahead at each call, and refuse all of them until the clock is where it was.
        self.busy_until = busy_until;
        let latest = now.saturating_add(u64::try_from(RETRY_MAX.as_micros()).unwrap_or(u64::MAX));
        let free = busy_until - tolerance;
        let known = Some(self.last_slot)
            .filter(|slot| *slot <= latest)
            .unwrap_or_default();
        self.last_slot = free.max(known.saturating_add(interval)).min(latest);
        // The engine counts in milliseconds.
        Err(Duration::from_millis((self.last_slot - now).div_ceil(1000)))
    }
}

/// The calls of a cloud, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCalls {
    pub id: ResourceId,
    pub calls: Calls,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> SimTime {
        SimTime::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_burst_passes_and_then_one_call_at_each_interval() {
        let rate = CallRate {
            per_second: 2,
            burst: 3,
        };
        let mut calls = Calls::default();
        let taken: Vec<_> = (0..4).map(|_| calls.take(rate, at(0))).collect();
        assert_eq!(taken, [Ok(()), Ok(()), Ok(()), Err(Duration::from_millis(500))]);
        assert_eq!(calls.take(rate, at(499)), Err(Duration::from_millis(501)));
        assert_eq!(calls.take(rate, at(500)), Ok(()));
        // After a long time without calls, the burst is there again.
        let taken: Vec<_> = (0..4).map(|_| calls.take(rate, at(60_000)).is_ok()).collect();
        assert_eq!(taken, [true, true, true, false]);
    }

    #[test]
    fn refused_callers_retry_one_after_the_other_and_each_is_served() {
        let rate = CallRate {
            per_second: 10,
            burst: 1,
        };
        let mut calls = Calls::default();
        assert_eq!(calls.take(rate, at(0)), Ok(()));
        let told: Vec<_> = (0..5).map(|_| calls.take(rate, at(0)).unwrap_err()).collect();
        assert_eq!(told, [100, 200, 300, 400, 500].map(Duration::from_millis));
        assert!(told.iter().all(|told| calls.take(rate, at(0) + *told).is_ok()));
    }

    proptest! {
        /// No caller waits longer than the longest time that a caller is told, wherever the wall clock was before.
        #[test]
        fn a_clock_that_is_set_back_keeps_no_caller_waiting(
            per_second in 1_u32..1000,
            burst in 1_u32..50,
            calls_before in 1_usize..300,
            back in 0_u64..10_000_000,
        ) {
            let rate = CallRate { per_second, burst };
            let mut calls = Calls::default();
            for _ in 0..calls_before {
                let _ = calls.take(rate, at(back));
            }
            // As a caller does: it waits as long as it is told, and asks again.
            let mut now = 0;
            while let Err(told) = calls.take(rate, at(now)) {
                now += u64::try_from(told.as_millis()).expect("a minute at most");
                prop_assert!(now <= 60_000, "{now} ms later it is still refused");
            }
        }

        /// Whatever the callers do, no more calls pass in any span of time than the rate and the burst allow, and a
        /// caller that waits as long as it was told, without other calls, is served.
        #[test]
        fn no_more_calls_pass_than_the_rate_allows(
            per_second in 1_u32..1000,
            burst in 1_u32..50,
            waits in proptest::collection::vec(0_u64..400, 1..300),
        ) {
            let rate = CallRate { per_second, burst };
            let mut calls = Calls::default();
            let mut now = 0;
            let mut passed = Vec::new();
            for wait in waits {
                now += wait;
                match calls.take(rate, at(now)) {
                    Ok(()) => passed.push(now),
                    Err(told) => {
                        prop_assert!(told > Duration::ZERO && told <= RETRY_MAX);
                        prop_assert!(calls.clone().take(rate, at(now) + told).is_ok() || told == RETRY_MAX);
                    }
                }
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let allowed = u64::from(burst) + (to - from) * 1000 / rate.interval() + 1;
                    prop_assert!((last - first + 1) as u64 <= allowed);
                }
            }
        }
    }
}
