//! Scenarios and their steps.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use nephele_api::{
    cloud::v1alpha1::{Scenario, StepStatus},
    conditions::types,
};
use serde_json::Value;

use crate::inspect::{
    found::Found,
    listing::{Listing, columns, message, row},
    text::{age, line, or_dash},
};

pub(super) fn listing(found: &Found, now: Timestamp) -> Listing {
    let columns = columns(&["NAME", "PHASE", "STEPS", "STEP", "AGE"], &["MESSAGE"]);
    let rows = found.parsed::<Scenario>().into_iter().map(|scenario| {
        let status = scenario.status.unwrap_or_default();
        let is_over = |step: &&StepStatus| !matches!(step.phase.as_str(), "" | "Pending" | "Running");
        let over = status.steps.iter().filter(is_over).count();
        let cells = vec![
            scenario.metadata.name.clone().unwrap_or_default(),
            or_dash(&status.phase),
            format!("{over}/{}", status.steps.len()),
            or_dash(current(&status.steps).map_or("", |step| &step.name)),
            age(scenario.metadata.creation_timestamp.as_ref(), now),
            message(&status.conditions, types::PASSED),
        ];
        row(&scenario.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

/// The step that runs, else the one that failed.
fn current(steps: &[StepStatus]) -> Option<&StepStatus> {
    let of_phase = |phase: &str| steps.iter().find(|step| step.phase == phase);
    of_phase("Running").or_else(|| of_phase("Failed"))
}

/// The steps of a Scenario, in order.
pub(in crate::inspect) fn steps(scenario: &Value, now: Timestamp) -> Listing {
    let steps = scenario["status"]["steps"].clone();
    let steps: Vec<StepStatus> = serde_json::from_value(steps).unwrap_or_default();
    let rows = steps.into_iter().map(|step| {
        let since = step.started.map(|started| Time(started.0));
        let cells = vec![
            step.name,
            step.phase,
            since.map_or_else(|| "-".to_owned(), |since| age(Some(&since), now)),
            or_dash(&line(&step.message)),
        ];
        row(&ObjectMeta::default(), cells)
    });
    Listing {
        columns: columns(&["NAME", "PHASE", "BEGAN", "MESSAGE"], &[]),
        rows: rows.collect(),
    }
}
