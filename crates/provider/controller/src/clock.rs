use std::sync::Arc;

use jiff::Timestamp;

/// Returns the current time. Each controller's context has a clock, so that tests can set the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The machine's own clock.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(Timestamp::now)
}
