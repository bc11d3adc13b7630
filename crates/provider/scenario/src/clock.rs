//! Changes of the clock of a SimulatedCloud, by a step or a command. Pure.
//!
//! A clock counts its steps and adds up its jumps. So a step of a scenario writes the count and the total that it wants into
//! its status first, and then sets these: to set them twice is to set them once.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::{CloudClock, CloudClockStatus, SimulatedCloud};
use nephele_model::{ClockRate, GoDuration};
use serde_json::{Value, json};

pub use crate::script::ClockChange;

/// The rate of a clock that sets none, in millionths.
const RATE: u64 = 1_000_000;

/// What is known of the clock of a SimulatedCloud.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SeenClock {
    Read {
        /// The resourceVersion of the SimulatedCloud.
        version: String,
        set: CloudClock,
        /// None while no manager has taken the SimulatedCloud.
        in_force: Option<Box<CloudClockStatus>>,
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
    let unchanged = || CloudClockStatus {
        rate: Some(ClockRate::of(RATE)),
        paused: Some(false),
        ..CloudClockStatus::default()
    };
    cloud
        .status
        .as_ref()
        .map(|status| status.clock.clone().unwrap_or_else(unchanged))
}

/// What a step sets: the rate and the pause that it names, and a count and a total that are higher than before. A clock takes
/// no count that is lower than that in force.
#[must_use]
pub fn wanted(change: &ClockChange, set: &CloudClock, in_force: &CloudClockStatus) -> CloudClock {
    let ClockChange {
        cloud: _,
        rate,
        paused,
        step,
        jump,
    } = change;
    let steps = set.steps.max(in_force.steps).unwrap_or(0);
    let ahead = total(set.ahead.as_ref()).max(total(in_force.ahead.as_ref()));
    CloudClock {
        rate: rate.clone(),
        paused: *paused,
        steps: step.map(|step| steps.saturating_add(step)),
        ahead: jump.map(|jump| rounded_up(ahead.saturating_add(jump))),
    }
}

/// What of a wanted clock is not set yet. A count and a total that are higher than wanted are left as they are.
#[must_use]
pub fn missing(wanted: &CloudClock, set: &CloudClock) -> CloudClock {
    let rate = set.rate.as_ref().map_or(RATE, ClockRate::millionths);
    CloudClock {
        rate: wanted.rate.clone().filter(|wanted| wanted.millionths() != rate),
        paused: wanted
            .paused
            .filter(|paused| set.paused.unwrap_or(false) != *paused),
        steps: wanted.steps.filter(|steps| set.steps.unwrap_or(0) < *steps),
        ahead: wanted
            .ahead
            .clone()
            .filter(|ahead| total(set.ahead.as_ref()) < ahead.get()),
    }
}

/// The merge patch that sets a clock, if the SimulatedCloud still has this resourceVersion.
#[must_use]
pub fn patch(version: &str, clock: &CloudClock) -> Value {
    json!({ "metadata": { "resourceVersion": version }, "spec": { "clock": clock } })
}

/// Whether a wanted clock is in force.
#[must_use]
pub fn is_in_force(wanted: &CloudClock, status: &CloudClockStatus) -> bool {
    let CloudClockStatus {
        rate,
        paused,
        steps,
        ahead,
        since: _,
        time: _,
    } = status.clone();
    missing(
        wanted,
        &CloudClock {
            rate,
            paused,
            steps,
            ahead,
        },
    ) == CloudClock::default()
}

/// A clock for people, such as `rate 100, paused false`.
#[must_use]
pub fn told(clock: &CloudClock) -> String {
    let CloudClock {
        rate,
        paused,
        steps,
        ahead,
    } = clock;
    let parts = [
        rate.as_ref().map(|rate| format!("rate {}", rate.as_str())),
        paused.map(|paused| format!("paused {paused}")),
        steps.map(|steps| format!("steps {steps}")),
        ahead.as_ref().map(|ahead| format!("ahead {}", ahead.as_str())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn total(ahead: Option<&GoDuration>) -> Duration {
    ahead.map(GoDuration::get).unwrap_or_default()
}

/// A total in whole milliseconds, rounded up: the clock shows no parts of these.
fn rounded_up(total: Duration) -> GoDuration {
    let millis = total.as_nanos().div_ceil(1_000_000);
    GoDuration::of(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
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
            rate: ClockRate::parse("0.5").ok(),
            paused: Some(true),
            step: Some(2),
            jump: Some(Duration::from_micros(60_000_500)),
        };
        for (set, in_force, steps, ahead) in [
            (json!({}), json!({}), 2, "60001ms"),
            (
                json!({ "steps": 5, "ahead": "1m" }),
                json!({ "steps": 4, "ahead": "0s" }),
                7,
                "120001ms",
            ),
            // The counters were lowered.
            (
                json!({ "steps": 1 }),
                json!({ "steps": 9, "ahead": "59999500us" }),
                11,
                "120s",
            ),
        ] {
            let expected = clock(json!({ "rate": "0.5", "paused": true, "steps": steps, "ahead": ahead }));
            assert_eq!(wanted(&change, &clock(set), &status(in_force)), expected);
        }
        let change = ClockChange {
            rate: None,
            paused: Some(false),
            step: None,
            jump: None,
            ..change
        };
        let set = clock(json!({ "rate": "7", "steps": 3, "ahead": "1h" }));
        assert_eq!(
            wanted(&change, &set, &status(json!({}))),
            clock(json!({ "paused": false }))
        );
    }

    #[test]
    fn only_what_differs_is_set_and_nothing_is_lowered() {
        let wanted = clock(json!({ "rate": "10", "paused": true, "steps": 3, "ahead": "1h" }));
        for (set, expected) in [
            (
                json!({}),
                json!({ "rate": "10", "paused": true, "steps": 3, "ahead": "1h" }),
            ),
            (
                json!({ "rate": "10.0", "paused": true, "steps": 3, "ahead": "60m" }),
                json!({}),
            ),
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
