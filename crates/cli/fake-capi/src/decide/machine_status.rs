//! What a Machine says about itself.

use jiff::{SignedDuration, Timestamp};
use nephele_api::{
    conditions::{self, types},
    core::{Machine, MachineStatus},
};

use super::condition::condition;
use crate::phases::AVAILABLE;

pub(super) const NODE_READY: &str = "NodeReady";
pub(super) const NODE_NOT_READY: &str = "NodeNotReady";
pub(super) const NODE_HEALTHY: &str = "NodeHealthy";
/// What a health check says about a Machine.
pub(super) const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
/// False on a Machine that its owner should replace.
pub(super) const OWNER_REMEDIATED: &str = "OwnerRemediated";
/// For how long the Node of a new Machine is asked for often.
const BOOT_MAX: SignedDuration = SignedDuration::from_mins(20);

pub(super) fn is_deleting(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

/// The Node in the Machine's status.
pub(super) fn node(machine: &Machine) -> Option<&str> {
    machine
        .status
        .as_ref()?
        .node_ref
        .as_ref()
        .map(|node| node.name.as_str())
}

pub(super) fn holds(machine: &Machine, kind: &str) -> bool {
    machine
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, kind))
}

/// Whether the Machine has a Node of which nothing is wrong.
pub(super) fn has_healthy_node(machine: &Machine) -> bool {
    node(machine).is_some() && holds(machine, NODE_HEALTHY) && !is_to_be_remediated(machine)
}

/// Whether the kubelet of a young Machine says that it is not ready: then it is about to be.
pub(super) fn is_new(machine: &Machine) -> bool {
    let list = machine
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let known = conditions::find(list, NODE_READY).filter(|known| known.reason == NODE_NOT_READY);
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    known
        .is_some_and(|known| created.is_none_or(|created| known.last_transition_time.0 <= created + BOOT_MAX))
}

/// Whether a health check finds the Machine unhealthy, and its owner should replace it. One that is healthy again stays.
pub(super) fn is_to_be_remediated(machine: &Machine) -> bool {
    let list = machine
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    [HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED]
        .iter()
        .all(|kind| conditions::find(list, kind).is_some_and(|known| known.status == conditions::FALSE))
}

/// Whether everything on the Machine is up.
pub(super) fn is_up(machine: &Machine) -> bool {
    !is_deleting(machine) && node(machine).is_some() && holds(machine, types::READY)
}

/// Sets what a Machine reports while it is being deleted.
pub(super) fn report_deletion(status: &mut MachineStatus, reason: &str, now: Timestamp) {
    "Deleting".clone_into(&mut status.phase);
    let deleting = conditions::condition(types::DELETING, conditions::TRUE, reason, "");
    let message = format!("* Deleting: Machine deletion in progress, stage: {reason}");
    let ready = condition(types::READY, false, &message);
    let available = conditions::condition(AVAILABLE, conditions::FALSE, "NotReady", "");
    for condition in [deleting, ready, available] {
        conditions::set(&mut status.conditions, condition, now);
    }
}
