//! What is new in the status of a scenario, as lines for people. Pure.

use jiff::SignedDuration;
use nephele_api::cloud::v1alpha1::StepStatus;

/// The lines about the steps that have changed.
pub(super) fn news(before: &[StepStatus], after: &[StepStatus]) -> Vec<String> {
    // Another look is no news.
    let told = |step: &StepStatus| StepStatus {
        looked: None,
        ..step.clone()
    };
    let changed = after
        .iter()
        .enumerate()
        .filter(|(index, step)| before.get(*index).map(told) != Some(told(step)));
    changed
        .filter_map(|(index, step)| line(index + 1, after.len(), step))
        .collect()
}

fn line(number: usize, count: usize, step: &StepStatus) -> Option<String> {
    let what = match step.phase.as_str() {
        "Running" if step.message.is_empty() => "begins".to_owned(),
        "Running" => return Some(format!("{number}/{count} {}: {}", step.name, step.message)),
        "Passed" => format!("passed after {}", took(step)),
        "Failed" => format!("failed after {}", took(step)),
        "Skipped" => "skipped".to_owned(),
        _ => return None,
    };
    let message = if step.message.is_empty() {
        String::new()
    } else {
        format!(": {}", step.message)
    };
    Some(format!("{number}/{count} {} {what}{message}", step.name))
}

/// How long a step took, in seconds.
pub(super) fn seconds(step: &StepStatus) -> Option<f64> {
    let started = step.started.as_ref()?;
    let finished = step.finished.as_ref()?;
    let took: SignedDuration = finished.0.duration_since(started.0);
    Some(took.as_secs_f64())
}

/// How long a step took, for people.
pub(super) fn took(step: &StepStatus) -> String {
    seconds(step).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}s"))
}

/// How long after its begin a step looked last, for people.
pub(super) fn looked(step: &StepStatus) -> String {
    let started = step.started.as_ref();
    let looked = step.looked.as_ref();
    let after = started
        .zip(looked)
        .map(|(started, looked)| looked.0.duration_since(started.0).as_secs_f64());
    after.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}s"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn steps(value: &Value) -> Vec<StepStatus> {
        serde_json::from_value(value.clone()).expect("steps")
    }

    #[test]
    fn only_what_is_new_is_told() {
        let at = |second: u32| format!("2026-03-04T05:06:{second:02}.500000Z");
        let first = steps(
            &json!([{ "name": "up", "phase": "Running", "started": at(0) }, { "name": "b", "phase": "Pending" }]),
        );
        assert_eq!(news(&[], &first), ["1/2 up begins"]);
        assert_eq!(news(&first, &first), Vec::<String>::new());
        let message = "2 of 3 machines are Running, not 3";
        let second = steps(&json!([
            { "name": "up", "phase": "Running", "started": at(0), "message": message }, { "name": "b", "phase": "Pending" },
        ]));
        assert_eq!(
            news(&first, &second),
            ["1/2 up: 2 of 3 machines are Running, not 3"]
        );
        let mut looked_again = second.clone();
        looked_again[0].looked = looked_again[0].started.clone();
        assert_eq!(news(&second, &looked_again), Vec::<String>::new());
        let third = steps(&json!([
            { "name": "up", "phase": "Failed", "started": at(0), "finished": at(12), "message": message },
            { "name": "b", "phase": "Skipped" },
        ]));
        assert_eq!(
            news(&second, &third),
            [
                "1/2 up failed after 12.0s: 2 of 3 machines are Running, not 3",
                "2/2 b skipped"
            ]
        );
    }
}
