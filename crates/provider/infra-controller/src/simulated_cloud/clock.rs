//! The clock of a SimulatedCloud. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{CloudClock, CloudClockStatus};
use nephele_cloud::{ClockObservation, ClockSetting, Rate};
use nephele_model::{ClockRate, GoDuration};

/// The setting of the clock. A negative counter got past the schema, and counts as zero.
pub(crate) fn setting(clock: &CloudClock) -> ClockSetting {
    let CloudClock {
        rate,
        paused,
        steps,
        ahead,
    } = clock;
    ClockSetting {
        rate: rate
            .as_ref()
            .map_or(Rate::ONE, |rate| Rate::from_millionths(rate.millionths())),
        is_paused: paused.unwrap_or(false),
        steps: u64::try_from(steps.unwrap_or(0)).unwrap_or(0),
        ahead: ahead.as_ref().map(GoDuration::get).unwrap_or_default(),
    }
}

/// What an earlier manager did about the clock, according to the status. None if it did nothing.
pub(crate) fn history(status: &CloudClockStatus) -> Option<ClockObservation> {
    let CloudClockStatus {
        rate,
        paused,
        steps,
        ahead,
        since,
        time,
    } = status.clone();
    let setting = setting(&CloudClock {
        rate,
        paused,
        steps,
        ahead,
    });
    Some(ClockObservation {
        setting,
        since: since?.0,
        time: time?.0,
    })
}

/// The clock as the status shows it.
pub(crate) fn status(observed: ClockObservation) -> CloudClockStatus {
    let ClockObservation {
        setting:
            ClockSetting {
                rate,
                is_paused,
                steps,
                ahead,
            },
        since,
        time,
    } = observed;
    let instant = |at: Timestamp| Some(MicroTime(at));
    CloudClockStatus {
        rate: Some(ClockRate::of(rate.millionths())),
        paused: Some(is_paused),
        steps: Some(i64::try_from(steps).unwrap_or(i64::MAX)),
        ahead: Some(GoDuration::of(ahead)),
        since: instant(since),
        time: instant(time),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_clock_is_that_of_the_spec() {
        let read = |value| setting(&serde_json::from_value(value).expect("readable"));
        assert_eq!(read(json!({})), ClockSetting::default());
        assert_eq!(read(json!({"steps": -1})), ClockSetting::default());
        let clock = read(json!({"rate": "0.25", "paused": true, "steps": 3, "ahead": "1h30m"}));
        let expected = ClockSetting {
            rate: Rate::from_millionths(250_000),
            is_paused: true,
            steps: 3,
            ahead: Duration::from_secs(5400),
        };
        assert_eq!(clock, expected);
    }

    #[test]
    fn a_status_reads_back_as_the_clock_that_it_shows() {
        let at = |second| Timestamp::from_second(second).expect("in range");
        for rate in ["0.01", "0.5", "1", "12.000001", "1000"] {
            let millionths = ClockRate::parse(rate).expect("a rate").millionths();
            let setting = ClockSetting {
                rate: Rate::from_millionths(millionths),
                is_paused: true,
                steps: 7,
                ahead: Duration::from_secs(61),
            };
            let observed = ClockObservation {
                setting,
                since: at(100),
                time: at(161),
            };
            let status = status(observed);
            let shown = (status.rate.as_ref(), status.ahead.as_ref());
            assert_eq!(
                (shown.0.map(ClockRate::as_str), shown.1.map(GoDuration::as_str)),
                (Some(rate), Some("61s"))
            );
            assert_eq!(history(&status), Some(observed));
        }
        assert_eq!(history(&CloudClockStatus::default()), None);
    }
}
