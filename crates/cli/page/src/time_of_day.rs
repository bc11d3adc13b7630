//! Times as people read them.

use jiff::Timestamp;

/// A time of day, to the millisecond, as in the journal.
pub(crate) fn clock_time(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.3f").to_string()
}
