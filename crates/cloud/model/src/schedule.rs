//! Windows in which a fault is in force.
//!
//! ```text
//!   began ──offset──▶ │ window 1, for │      │ window 2, for │      │ window 3 …
//!                     └──────── every ───────┘
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::SimTime;

/// The shortest time for which a kubelet reports or is silent in turn, and for which a fault is in force or not. Each turn
/// writes the Node.
pub const TURN_MIN: Duration = Duration::from_secs(1);

/// When a fault is in force. The times count from when the fault began, so that a restart shifts no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The time from the begin of a window to the begin of the next one. 0 counts as 1 ms.
    pub every: Duration,
    /// How long a window lasts.
    pub lasts: Duration,
    /// The time until the first window.
    pub offset: Duration,
}

/// A window, or the time after it until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many windows have begun. 0 before the first one.
    pub number: u64,
    /// Whether the last one that has begun is not over.
    pub is_open: bool,
}

impl Window {
    /// That of a fault without a schedule.
    pub(crate) const ALWAYS: Self = Self {
        number: 0,
        is_open: true,
    };
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Schedule {
    /// The window at a time.
    pub(crate) fn window(&self, began: SimTime, now: SimTime) -> Window {
        let Some(passed) = self.passed(began, now) else {
            return Window {
                number: 0,
                is_open: false,
            };
        };
        let every = millis(self.every).max(1);
        Window {
            number: passed / every + 1,
            is_open: passed % every < millis(self.lasts),
        }
    }

    /// When the window of a number began, counted from 1.
    #[must_use]
    pub fn begin(&self, began: SimTime, number: u64) -> SimTime {
        let passed = millis(self.every).max(1).saturating_mul(number.saturating_sub(1));
        began + self.offset + Duration::from_millis(passed)
    }

    /// When the next window begins or the present one ends, after a time. None if that never happens.
    pub(crate) fn next_change(&self, began: SimTime, now: SimTime) -> Option<SimTime> {
        let Some(passed) = self.passed(began, now) else {
            return Some(began + self.offset);
        };
        let every = millis(self.every).max(1);
        let lasts = millis(self.lasts);
        let into = passed % every;
        let left = if into < lasts.min(every) {
            lasts.min(every) - into
        } else {
            every - into
        };
        // A sum that does not fit is a time that is never reached.
        let next = now.as_millis().checked_add(left)?;
        Some(SimTime::from_millis(next))
    }

    /// The milliseconds since the first window began. None before.
    fn passed(&self, began: SimTime, now: SimTime) -> Option<u64> {
        let first = began + self.offset;
        (first <= now).then(|| now.as_millis() - first.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(millis: u64) -> SimTime {
        SimTime::from_millis(millis)
    }

    fn schedule(every: u64, lasts: u64, offset: u64) -> Schedule {
        let [every, lasts, offset] = [every, lasts, offset].map(Duration::from_millis);
        Schedule { every, lasts, offset }
    }

    #[test]
    fn windows_come_at_their_times() {
        let schedule = schedule(600, 60, 30);
        let seen = [0, 129, 130, 189, 190, 729, 730, 790].map(|now| {
            let Window { number, is_open } = schedule.window(at(100), at(now));
            (
                number,
                is_open,
                schedule.next_change(at(100), at(now)).map(SimTime::as_millis),
            )
        });
        let expected = [
            (0, false, 130),
            (0, false, 130),
            (1, true, 190),
            (1, true, 190),
            (1, false, 730),
            (1, false, 730),
            (2, true, 790),
            (2, false, 1330),
        ];
        assert_eq!(
            seen,
            expected.map(|(number, is_open, next)| (number, is_open, Some(next)))
        );
    }

    proptest! {
        /// Between two changes nothing changes, and each change is one.
        #[test]
        fn window_is_the_same_until_the_next_change(
            every in 2u64..100, lasts in 1u64..100, offset in 0u64..100, began in 0u64..100, now in 0u64..1_000,
        ) {
            let schedule = schedule(every, lasts.min(every - 1), offset);
            let window = |now| schedule.window(at(began), at(now));
            let next = schedule.next_change(at(began), at(now)).expect("soon").as_millis();
            prop_assert!(next > now);
            prop_assert!((now..next).all(|between| window(between) == window(now)));
            prop_assert_ne!(window(next).is_open, window(now).is_open);
        }

        #[test]
        fn no_number_makes_it_panic(every: u64, lasts: u64, offset: u64, began: u64, now: u64) {
            let schedule = schedule(every, lasts, offset);
            let _ = (schedule.window(at(began), at(now)), schedule.next_change(at(began), at(now)));
        }
    }
}
