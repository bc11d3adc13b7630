//! The status of a machine.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use nephele_api::{
    conditions::{self, condition, reasons, types},
    infrastructure::v1beta2::{
        InMemoryMachine, InMemoryMachineStatus, Initialization, MachineAddress, MachineNetworkStatus,
        update::Update,
    },
};
use nephele_cloud::{MachineObservation, StageObservation};
use nephele_model::{Market, Role, Stage, VisibleEffect};

use super::{acted::Applied, plan::Waiting, validate::condition_type};
pub(super) use crate::report::{deleting, resting, unpaused, write};
use crate::{messages, report::Report};

impl Report<InMemoryMachineStatus> {
    /// Adds the conditions of the stages, each with the time since which it holds, and the Ready condition.
    fn stages(mut self, stages: Vec<(Condition, Timestamp)>) -> Self {
        let unmet = stages
            .iter()
            .filter(|(condition, _)| condition.status != conditions::TRUE);
        // A stage that waits for another stage adds nothing to the summary.
        let blocked = [
            reasons::WAITING_FOR_VM_PROVISIONED,
            reasons::WAITING_FOR_NODE_PROVISIONED,
        ];
        let faults = unmet.filter(|(condition, _)| !blocked.contains(&condition.reason.as_str()));
        let faults: Vec<String> = faults.map(|(condition, _)| summary(condition)).collect();
        for (condition, since) in stages {
            self.set_since(condition, since);
        }
        self.set(if faults.is_empty() {
            condition(types::READY, conditions::TRUE, reasons::READY, "")
        } else {
            condition(
                types::READY,
                conditions::FALSE,
                reasons::NOT_READY,
                faults.join("; "),
            )
        });
        self
    }
}

/// The status of a machine that may not boot yet. Pure.
pub(super) fn waiting(
    object: &InMemoryMachine,
    waiting: &Waiting,
    role: Role,
    now: Timestamp,
) -> InMemoryMachineStatus {
    // A machine that was up or booting before a restart still is; the cloud only has not restored it yet.
    let started = object
        .status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some());
    let taken_over_soon = matches!(waiting, Waiting::SimulatedCluster | Waiting::Authorities);
    if object.is_provisioned() || (started && taken_over_soon) {
        return object.status.clone().unwrap_or_default();
    }
    let vm = condition(
        types::VM_PROVISIONED,
        conditions::FALSE,
        waiting.reason(),
        waiting.message(),
    );
    not_booting(object, vm, role, now)
}

/// The status that follows from what was observed; none when there was nothing to observe. Pure.
pub(super) fn provided(
    object: &InMemoryMachine,
    applied: &Applied,
    now: Timestamp,
) -> Option<InMemoryMachineStatus> {
    match &applied.observed {
        Ok(Some(observed)) => {
            let mut status = observed_status(object, observed, now);
            if !applied.claimed.is_empty() {
                status.network = Some(MachineNetworkStatus {
                    addresses: applied.claimed.clone(),
                });
            }
            Some(status)
        }
        Ok(None) => None,
        Err(error) => {
            let message = messages::message(error);
            let vm = condition(
                types::VM_PROVISIONED,
                conditions::FALSE,
                error.category(),
                message,
            );
            // A refused machine has no stages; its status shows the stages that both roles have.
            (!object.is_provisioned()).then(|| not_booting(object, vm, Role::Worker, now))
        }
    }
}

/// The status of a machine whose instance was terminated. Its failure domain and addresses stay, and it stays
/// provisioned: a MachineHealthCheck or a person replaces its Machine. Pure.
pub(super) fn terminated(object: &InMemoryMachine, role: Role, now: Timestamp) -> InMemoryMachineStatus {
    let message = "The simulated instance was terminated and stays gone";
    let vm = condition(
        types::VM_PROVISIONED,
        conditions::FALSE,
        reasons::INSTANCE_TERMINATED,
        message,
    );
    not_booting(object, vm, role, now)
}

/// The status of a machine without a virtual machine, for the reason in `vm`. Pure.
fn not_booting(object: &InMemoryMachine, vm: Condition, role: Role, now: Timestamp) -> InMemoryMachineStatus {
    let later = Stage::of(role).iter().filter(|stage| **stage != Stage::Vm);
    let blocked = |stage: &Stage| {
        condition(
            condition_type(*stage),
            conditions::FALSE,
            reasons::WAITING_FOR_VM_PROVISIONED,
            "",
        )
    };
    let stages = std::iter::once(vm)
        .chain(later.map(blocked))
        .map(|condition| (condition, now));
    Report::on(object, now)
        .not_paused()
        .stages(stages.collect())
        .status
}

