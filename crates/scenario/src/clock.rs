//! Changes of the clock of a SimulatedCloud, by a step or a command. Pure.
//!
//! A clock counts its steps and adds up its jumps. So a step of a scenario writes the count and the total that it wants into
//! its status first, and then sets these: to set them twice is to set them once.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::{ClockRate, CloudClock, CloudClockStatus, SimulatedCloud};

pub use crate::script::ClockChange;

/// What is known of the clock of a SimulatedCloud.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SeenClock {
    Read {
        /// The resourceVersion of the SimulatedCloud.
        version: String,
        set: CloudClock,
        /// None while no manager has taken the SimulatedCloud.
        in_force: Option<CloudClockStatus>,
    },
    /// There is no such SimulatedCloud.
    Missing,
    /// It cannot be read now, but perhaps later.
    Unclear(String),
    /// It cannot be read.
    Refused(String),
}

/// The clock that is in force. None while no manager has taken the SimulatedCloud. A clock that was never changed is not in the
/// status.
#[must_use]
pub fn in_force(cloud: &SimulatedCloud) -> Option<CloudClockStatus> {
    let unchanged =
        || CloudClockStatus { rate: "1".to_owned(), paused: Some(false), ..CloudClockStatus::default() };
    cloud.status.as_ref().map(|status| status.clock.clone().unwrap_or_else(unchanged))
}

/// What a step sets: the rate and the pause that it names, and a count and a total that are higher than before. A clock takes
/// no count that is lower than that in force.
#[must_use]
pub fn wanted(change: &ClockChange, set: &CloudClock, in_force: &CloudClockStatus) -> CloudClock {
    let ClockChange { cloud: _, rate, paused, step, jump } = change;
    let steps = set.steps.max(in_force.steps).unwrap_or(0);
    let ahead = total(&set.ahead).max(total(&in_force.ahead));
    CloudClock {
        rate: rate.clone().unwrap_or_default(),
        paused: *paused,
        steps: step.map(|step| steps.saturating_add(step)),
        ahead: jump.map(|jump| format_total(ahead.saturating_add(jump))).unwrap_or_default(),
    }
}

/// What of a wanted clock is not set yet. A count and a total that are higher than wanted are left as they are.
#[must_use]
pub fn missing(wanted: &CloudClock, set: &CloudClock) -> CloudClock {
    let rate_of = |clock: &CloudClock| {
        if clock.rate.is_empty() { Ok(ClockRate::ONE) } else { ClockRate::parse(&clock.rate) }
    };
    let has_rate = wanted.rate.is_empty() || rate_of(wanted) == rate_of(set);
    CloudClock {
        rate: if has_rate { String::new() } else { wanted.rate.clone() },
        paused: wanted.paused.filter(|paused| set.paused.unwrap_or(false) != *paused),
        steps: wanted.steps.filter(|steps| set.steps.unwrap_or(0) < *steps),
        ahead: if total(&set.ahead) < total(&wanted.ahead) { wanted.ahead.clone() } else { String::new() },
    }
}

/// Whether a wanted clock is in force.
#[must_use]
pub fn is_in_force(wanted: &CloudClock, status: &CloudClockStatus) -> bool {
    let CloudClockStatus { rate, paused, steps, ahead, since: _, time: _ } = status.clone();
    missing(wanted, &CloudClock { rate, paused, steps, ahead }) == CloudClock::default()
}

/// A clock for people, such as `rate 100, paused false`.
#[must_use]
pub fn told(clock: &CloudClock) -> String {
    let CloudClock { rate, paused, steps, ahead } = clock;
    let text = |name: &str, value: &str| (!value.is_empty()).then(|| format!("{name} {value}"));
    let parts = [
        text("rate", rate),
        paused.map(|paused| format!("paused {paused}")),
        steps.map(|steps| format!("steps {steps}")),
        text("ahead", ahead),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A total; zero when it cannot be read, as for the clock.
fn total(text: &str) -> Duration {
    nephele_go_duration::parse(text).unwrap_or_default()
}

/// A total in whole milliseconds, rounded up: the clock shows no parts of these.
fn format_total(total: Duration) -> String {
    let millis = total.as_nanos().div_ceil(1_000_000);
    nephele_go_duration::format(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn clock(value: Value) -> CloudClock {
        serde_json::from_value(value).expect("a clock")
    }

    fn status(value: Value) -> CloudClockStatus {
        serde_json::from_value(value).expect("a status")
    }

    #[test]
    fn steps_and_jumps_count_from_the_highest_that_the_clock_knows() {
        let change = ClockChange {
            cloud: "default".into(),
            rate: Some("0.5".into()),
            paused: Some(true),
            step: Some(2),
            jump: Some(Duration::from_micros(60_000_500)),
        };
        for (set, in_force, steps, ahead) in [
            (json!({}), json!({}), 2, "60001ms"),
            (json!({ "steps": 5, "ahead": "1m" }), json!({ "steps": 4, "ahead": "0s" }), 7, "120001ms"),
            // The counters were lowered.
            (json!({ "steps": 1 }), json!({ "steps": 9, "ahead": "59999500us" }), 11, "120s"),
        ] {
            let expected = clock(json!({ "rate": "0.5", "paused": true, "steps": steps, "ahead": ahead }));
            assert_eq!(wanted(&change, &clock(set), &status(in_force)), expected);
        }
        let change = ClockChange { rate: None, paused: Some(false), step: None, jump: None, ..change };
        let set = clock(json!({ "rate": "7", "steps": 3, "ahead": "1h" }));
        assert_eq!(wanted(&change, &set, &status(json!({}))), clock(json!({ "paused": false })));
    }

    #[test]
    fn only_what_differs_is_set_and_nothing_is_lowered() {
        let wanted = clock(json!({ "rate": "10", "paused": true, "steps": 3, "ahead": "1h" }));
        for (set, expected) in [
            (json!({}), json!({ "rate": "10", "paused": true, "steps": 3, "ahead": "1h" })),
            (json!({ "rate": "10.0", "paused": true, "steps": 3, "ahead": "60m" }), json!({})),
            (
                json!({ "rate": "1", "paused": false, "steps": 4, "ahead": "2h" }),
                json!({ "rate": "10", "paused": true }),
            ),
            (
                json!({ "rate": "10", "paused": true, "steps": 2, "ahead": "59m" }),
                json!({ "steps": 3, "ahead": "1h" }),
            ),
        ] {
            assert_eq!(missing(&wanted, &clock(set.clone())), clock(expected.clone()));
            assert_eq!(is_in_force(&wanted, &status(set)), expected == json!({}));
        }
        // A clock without a rate has that of 1.
        let one = clock(json!({ "rate": "1", "paused": false }));
        assert_eq!(missing(&one, &CloudClock::default()), CloudClock::default());
        assert_eq!(told(&wanted), "rate 10, paused true, steps 3, ahead 1h");
    }
}
