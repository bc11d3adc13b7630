//! Scenarios that users run in a world, and what holds for their steps. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::cloud::v1alpha1::{Fault, Scenario, StepStatus};
use serde_json::{Value, json};

use crate::audit::Seen;

/// The step of a script with branches.
const BRANCHES: &str = "meanwhile";

/// The spec of a script: a fault comes and goes for each of two values, while a clock counts on and machines are counted.
pub(crate) fn spec(fault: &Value, rounds: u8, seconds: u8) -> Value {
    let count_on = json!({ "clock": { "cloud": "default", "step": 1, "jump": "2s" } });
    let faults = json!([
        { "fault": { "name": "of-$(item)", "spec": fault } },
        { "pause": format!("{}s", seconds % 20) },
        { "heal": { "fault": "of-$(item)" } },
    ]);
    let machines = json!({ "machines": { "atMost": 1000 }, "within": "1m" });
    json!({ "steps": [
        { "name": BRANCHES, "parallel": [
            { "name": "faults", "forEach": ["a", "b"], "steps": faults },
            { "name": "clock", "repeat": rounds.clamp(1, 9), "steps": [count_on, { "pause": "1s" }] },
            { "name": "machines", "steps": [{ "expect": machines }, { "say": "$(index) is no variable here" }] },
        ] },
        { "name": "after", "repeat": 2, "steps": [count_on] },
    ] })
}

/// What is left to do for the scripts of namespaces that are reconciled: those that are not over, and Faults of those that are.
/// Where nothing troubles managers, they `have_to_pass`.
pub(crate) fn unfinished(seen: &Seen, is_in_scope: impl Fn(&str) -> bool, have_to_pass: bool) -> Vec<String> {
    let scripts = seen
        .scripts
        .iter()
        .filter(|script| is_in_scope(&script.namespace().unwrap_or_default()));
    let unfinished = scripts.filter_map(|script| {
        let status = script.status.clone().unwrap_or_default();
        let faults: Vec<_> = seen
            .faults
            .iter()
            .filter(|fault| is_of(fault, script))
            .map(|fault| fault.name_any())
            .collect();
        match status.phase.as_str() {
            "Failed" if have_to_pass => {
                let failed = status.steps.iter().find(|step| step.phase == "Failed");
                Some(format!(
                    "the Scenario {} has failed: {failed:?}",
                    script.name_any()
                ))
            }
            "Passed" | "Failed" if faults.is_empty() => None,
            phase => Some(format!(
                "the Scenario {} is {phase:?} and has the Faults {faults:?}",
                script.name_any()
            )),
        }
    });
    unfinished.collect()
}

fn is_of(fault: &Fault, script: &Arc<Scenario>) -> bool {
    fault
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == script.metadata.uid.as_ref())
}

/// What is wrong with the steps of a script. `before` are those of an earlier look; `counts_on` says that nothing else
/// has set the clock.
pub(crate) fn wrong(before: &[StepStatus], steps: &[StepStatus], counts_on: bool) -> Option<String> {
    let undone = before
        .iter()
        .zip(steps)
        .find(|(before, step)| is_undone(before, step));
    if let Some((before, step)) = undone {
        return Some(format!("a step goes back: {step:?}, and before {before:?}"));
    }
    for (index, step) in steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.started.is_some())
    {
        let mut earlier = steps[..index].iter().filter(|other| is_before(other, step));
        if let Some(open) = earlier.find(|other| other.phase != "Passed") {
            return Some(format!(
                "{} has begun, and {} is {}",
                step.name, open.name, open.phase
            ));
        }
    }
    let counts: Vec<_> = steps
        .iter()
        .filter_map(|step| step.clock.as_ref()?.steps)
        .collect();
    let total = |step: &StepStatus| Some(step.clock.as_ref()?.ahead.as_ref()?.get());
    let totals: Vec<_> = steps.iter().filter_map(total).collect();
    let grow = counts.is_sorted_by(|one, next| one < next) && totals.is_sorted_by(|one, next| one < next);
    if counts_on && !grow {
        return Some(format!("a clock does not count on: {counts:?}, {totals:?}"));
    }
    None
}

/// Whether something of a step has changed that stays once it is there.
fn is_undone(before: &StepStatus, step: &StepStatus) -> bool {
    let rank = |phase: &str| match phase {
        "Pending" => 0,
        "Running" => 1,
        _ => 2,
    };
    let earlier = rank(&before.phase);
    let later = rank(&step.phase);
    before.name != step.name
        || later < earlier
        || (earlier == 2 && before != step)
        || (before.started.is_some() && before.started != step.started)
        || (before.clock.is_some() && before.clock != step.clock)
}

/// Whether an earlier step of the list has to pass before another one begins: unless they are of different branches.
fn is_before(earlier: &StepStatus, later: &StepStatus) -> bool {
    let branch = |step: &StepStatus| {
        let mut names = step.name.split('/').map(str::to_owned);
        (names.next().is_some_and(|name| name == BRANCHES), names.next())
    };
    let (one, of_one) = branch(earlier);
    let (other, of_other) = branch(later);
    !(one && other) || of_one == of_other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(value: Value) -> Vec<StepStatus> {
        serde_json::from_value(value).expect("steps")
    }

    #[test]
    fn what_goes_back_or_begins_too_early_is_found() {
        let at = "2026-01-01T00:00:00.000000Z";
        let step = |name: &str, phase: &str| match phase {
            "Pending" => json!({ "name": name, "phase": phase }),
            phase => json!({ "name": name, "phase": phase, "started": at }),
        };
        let [a, b, after] = [
            "meanwhile/faults/a/step-1",
            "meanwhile/clock/1/step-1",
            "after/1/step-1",
        ];
        let good = steps(json!([
            step(a, "Running"),
            step(b, "Running"),
            step(after, "Pending")
        ]));
        assert_eq!(wrong(&[], &good, true), None);
        let early = steps(json!([
            step(a, "Passed"),
            step(b, "Running"),
            step(after, "Running")
        ]));
        assert_eq!(
            wrong(&good, &early, true),
            Some(format!("{after} has begun, and {b} is Running"))
        );
        let back = steps(json!([
            step(a, "Pending"),
            step(b, "Running"),
            step(after, "Pending")
        ]));
        assert!(wrong(&good, &back, true).is_some_and(|what| what.starts_with("a step goes back")));
        let counted = |count: i64| {
            let mut step = step(b, "Passed");
            step["clock"] = json!({ "steps": count, "ahead": format!("{count}s") });
            step
        };
        assert_eq!(wrong(&[], &steps(json!([counted(1), counted(3)])), true), None);
        let same = steps(json!([counted(1), counted(1)]));
        let twice = wrong(&[], &same, true);
        assert_eq!(wrong(&[], &same, false), None);
        assert!(twice.is_some_and(|what| what.starts_with("a clock does not count on")));
    }
}
