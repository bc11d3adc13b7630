//! The status of a ClusterFault. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, ClusterFaultStatus, Fault, FaultStatus, REFUSED_MAX, RefusedNamespace},
    conditions::{self, condition, reasons, types},
};

use super::plan::Plan;
use crate::report::number;

/// Phases of Faults. The first one that a Fault has is that of the ClusterFault.
const PHASES: [&str; 5] = ["Active", "Waiting", "Exhausted", "Expired", "Invalid"];

/// The status of a ClusterFault. `mistake` is why its spec cannot be used; `refused` are the namespaces in which the
/// management API refused the Fault.
pub(super) fn status(
    object: &ClusterFault,
    plan: &Plan,
    mistake: Option<&str>,
    refused: Vec<RefusedNamespace>,
    now: Timestamp,
) -> ClusterFaultStatus {
    let mut refused = [plan.refused.clone(), refused].concat();
    refused.sort_by(|one, other| one.namespace.cmp(&other.namespace));
    let sum = |of: fn(&FaultStatus) -> Option<i64>| {
        let numbers = plan.standing.iter().filter_map(|fault| fault.status.as_ref());
        numbers.fold(0_u64, |sum, status| sum.saturating_add(number(of(status))))
    };
    let matched = sum(|status| status.matched);
    let hits = sum(|status| status.hits);
    let in_force: Vec<_> = plan
        .standing
        .iter()
        .filter_map(|fault| in_force(object, fault))
        .collect();
    let is_in = |phase: &&str| in_force.iter().any(|status| status.phase == *phase);
    let phase = PHASES.into_iter().find(is_in).unwrap_or("Waiting");
    let invalid = in_force.iter().find(|status| status.phase == "Invalid");
    let invalid = invalid.and_then(|status| conditions::find(&status.conditions, types::READY));
    let mistake = mistake.or(invalid.map(|ready| ready.message.as_str()));
    let ready = ready(plan, mistake, &refused, in_force.len(), matched);
    let known = object.status.as_ref();
    let mut list = known.map(|status| status.conditions.clone()).unwrap_or_default();
    let generation = object.metadata.generation;
    conditions::set(
        &mut list,
        Condition {
            observed_generation: generation,
            ..ready
        },
        now,
    );
    if conditions::find(&list, types::PAUSED).is_some() {
        let resumed = condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, "");
        conditions::set(
            &mut list,
            Condition {
                observed_generation: generation,
                ..resumed
            },
            now,
        );
    }
    refused.truncate(REFUSED_MAX);
    ClusterFaultStatus {
        observed_generation: generation,
        phase: if mistake.is_some() { "Invalid" } else { phase }.to_owned(),
        namespaces: Some(plan.standing.len().try_into().unwrap_or(i64::MAX)),
        matched: Some(matched.try_into().unwrap_or(i64::MAX)),
        hits: Some(hits.try_into().unwrap_or(i64::MAX)),
        refused,
        conditions: list,
    }
}

/// Whether a ClusterFault does in all namespaces what it says, and if not, why. `mistake` is one of its spec; `in_force` is
/// in how many namespaces its Fault is.
fn ready(
    plan: &Plan,
    mistake: Option<&str>,
    refused: &[RefusedNamespace],
    in_force: usize,
    matched: u64,
) -> Condition {
    match (mistake, refused.first()) {
        (Some(mistake), _) => condition(
            types::READY,
            conditions::FALSE,
            reasons::INVALID_CONFIGURATION,
            mistake,
        ),
        (None, Some(RefusedNamespace { namespace, message })) => {
            let count = refused.len();
            let all = plan.selected;
            let message = format!(
                "{count} of {all} namespaces cannot have the Fault; the first is {namespace}: {message}"
            );
            condition(types::READY, conditions::FALSE, reasons::NOT_READY, message)
        }
        (None, None) if in_force < plan.selected => {
            let all = plan.selected;
            let message = format!("the Fault is in force in {in_force} of {all} namespaces");
            condition(types::READY, conditions::FALSE, reasons::NOT_READY, message)
        }
        // A selector with a typing mistake selects nothing.
        (None, None) if plan.selected == 0 => condition(
            types::READY,
            conditions::TRUE,
            reasons::READY,
            "No namespace is selected so far",
        ),
        (None, None) => {
            let message = if matched == 0 {
                "Nothing has matched it so far"
            } else {
                ""
            };
            condition(types::READY, conditions::TRUE, reasons::READY, message)
        }
    }
}

/// The status of a ClusterFault that is paused: only a condition tells of it. None if the object has it already.
pub(super) fn paused_status(
    object: &ClusterFault,
    message: String,
    now: Timestamp,
) -> Option<ClusterFaultStatus> {
    let mut status = object.status.clone().unwrap_or_default();
    if conditions::is_true(&status.conditions, types::PAUSED) {
        return None;
    }
    let paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, message);
    let paused = Condition {
        observed_generation: object.metadata.generation,
        ..paused
    };
    conditions::set(&mut status.conditions, paused, now);
    Some(status)
}

/// The status of a Fault, if it describes the current spec of its ClusterFault.
fn in_force<'a>(object: &ClusterFault, fault: &'a Fault) -> Option<&'a FaultStatus> {
    let status = fault.status.as_ref()?;
    let ready = conditions::find(&status.conditions, types::READY)?;
    let is_current =
        ready.observed_generation == fault.metadata.generation && fault.spec == object.spec.fault;
    (is_current && !status.phase.is_empty()).then_some(status)
}

#[cfg(test)]
mod tests;
