//! The clock of a SimulatedCloud. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{ClockRate, CloudClock, CloudClockStatus};
use nephele_cloud::{ClockObservation, ClockSetting, Rate};

/// The setting of the clock, and the first mistake in it. The schema refuses mistakes; this is for objects that got past
/// the schema. A field with a mistake has its default.
pub(crate) fn setting(clock: &CloudClock) -> (ClockSetting, Option<String>) {
    let CloudClock { rate, paused, steps, ahead } = clock;
    let mut mistake = None;
    let rate = match rate.as_str() {
        "" => ClockRate::ONE,
        text => ClockRate::parse(text).unwrap_or_else(|error| {
            mistake.get_or_insert(format!("spec.clock.rate {error}"));
            ClockRate::ONE
        }),
    };
    let rate = Rate::from_millionths(rate.millionths());
    let ahead = match ahead.as_str() {
        "" => Duration::ZERO,
        text => nephele_go_duration::parse(text).unwrap_or_else(|error| {
            mistake.get_or_insert(format!("spec.clock.ahead {error}"));
            Duration::ZERO
        }),
    };
    let steps = u64::try_from(steps.unwrap_or(0)).unwrap_or(0);
    (ClockSetting { rate, is_paused: paused.unwrap_or(false), steps, ahead }, mistake)
}

/// What an earlier manager did about the clock, according to the status. None if it did nothing.
pub(crate) fn history(status: &CloudClockStatus) -> Option<ClockObservation> {
    let CloudClockStatus { rate, paused, steps, ahead, since, time } = status.clone();
    let (setting, _) = setting(&CloudClock { rate, paused, steps, ahead });
    Some(ClockObservation { setting, since: since?.0, time: time?.0 })
}

/// The clock as the status shows it.
pub(crate) fn status(observed: ClockObservation) -> CloudClockStatus {
    let ClockObservation { setting: ClockSetting { rate, is_paused, steps, ahead }, since, time } = observed;
    let instant = |at: Timestamp| Some(MicroTime(at));
    CloudClockStatus {
        rate: ClockRate::from_millionths(rate.millionths()).unwrap_or(ClockRate::ONE).to_string(),
        paused: Some(is_paused),
        steps: Some(i64::try_from(steps).unwrap_or(i64::MAX)),
        ahead: nephele_go_duration::format(ahead),
        since: instant(since),
        time: instant(time),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clock_is_that_of_the_spec_and_mistakes_are_named() {
        let read = |value| setting(&serde_json::from_value(value).expect("readable"));
        assert_eq!(read(json!({})), (ClockSetting::default(), None));
        let (clock, mistake) = read(json!({"rate": "0.25", "paused": true, "steps": 3, "ahead": "1h30m"}));
        let expected = ClockSetting {
            rate: Rate::from_millionths(250_000),
            is_paused: true,
            steps: 3,
            ahead: Duration::from_secs(5400),
        };
        assert_eq!((clock, mistake), (expected, None));
        for wrong in ["0.001", "1000.1", "1e3"] {
            let (clock, mistake) = read(json!({"rate": wrong, "steps": -1}));
            assert_eq!(clock, ClockSetting::default());
            assert_eq!(
                mistake.as_deref(),
                Some("spec.clock.rate must be a decimal number from 0.01 to 1000")
            );
        }
        let (_, mistake) = read(json!({"ahead": "soon"}));
        assert!(mistake.is_some_and(|wrong| wrong.starts_with("spec.clock.ahead ")));
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
            let observed = ClockObservation { setting, since: at(100), time: at(161) };
            let status = status(observed);
            assert_eq!((status.rate.as_str(), status.ahead.as_str()), (rate, "61s"));
            assert_eq!(history(&status), Some(observed));
        }
        assert_eq!(history(&CloudClockStatus::default()), None);
    }
}
