//! Percentiles. Pure.

use std::time::Duration;

use serde::Serialize;

/// How times are distributed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Percentiles {
    /// The distribution of the times; `None` without times.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let max = times.last().copied()?;
        let at = |percent| seconds(nearest_rank(&times, percent));
        Some(Self {
            count: times.len(),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: seconds(max),
        })
    }
}

/// The smallest time that is not exceeded by this percentage of the times (nearest rank), so it is one that was seen.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Seconds, to the millisecond: a client sees nothing more precise.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_of_hundred_times_are_their_numbers() {
        let times = (1..=100).rev().map(Duration::from_secs).collect();
        let expected = Percentiles {
            count: 100,
            p50: 50.0,
            p90: 90.0,
            p99: 99.0,
            max: 100.0,
        };
        assert_eq!(Percentiles::of(times), Some(expected));
        let one = Percentiles {
            count: 1,
            p50: 2.5,
            p90: 2.5,
            p99: 2.5,
            max: 2.5,
        };
        assert_eq!(Percentiles::of(vec![Duration::from_millis(2_500)]), Some(one));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn percentile_is_a_time_that_enough_times_do_not_exceed(
            mut times in prop::collection::vec(0_u64..10_000, 1..300), percent in 1_usize..=100,
        ) {
            times.sort_unstable();
            let sorted: Vec<_> = times.iter().copied().map(Duration::from_millis).collect();
            let found = nearest_rank(&sorted, percent);
            let below = sorted.iter().filter(|time| **time < found).count();
            let up_to = sorted.iter().filter(|time| **time <= found).count();
            prop_assert!(sorted.contains(&found));
            prop_assert!(up_to * 100 >= percent * sorted.len());
            prop_assert!(below * 100 < percent * sorted.len());
        }

        #[test]
        fn order_of_the_times_does_not_matter(
            times in prop::collection::vec(0_u64..10_000, 0..50).prop_flat_map(|times| {
                (Just(times.clone()), Just(times).prop_shuffle())
            }),
        ) {
            let of = |times: Vec<u64>| Percentiles::of(times.into_iter().map(Duration::from_millis).collect());
            prop_assert_eq!(of(times.0), of(times.1));
        }
    }
}
