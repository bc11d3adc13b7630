//! Says how a machine is: one patch of its status, skipped when nothing changed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, ResourceExt as _};
use nephele_api::conditions::{self, condition, reasons, types};
use nephele_api::infrastructure::v1beta2::{
    InMemoryMachine, InMemoryMachineStatus, Initialization, MachineAddress,
};
use nephele_cloud::{MachineObservation, Stage, StageObservation};
use nephele_kit::{PatchError, Precondition, patch};

use super::act::Applied;
use super::plan::Waiting;
use super::validate::condition_type;
use crate::context::Context;

pub(super) async fn provided(
    object: &InMemoryMachine,
    context: &Context,
    applied: &Applied,
    now: Timestamp,
) -> Result<(), PatchError> {
    let status = match &applied.observed {
        Ok(Some(observed)) => observed_status(object, observed, now),
        Ok(None) => return Ok(()),
        Err(error) => refused_status(
            object,
            condition(types::VM_PROVISIONED, conditions::FALSE, error.category(), nephele_kit::chain(error)),
            now,
        ),
    };
    write(object, context, status).await
}

pub(super) async fn waiting(
    object: &InMemoryMachine,
    context: &Context,
    waiting: &Waiting,
    now: Timestamp,
) -> Result<(), PatchError> {
    let vm = condition(types::VM_PROVISIONED, conditions::FALSE, waiting.reason(), waiting.message());
    // A machine that was up before a restart is up: it only has not been taken over again yet.
    let was_up = object
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, types::VM_PROVISIONED));
    if was_up {
        return Ok(());
    }
    write(object, context, refused_status(object, vm, now)).await
}

pub(super) async fn paused(
    object: &InMemoryMachine,
    context: &Context,
    message: &str,
    now: Timestamp,
) -> Result<(), PatchError> {
    let mut status = object.status.clone().unwrap_or_default();
    let paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, message);
    conditions::set(&mut status.conditions, paused, now);
    write(object, context, status).await
}

async fn write(
    object: &InMemoryMachine,
    context: &Context,
    status: InMemoryMachineStatus,
) -> Result<(), PatchError> {
    let api: Api<InMemoryMachine> =
        Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let mut reported = object.clone();
    reported.status = Some(status);
    patch::status(&api, object, &reported, Precondition::None).await.map(drop)
}

/// The status of a machine that does not boot (yet). Pure.
fn refused_status(object: &InMemoryMachine, vm: Condition, now: Timestamp) -> InMemoryMachineStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let ready = condition(types::READY, conditions::FALSE, reasons::NOT_READY, summary(&vm));
    for condition in [condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, ""), vm, ready] {
        conditions::set(&mut status.conditions, condition, now);
    }
    status
}

/// The status that follows from what was observed. Pure.
fn observed_status(
    object: &InMemoryMachine,
    observed: &MachineObservation,
    now: Timestamp,
) -> InMemoryMachineStatus {
    let mut status = object.status.clone().unwrap_or_default();
    let not_paused = condition(types::PAUSED, conditions::FALSE, reasons::NOT_PAUSED, "");
    conditions::set(&mut status.conditions, not_paused, now);
    let mut troubles = Vec::new();
    for (stage, state) in &observed.stages {
        // The instant at which a stage was reached is what a restart takes it over with.
        let at = if let StageObservation::Reached { at } = state { *at } else { now };
        let condition = stage_condition(*stage, state);
        if condition.status != "True" {
            troubles.push(summary(&condition));
        }
        conditions::set(&mut status.conditions, condition, at);
    }
    let ready = if troubles.is_empty() {
        condition(types::READY, conditions::TRUE, reasons::READY, "")
    } else {
        condition(types::READY, conditions::FALSE, reasons::NOT_READY, troubles.join("; "))
    };
    conditions::set(&mut status.conditions, ready, now);

    if matches!(observed.stages.get(&Stage::Vm), Some(StageObservation::Reached { .. })) {
        status.initialization = Some(Initialization { provisioned: Some(true) });
        status.failure_domain = observed.zone.clone().unwrap_or_default();
        let address = |a: &nephele_cloud::MachineAddress| MachineAddress {
            kind: a.kind.clone(),
            address: a.address.clone(),
        };
        status.addresses = observed.addresses.iter().map(address).collect();
    }
    status
}

fn stage_condition(stage: Stage, state: &StageObservation) -> Condition {
    let kind = condition_type(stage);
    match state {
        StageObservation::Reached { .. } => condition(kind, conditions::TRUE, reasons::PROVISIONED, ""),
        StageObservation::Waiting { .. } => {
            condition(kind, conditions::FALSE, reasons::WAITING_FOR_STARTUP_TIMEOUT, "")
        }
        StageObservation::Failed { cause } => {
            condition(kind, conditions::FALSE, reasons::STARTUP_FAILED, cause.clone())
        }
        StageObservation::Blocked => {
            let reason = match stage {
                Stage::Vm | Stage::Node => reasons::WAITING_FOR_VM_PROVISIONED,
                Stage::Etcd | Stage::ApiServer => reasons::WAITING_FOR_NODE_PROVISIONED,
            };
            condition(kind, conditions::FALSE, reason, "")
        }
    }
}

/// One trouble among others, in a few words.
fn summary(condition: &Condition) -> String {
    let Condition { type_, reason, message, .. } = condition;
    if message.is_empty() { format!("{type_}: {reason}") } else { format!("{type_}: {message}") }
}
