//! What is left of a time that began.

use std::time::Duration;

use jiff::Timestamp;

/// The time until `seconds` have passed since `since`; zero if they have.
pub(crate) fn remaining(since: Timestamp, seconds: i64, now: Timestamp) -> Duration {
    let past = now.duration_since(since);
    let left = jiff::SignedDuration::from_secs(seconds).saturating_sub(past);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}
