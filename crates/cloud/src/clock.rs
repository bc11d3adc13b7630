//! Conversion between cloud time and wall time. They are the same until the cloud's clock can run at another rate.

use jiff::Timestamp;
use nephele_engine::SimTime;

pub(crate) fn sim_time(at: Timestamp) -> SimTime {
    SimTime::from_millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

pub(crate) fn timestamp(at: SimTime) -> Timestamp {
    i64::try_from(at.as_millis())
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::MAX)
}