fn observed_status(
    object: &InMemoryMachine,
    observed: &MachineObservation,
    now: Timestamp,
) -> InMemoryMachineStatus {
    let booted = observed.reached(Stage::Vm);
    let stages = observed.stages.iter().map(|(stage, state)| {
        // After a restart the stage is restored with the time of this condition.
        let since = observed.reached(*stage).unwrap_or(now);
        (
            stage_condition(*stage, state, booted.is_some(), observed.held_by(*stage)),
            since,
        )
    });
    let mut report = Report::on(object, now).not_paused().stages(stages.collect());
    if let Some(updating) = updating(object) {
        report.set(updating);
    }
    if let Some(interruption) = interruption(observed, &report.status.conditions) {
        report.set(interruption);
    }
    let mut status = report.status;
    status.start_time = Some(MicroTime(observed.started_at));
    status.interruptible = Market::of(&object.spec.market) == Market::Spot;
    if booted.is_some() {
        let address = |address: &nephele_cloud::MachineAddress| MachineAddress {
            kind: address.kind.clone(),
            address: address.address.clone(),
        };
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
        status.failure_domain = observed.zone.clone().unwrap_or_default();
        status.addresses = observed.allocation.addresses.iter().map(address).collect();
    }
    status
}

/// The condition of a stage. `held_by` is the fault that keeps the machine from getting past it, and how.
fn stage_condition(
    stage: Stage,
    state: &StageObservation,
    booted: bool,
    held_by: Option<(&str, &VisibleEffect)>,
) -> Condition {
    let kind = condition_type(stage);
    let unmet = |reason, message: &str| condition(kind, conditions::FALSE, reason, message);
    match state {
        StageObservation::Reached { .. } => condition(kind, conditions::TRUE, reasons::PROVISIONED, ""),
        StageObservation::Waiting { .. } => match held_by {
            None => unmet(reasons::WAITING_FOR_STARTUP_TIMEOUT, ""),
            Some((fault, VisibleEffect::BootstrapFailed(phase))) => {
                let phase = phase.as_str();
                unmet(
                    reasons::STARTUP_FAILED,
                    &format!("kubeadm failed in phase {phase} (Fault {fault})"),
                )
            }
            Some((fault, _)) => unmet(
                reasons::WAITING_FOR_STARTUP_TIMEOUT,
                &format!("Fault {fault} holds the machine here"),
            ),
        },
        StageObservation::Failed { cause } => unmet(reasons::STARTUP_FAILED, cause),
        StageObservation::Blocked if booted => unmet(reasons::WAITING_FOR_NODE_PROVISIONED, ""),
        StageObservation::Blocked => unmet(reasons::WAITING_FOR_VM_PROVISIONED, ""),
    }
}

/// The condition Interruption, for a machine whose instance the cloud takes back, or wanted to take back.
fn interruption(observed: &MachineObservation, known: &[Condition]) -> Option<Condition> {
    let condition = |status, reason, message: String| condition(types::INTERRUPTION, status, reason, message);
    match observed.reclaimed_by() {
        Some(fault) => {
            let message = format!("The cloud takes the spot instance back soon (Fault {fault})");
            Some(condition(conditions::TRUE, reasons::SPOT_RECLAIM, message))
        }
        None => conditions::is_true(known, types::INTERRUPTION)
            .then(|| condition(conditions::FALSE, reasons::NOT_INTERRUPTED, String::new())),
    }
}

/// The condition Updating for the last update in place that was requested, as Cluster API has it on a Machine.
fn updating(object: &InMemoryMachine) -> Option<Condition> {
    let Update {
        software,
        failure,
        ended,
        ..
    } = object.update()?;
    let condition = |status, reason, message| condition(types::UPDATING, status, reason, message);
    Some(match ended {
        None => {
            let message = format!("Updating in place to {}", software.version);
            condition(conditions::TRUE, reasons::IN_PLACE_UPDATING, message)
        }
        Some(_) if failure.is_empty() => condition(conditions::FALSE, reasons::NOT_UPDATING, String::new()),
        Some(_) => condition(conditions::TRUE, reasons::IN_PLACE_UPDATE_FAILED, failure),
    })
}

/// A condition as part of the summary in Ready.
fn summary(condition: &Condition) -> String {
    let Condition {
        type_,
        reason,
        message,
        ..
    } = condition;
    if message.is_empty() {
        format!("{type_}: {reason}")
    } else {
        format!("{type_}: {message}")
    }
}

#[cfg(test)]
mod tests;
