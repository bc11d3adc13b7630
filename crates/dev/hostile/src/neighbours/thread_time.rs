//! The time that a thread works. It stands still while the thread waits, also for a processor: a poll is not long because the
//! machine is busy.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time for which this thread has worked.
pub(super) fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
