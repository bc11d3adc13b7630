//! The clocks of clouds: how fast time passes for their instances.
//!
//! ```text
//!   stages, updates, deletions ──▶ end at a time of the cloud ──clock──▶ deadline on the engine's line of time
//!   PutCatalog with another clock ──▶ the ends stay, the deadlines are computed again
//! ```
//!
//! What is drawn is a duration in the time of the cloud, and its end is kept in that time. A change of the clock moves
//! only the deadline that belongs to the end. So nothing is rounded twice, and the order of the ends never changes.

use std::time::Duration;

use nephele_model::{ResourceId, SimTime};
use serde::{Deserialize, Serialize};

/// An instant in the time of a cloud: microseconds, which is a thousandth of the engine's unit, because the clock of a
/// cloud may be slow. It equals the engine's time until the clock is changed for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CloudTime(u64);

impl CloudTime {
    /// The instant `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time that has passed since an earlier instant.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This instant and whole milliseconds of a duration: the engine counts in them.
    pub(crate) fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis.saturating_mul(1000)))
    }
}

impl From<SimTime> for CloudTime {
    /// The same instant on a clock that was never changed.
    fn from(at: SimTime) -> Self {
        Self(at.as_millis().saturating_mul(1000))
    }
}

/// How fast the time of a cloud passes, in millionths of the engine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate(u64);

impl Rate {
    /// As fast as the engine's time.
    pub const ONE: Self = Self(1_000_000);

    /// A rate in millionths, from 1 on: time never stands still without a pause.
    #[must_use]
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(if millionths == 0 { 1 } else { millionths })
    }

    /// The rate in millionths.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }
}

impl Default for Rate {
    fn default() -> Self {
        Self::ONE
    }
}

/// What is wanted of the clock of a cloud. It concerns instances: load balancers take no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSetting {
    pub rate: Rate,
    /// Whether it stands still: then no stage, update or deletion ends.
    pub is_paused: bool,
    /// A counter. Each increase while it is paused lets one stage, update or deletion end: the one that would be next.
    pub steps: u64,
    /// A total. Each increase lets that much time pass at once, also while it is paused.
    pub ahead: Duration,
}

impl ClockSetting {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What an earlier process had done about the clock of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// The setting that it had last carried out.
    pub setting: ClockSetting,
    /// When the clock last changed.
    pub since: SimTime,
    /// The time of the cloud then.
    pub time: CloudTime,
}

/// A clock that was changed at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    pub since: SimTime,
    /// The time of the cloud then.
    pub time: CloudTime,
    /// How fast it has run since then.
    pub rate: Rate,
    /// Whether it has stood still since then.
    pub is_paused: bool,
    /// How many more stages, updates and deletions end although it stands still.
    pub steps: u64,
}

/// A clock with the name of its cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedClock {
    pub id: ResourceId,
    pub clock: Clock,
}

impl Clock {
    /// A clock that runs with the engine's time from now on.
    pub(crate) fn new(now: SimTime) -> Self {
        Self {
            since: now,
            time: now.into(),
            rate: Rate::ONE,
            is_paused: false,
            steps: 0,
        }
    }

    /// The time of the cloud at an instant. Before the last change it counts back at rate 1, because what the clock was
    /// before is not known.
    #[must_use]
    pub fn time(&self, now: SimTime) -> CloudTime {
        if now < self.since {
            let back = CloudTime::from(self.since)
                .0
                .saturating_sub(CloudTime::from(now).0);
            return CloudTime(self.time.0.saturating_sub(back));
        }
        let rate = if self.is_paused { 0 } else { self.rate.0 };
        let passed = u128::from(now.as_millis() - self.since.as_millis()) * u128::from(rate) / 1000;
        CloudTime(
            self.time
                .0
                .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)),
        )
    }

    /// When the cloud has a time. None while the clock stands still before that time.
    pub(crate) fn when(&self, ends: CloudTime) -> Option<SimTime> {
        let left = u128::from(ends.0.saturating_sub(self.time.0));
        if self.is_paused {
            return (ends < self.time).then_some(self.since);
        }
        let millis = (left * 1000).div_ceil(u128::from(self.rate.0));
        Some(self.since + Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// The end of something that begins now: what begins while the clock stands still does not end, even if it takes no
    /// time.
    pub(crate) fn hold(&self, ends: CloudTime) -> CloudTime {
        if self.is_paused { ends.max(self.time) } else { ends }
    }

    /// Changes the clock. It continues from the time that it has now, also while the wall clock is set back.
    pub(crate) fn set(&mut self, now: SimTime, from: &ClockSetting, to: &ClockSetting) {
        self.time = self.time(now);
        self.since = now;
        (self.rate, self.is_paused) = (to.rate, to.is_paused);
        let steps = to.steps.saturating_sub(from.steps);
        self.steps = if to.is_paused {
            self.steps.saturating_add(steps)
        } else {
            0
        };
    }

    /// Lets time pass at once. One microsecond more, so that what ends exactly then ends also while the clock stands
    /// still, and what begins then does not.
    pub(crate) fn leap(&mut self, ahead: Duration) {
        self.time = CloudTime(self.time.after(ahead).0.saturating_add(1));
    }
}
