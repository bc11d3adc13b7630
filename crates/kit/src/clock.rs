use std::sync::Arc;

use jiff::Timestamp;

/// Returns the current time. A value in each controller's context, so that a test decides the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The machine's own clock.
#[must_use]
pub fn wall_clock() -> Clock {
    Arc::new(Timestamp::now)
}
