//! What the object of a machine records of it. Pure.

use nephele_api::infrastructure::v1beta2::{InMemoryMachine, creation_record::CreationRecord};

/// Whether a machine has booted once: then it needs nothing from the cloud any more.
pub(super) fn has_booted(object: &InMemoryMachine) -> bool {
    object.is_provisioned() || object.has_origin()
}

/// Whether the creation of a machine has begun, now or before a restart, according to its object.
pub(crate) fn has_begun(object: &InMemoryMachine) -> bool {
    let started = object
        .status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some());
    started || has_booted(object)
}

/// The zone that a machine was placed in.
pub(crate) fn zone(object: &InMemoryMachine) -> Option<String> {
    let placed = object
        .status
        .as_ref()
        .and_then(|status| text(&status.failure_domain));
    placed.or_else(|| text(&origin(object)?.failure_domain))
}

/// The name of the SimulatedCloud that a machine was made in, if the object records it.
pub(crate) fn cloud(object: &InMemoryMachine) -> Option<String> {
    text(&object.origin()?.cloud)
}

/// The origin of a machine that lost its status in a move. None when the status exists, because the status is newer.
pub(super) fn origin(object: &InMemoryMachine) -> Option<CreationRecord> {
    let known = object
        .status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some());
    object.origin().filter(|_| !known)
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
