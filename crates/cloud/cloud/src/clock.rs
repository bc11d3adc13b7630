//! The two clocks. Wall time is a [`Timestamp`] and cloud time is a [`SimTime`], so the compiler keeps them apart, and
//! only a [`CloudClock`] converts between them.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use nephele_engine::{Clock, ClockRecord, ClockSetting, CloudTime};
use nephele_model::SimTime;

/// The wall clock: for the validity of certificates, and for the times that API servers write to objects.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of the simulated cloud: for stages, updates and everything else that the engine decides. Published times
/// of the cloud, such as the start of a machine, are wall times that this clock has converted.
#[derive(Clone)]
pub(crate) struct CloudClock {
    wall: WallClock,
    /// The wall time at cloud time zero. It is the same in every process, so that times that were published before a
    /// restart keep their meaning.
    zero: Timestamp,
}

impl CloudClock {
    const ZERO: Timestamp = Timestamp::UNIX_EPOCH;

    /// A clock that runs as fast as the wall clock.
    pub(crate) fn new(wall: WallClock) -> Self {
        Self {
            wall,
            zero: Self::ZERO,
        }
    }

    /// The wall time at a cloud time of any process, also of one that has ended.
    pub(crate) fn published(at: SimTime) -> Timestamp {
        after(Self::ZERO, at)
    }

    pub(crate) fn now(&self) -> SimTime {
        self.at((self.wall)())
    }

    /// The cloud time at a wall time; zero for earlier times.
    pub(crate) fn at(&self, wall: Timestamp) -> SimTime {
        let since = wall.as_millisecond().saturating_sub(self.zero.as_millisecond());
        SimTime::from_millis(u64::try_from(since).unwrap_or(0))
    }

    /// The wall time at a cloud time; the last one for later times.
    pub(crate) fn wall_time(&self, at: SimTime) -> Timestamp {
        after(self.zero, at)
    }

    /// The wall time until a cloud time; zero when it has passed.
    pub(crate) fn until(&self, at: SimTime) -> Duration {
        at.since(self.now())
    }
}

fn after(zero: Timestamp, at: SimTime) -> Timestamp {
    let since = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    let millis = zero.as_millisecond().saturating_add(since);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// The clock of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockObservation {
    /// The setting that was carried out.
    pub setting: ClockSetting,
    /// When the clock last changed.
    pub since: Timestamp,
    /// The time in the cloud then.
    pub time: Timestamp,
}

impl ClockObservation {
    pub(crate) fn new(setting: ClockSetting, clock: &Clock, wall: &CloudClock) -> Self {
        Self {
            setting,
            since: wall.wall_time(clock.since),
            time: instant(clock.time),
        }
    }

    pub(crate) fn record(self, wall: &CloudClock) -> ClockRecord {
        let Self { setting, since, time } = self;
        ClockRecord {
            setting,
            since: wall.at(since),
            time: cloud_time(time),
        }
    }
}

/// The time in a cloud, as an instant.
pub(crate) fn instant(time: CloudTime) -> Timestamp {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

/// The time in a cloud that an instant stands for.
pub(crate) fn cloud_time(at: Timestamp) -> CloudTime {
    CloudTime::from_micros(u64::try_from(at.as_microsecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clock_at(millis: i64) -> CloudClock {
        let now = Timestamp::from_millisecond(millis).expect("within the range of times");
        CloudClock::new(Arc::new(move || now))
    }

    #[test]
    fn times_out_of_range_become_the_nearest_time() {
        let clock = clock_at(-5);
        assert_eq!(clock.now(), SimTime::from_millis(0));
        assert_eq!(clock.wall_time(SimTime::from_millis(u64::MAX)), Timestamp::MAX);
        assert_eq!(clock_at(5_000).until(SimTime::from_millis(4_000)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_published_time_reads_back_as_the_same_cloud_time(millis in 0_u64..200_000_000_000_000) {
            let clock = clock_at(0);
            let at = SimTime::from_millis(millis);
            prop_assert_eq!(clock.at(clock.wall_time(at)), at);
        }
    }
}
