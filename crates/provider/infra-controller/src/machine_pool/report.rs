//! The status of a pool.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use nephele_api::{
    conditions::{self, condition, reasons, types},
    infrastructure::v1beta2::{InMemoryMachinePool, InMemoryMachinePoolStatus, Initialization},
};

use super::plan::{Replicas, Scale};
pub(super) use crate::report::{resting, unpaused, write};
use crate::{
    expected_capacity::ExpectedCapacity,
    report::{self, Report},
};

/// The status of a pool that is being deleted. Pure.
pub(super) fn deleting(
    object: &InMemoryMachinePool,
    left: usize,
    now: Timestamp,
) -> InMemoryMachinePoolStatus {
    let message = format!("Waiting for the deletion of {left} {}", machines(left));
    report::deleting(object, &message, now)
}

/// The status of a pool that is not being deleted. Pure.
pub(super) fn scaled(
    object: &InMemoryMachinePool,
    scale: &Scale,
    expected_capacity: &ExpectedCapacity,
    now: Timestamp,
) -> InMemoryMachinePoolStatus {
    let mut report = Report::on(object, now).not_paused();
    let ready = replicas_ready(scale);
    let current = up_to_date(scale);
    let faults = [&ready, &current]
        .into_iter()
        .filter(|condition| condition.status == conditions::FALSE);
    let faults: Vec<_> = faults
        .map(|fault| format!("{}: {}", fault.type_, fault.message))
        .collect();
    report.set(ready);
    report.set(current);
    report.set(if faults.is_empty() {
        condition(types::READY, conditions::TRUE, reasons::READY, "")
    } else {
        condition(
            types::READY,
            conditions::FALSE,
            reasons::NOT_READY,
            faults.join("; "),
        )
    });
    let mut status = report.status;
    // Set before the first machine exists: Cluster API creates Machines only when this field is set.
    "InMemoryMachine".clone_into(&mut status.infrastructure_machine_kind);
    status.replicas = Some(i32::try_from(scale.provider_ids.len()).unwrap_or(i32::MAX));
    status.next_ordinal = Some(scale.next_ordinal);
    if let Some(told) = expected_capacity.told() {
        (status.capacity, status.node_info) = told;
    }
    let Replicas { wanted, ready, .. } = scale.replicas;
    let provisioned = object.is_provisioned() || (scale.waiting.is_none() && ready >= wanted);
    status.ready = Some(provisioned);
    if provisioned {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    status
}

fn replicas_ready(scale: &Scale) -> Condition {
    let Replicas {
        wanted,
        staying,
        ready,
        leaving,
        ..
    } = scale.replicas;
    let kind = types::REPLICAS_READY;
    let unmet = |reason, message: String| condition(kind, conditions::FALSE, reason, message);
    let gone = if leaving == 0 {
        String::new()
    } else {
        format!(", {leaving} being deleted")
    };
    match scale.waiting {
        Some(waiting) if staying < wanted => unmet(waiting.reason(), waiting.message().to_owned()),
        _ if ready == wanted && staying == wanted && leaving == 0 => {
            condition(kind, conditions::TRUE, reasons::REPLICAS_READY, "")
        }
        _ => {
            let message = format!("{ready} of {wanted} {} up{gone}", machines(wanted));
            unmet(reasons::WAITING_FOR_REPLICAS, message)
        }
    }
}

fn up_to_date(scale: &Scale) -> Condition {
    let Replicas {
        staying, outdated, ..
    } = scale.replicas;
    if outdated == 0 {
        return condition(
            types::MACHINES_UP_TO_DATE,
            conditions::TRUE,
            reasons::UP_TO_DATE,
            "",
        );
    }
    let message = format!("{outdated} of {staying} {} to be replaced", machines(staying));
    condition(
        types::MACHINES_UP_TO_DATE,
        conditions::FALSE,
        reasons::NOT_UP_TO_DATE,
        message,
    )
}

fn machines(count: usize) -> &'static str {
    if count == 1 { "machine" } else { "machines" }
}
