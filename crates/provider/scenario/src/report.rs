//! The summary of a scenario's status. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use nephele_api::{
    cloud::v1alpha1::{Scenario, ScenarioStatus, StepStatus},
    conditions::{self, condition, reasons, types},
};

use crate::{mistake::shortened, runs::RUNNING_MAX};

/// The status with the condition `Passed`, which says in a sentence how far the scenario is. `trouble` is why its Faults
/// cannot be deleted.
pub(crate) fn summarised(
    object: &Scenario,
    mut status: ScenarioStatus,
    trouble: Option<&str>,
    now: Timestamp,
) -> ScenarioStatus {
    let steps = &status.steps;
    let said = |step: &StepStatus| match step.message.as_str() {
        "" => step.name.clone(),
        message => format!("{}: {message}", step.name),
    };
    let of = |phase: &'static str| steps.iter().filter(move |step| step.phase == phase);
    let failed = of("Failed").next();
    let running = of("Running").next();
    let passed = match (status.phase.as_str(), failed, running) {
        ("Passed", _, _) => condition(types::PASSED, conditions::TRUE, reasons::PASSED, ""),
        ("Failed", Some(step), _) => {
            condition(types::PASSED, conditions::FALSE, reasons::STEP_FAILED, said(step))
        }
        (_, None, Some(step)) => {
            let message = match of("Running").count() {
                1 => said(step),
                count => format!("{}; {} more run", said(step), count.saturating_sub(1)),
            };
            condition(types::PASSED, conditions::UNKNOWN, reasons::STEP_RUNNING, message)
        }
        _ => {
            let message = trouble.unwrap_or("the Faults of the scenario are being deleted");
            condition(types::PASSED, conditions::UNKNOWN, reasons::HEALING, message)
        }
    };
    status.conditions = listed(object, passed, now);
    status
}

/// The status of a scenario that waits because as many as allowed run in its namespace.
pub(crate) fn waiting(object: &Scenario, now: Timestamp) -> ScenarioStatus {
    let message = format!("{RUNNING_MAX} scenarios of the namespace run, which is the most at once");
    let passed = condition(types::PASSED, conditions::UNKNOWN, reasons::TOO_MANY_RUN, message);
    ScenarioStatus {
        observed_generation: object.metadata.generation,
        phase: "Pending".to_owned(),
        conditions: listed(object, passed, now),
        ..ScenarioStatus::default()
    }
}

/// Why a scenario cannot run where a stand-in plays Cluster API. `needed` is what the scenario needs, in words of its author.
pub(crate) fn without_cluster_api(needed: &str) -> String {
    shortened(format!(
        "the scenario needs {needed}, which the stand-in for Cluster API does not have"
    ))
}

/// The status of a scenario that cannot run.
pub(crate) fn invalid(object: &Scenario, generation: i64, mistake: &str, now: Timestamp) -> ScenarioStatus {
    let known = object.status.as_ref().filter(|status| {
        status.observed_generation == Some(generation) && status.phase == "Failed" && status.steps.is_empty()
    });
    let finish_time = known
        .and_then(|status| status.finish_time.clone())
        .unwrap_or(MicroTime(now));
    let passed = condition(
        types::PASSED,
        conditions::FALSE,
        reasons::INVALID_CONFIGURATION,
        mistake,
    );
    ScenarioStatus {
        observed_generation: Some(generation),
        phase: "Failed".to_owned(),
        finish_time: Some(finish_time),
        conditions: listed(object, passed, now),
        ..ScenarioStatus::default()
    }
}

fn listed(object: &Scenario, mut passed: Condition, now: Timestamp) -> Vec<Condition> {
    passed.observed_generation = object.metadata.generation;
    let mut list = object
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    conditions::set(&mut list, passed, now);
    if conditions::find(&list, types::PAUSED).is_some() {
        let mut resumed = condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, "");
        resumed.observed_generation = object.metadata.generation;
        conditions::set(&mut list, resumed, now);
    }
    list
}

/// The status of a scenario that is paused: only a condition tells of it. None if the object has it already.
pub(crate) fn paused_status(object: &Scenario, message: String, now: Timestamp) -> Option<ScenarioStatus> {
    let mut status = object.status.clone().unwrap_or_default();
    if conditions::is_true(&status.conditions, types::PAUSED) {
        return None;
    }
    let mut paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, message);
    paused.observed_generation = object.metadata.generation;
    conditions::set(&mut status.conditions, paused, now);
    Some(status)
}
