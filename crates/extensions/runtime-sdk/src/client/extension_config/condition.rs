//! Conditions as Kubernetes writes them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The condition that shows whether an extension's handlers are known.
pub const DISCOVERED: &str = "Discovered";
/// The condition that shows whether an object is paused.
pub const PAUSED: &str = "Paused";

/// A condition of an object (apimachinery, `metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    /// The generation of the object that it was computed for.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When `status` last changed, in RFC 3339.
    pub last_transition_time: String,
    /// The reason, in one word.
    pub reason: String,
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Condition {
    /// A new condition.
    #[must_use]
    pub fn new(kind: &str, status: bool, reason: &str, message: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of a type.
#[must_use]
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Sets a condition. Other conditions keep their values and places. The transition time is kept unless the status
/// changes.
pub fn set_condition(conditions: &mut Vec<Condition>, generation: i64, new: Condition, now: Timestamp) {
    let new = Condition {
        observed_generation: generation,
        last_transition_time: time(now),
        ..new
    };
    match conditions.iter_mut().find(|condition| condition.kind == new.kind) {
        None => conditions.push(new),
        Some(old) if old.status == new.status => {
            let last_transition_time = std::mem::take(&mut old.last_transition_time);
            *old = Condition {
                last_transition_time,
                ..new
            };
        }
        Some(old) => *old = new,
    }
}

/// A time as Kubernetes writes it: in whole seconds.
pub(super) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let other = Condition {
            last_transition_time: "then".into(),
            ..Condition::new("Other", true, "R", "")
        };
        let mut conditions = vec![other.clone()];
        set_condition(
            &mut conditions,
            1,
            Condition::new(DISCOVERED, false, "NotDiscovered", "a"),
            at(0),
        );
        set_condition(
            &mut conditions,
            2,
            Condition::new(DISCOVERED, false, "NotDiscovered", "b"),
            at(10),
        );
        let expected = Condition {
            observed_generation: 2,
            last_transition_time: "1970-01-01T00:00:00Z".into(),
            ..Condition::new(DISCOVERED, false, "NotDiscovered", "b")
        };
        assert_eq!(conditions, [other.clone(), expected]);
        set_condition(
            &mut conditions,
            2,
            Condition::new(DISCOVERED, true, "Discovered", ""),
            at(20),
        );
        let found = condition(&conditions, DISCOVERED).unwrap();
        assert_eq!(
            (found.is_true(), found.last_transition_time.as_str()),
            (true, "1970-01-01T00:00:20Z")
        );
        assert_eq!(conditions[0], other);
    }
}
