//! The wall clocks of a world.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use nephele_controller::Clock;
use tokio::time::Instant;

/// The start of every world, in seconds since 1970: 2026-03-04T05:06:07Z.
const BEGIN: i64 = 1_772_600_767;

/// A wall clock that follows Tokio's time, and can be set.
#[derive(Clone)]
pub(crate) struct WorldClock {
    started: Instant,
    /// How far the clock was set forward, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl WorldClock {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            ahead: Arc::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let begin = Timestamp::from_second(BEGIN).expect("in range");
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        begin + elapsed + SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed))
    }

    /// Sets the clock by so many seconds, back if negative.
    pub(crate) fn jump(&self, seconds: i64) {
        self.ahead
            .fetch_add(seconds.saturating_mul(1000), Ordering::Relaxed);
    }

    pub(crate) fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
