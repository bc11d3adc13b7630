//! The clock of a SimulatedCloud. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{CloudClock, CloudClockStatus};
use nephele_cloud::{ClockObservation, ClockSetting, Rate};

/// The lowest and the highest rate, in millionths.
const RATES: std::ops::RangeInclusive<u64> = 10_000..=1_000_000_000;

/// The setting of the clock, and the first mistake in it. The schema refuses mistakes; this is for objects that got past
/// the schema. A field with a mistake has its default.
pub(crate) fn setting(clock: &CloudClock) -> (ClockSetting, Option<String>) {
    let CloudClock { rate, paused, steps, ahead } = clock;
    let mut mistake = None;
    let rate = match rate.as_str() {
        "" => Rate::ONE,
        text => parse_rate(text).unwrap_or_else(|| {
            mistake.get_or_insert("spec.clock.rate must be a decimal number from 0.01 to 1000".to_owned());
            Rate::ONE
        }),
    };
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
        rate: format_rate(rate),
        paused: Some(is_paused),
        steps: Some(i64::try_from(steps).unwrap_or(i64::MAX)),
        ahead: nephele_go_duration::format(ahead),
        since: instant(since),
        time: instant(time),
    }
}

/// A rate from 0.01 to 1000 with up to six decimal places.
fn parse_rate(text: &str) -> Option<Rate> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || whole.len() > 4 || fraction.len() > 6 {
        return None;
    }
    let millionths =
        whole.parse::<u64>().ok()? * 1_000_000 + format!("{fraction:0<6}").parse::<u64>().ok()?;
    RATES.contains(&millionths).then(|| Rate::from_millionths(millionths))
}

fn format_rate(rate: Rate) -> String {
    let (whole, fraction) = (rate.millionths() / 1_000_000, rate.millionths() % 1_000_000);
    let text = format!("{whole}.{fraction:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        for wrong in ["0", "0.001", "1000.1", "10000", "-1", "1e3", "NaN", ".5", "5.", "1.0000001"] {
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
            let rate_of = parse_rate(rate).expect("a rate");
            let setting =
                ClockSetting { rate: rate_of, is_paused: true, steps: 7, ahead: Duration::from_secs(61) };
            let observed = ClockObservation { setting, since: at(100), time: at(161) };
            let status = status(observed);
            assert_eq!((status.rate.as_str(), status.ahead.as_str()), (rate, "61s"));
            assert_eq!(history(&status), Some(observed));
        }
        assert_eq!(history(&CloudClockStatus::default()), None);
    }
}
