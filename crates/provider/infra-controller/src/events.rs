//! The events about an object, which tell its story: an instance was created or deleted, the object became ready or not
//! ready, it was paused or unpaused.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use nephele_api::{
    cloud::v1alpha1::SimulatedCloud,
    conditions::{self, reasons, types},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
};
use nephele_controller::{Event, Events, Severity};

/// The reason of the event about an instance that was created, and of the one about an instance that is gone.
const INSTANCE_CREATED: &str = "InstanceCreated";
const INSTANCE_DELETED: &str = "InstanceDeleted";

/// An object with conditions.
pub(crate) trait Subject: Resource<DynamicType = ()> {
    /// What a user can do now that the object is ready.
    fn ready(&self) -> String;
}

impl Subject for InMemoryCluster {
    fn ready(&self) -> String {
        let endpoint = self.spec.control_plane_endpoint.as_ref();
        format!(
            "The load balancer serves {}",
            endpoint.map(ToString::to_string).unwrap_or_default()
        )
    }
}

impl Subject for InMemoryMachine {
    fn ready(&self) -> String {
        "The instance is up, and its Node has joined the cluster".to_owned()
    }
}

impl Subject for InMemoryMachinePool {
    fn ready(&self) -> String {
        "All machines of the pool are up".to_owned()
    }
}

impl Subject for SimulatedCloud {
    fn ready(&self) -> String {
        "Machines can be created".to_owned()
    }
}

/// Publishes that an instance was created, and in which zone.
pub(crate) fn instance_created(machine: &InMemoryMachine, zone: Option<&str>, events: &Events) {
    let zone = zone
        .map(|zone| format!(" in the zone {zone}"))
        .unwrap_or_default();
    instance(
        machine,
        INSTANCE_CREATED,
        "Create",
        format!("Created an instance{zone}; it boots"),
        events,
    );
}

/// Publishes that the instance of a machine is gone.
pub(crate) fn instance_deleted(machine: &InMemoryMachine, events: &Events) {
    instance(
        machine,
        INSTANCE_DELETED,
        "Delete",
        "Deleted the instance".to_owned(),
        events,
    );
}

fn instance(
    machine: &InMemoryMachine,
    reason: &'static str,
    action: &'static str,
    note: String,
    events: &Events,
) {
    events.publish(Event {
        regarding: machine.object_ref(&()),
        severity: Severity::Normal,
        reason,
        action,
        note,
    });
}

/// Publishes events for an object whose conditions were `before` and now are `after`.
pub(crate) fn publish<K: Subject>(object: &K, before: &[Condition], after: &[Condition], events: &Events) {
    for Notable {
        severity,
        reason,
        note,
    } in notable(before, after, || object.ready())
    {
        events.publish(Event {
            regarding: object.object_ref(&()),
            severity,
            reason,
            action: "Reconcile",
            note,
        });
    }
}

#[derive(Debug, PartialEq)]
struct Notable {
    severity: Severity,
    reason: &'static str,
    note: String,
}

/// Pure. An object that is not ready yet, or was never paused, gives no event. `now_ready` is the note of one that has
/// become ready.
fn notable(before: &[Condition], after: &[Condition], now_ready: impl Fn() -> String) -> Vec<Notable> {
    let became = |kind: &str| {
        let was = conditions::is_true(before, kind);
        let is = conditions::find(after, kind)?;
        let holds = is.status == conditions::TRUE;
        // Everybody expects a deleted object to become not ready.
        (was != holds && is.reason != reasons::DELETING).then(|| (holds, is.message.clone()))
    };
    let ready = became(types::READY).map(|(holds, note)| match holds {
        true => Notable {
            severity: Severity::Normal,
            reason: reasons::READY,
            note: now_ready(),
        },
        false => Notable {
            severity: Severity::Warning,
            reason: reasons::NOT_READY,
            note,
        },
    });
    let paused = became(types::PAUSED).map(|(holds, note)| {
        let (reason, note) = match holds {
            true => (reasons::PAUSED, note),
            false => (reasons::NOT_PAUSED, "It is reconciled again".to_owned()),
        };
        Notable {
            severity: Severity::Normal,
            reason,
            note,
        }
    });
    let interrupted = became(types::INTERRUPTION).filter(|(holds, _)| *holds);
    let interrupted = interrupted.map(|(_, note)| Notable {
        severity: Severity::Warning,
        reason: reasons::SPOT_RECLAIM,
        note,
    });
    ready.into_iter().chain(paused).chain(interrupted).collect()
}

#[cfg(test)]
mod tests {
    use nephele_api::conditions::{FALSE, TRUE, condition};

    use super::*;

    fn ready(status: &str, message: &str) -> Condition {
        condition(types::READY, status, "Any", message)
    }

    fn paused(status: &str, message: &str) -> Condition {
        condition(types::PAUSED, status, "Any", message)
    }

    #[test]
    fn only_what_became_something_else_is_told() {
        let told = |before: &[Condition], after: &[Condition]| {
            let told = notable(before, after, || "up".to_owned()).into_iter();
            told.map(|notable| (notable.severity, notable.reason, notable.note))
                .collect::<Vec<_>>()
        };
        let normal = Severity::Normal;
        let warning = Severity::Warning;
        let none: &[Condition] = &[];
        assert_eq!(told(none, &[ready(FALSE, "waits"), paused(FALSE, "")]), []);
        assert_eq!(told(&[ready(FALSE, "waits")], &[ready(FALSE, "still")]), []);
        assert_eq!(
            told(&[ready(FALSE, "")], &[ready(TRUE, "")]),
            [(normal, "Ready", "up".into())]
        );
        assert_eq!(told(&[ready(TRUE, "")], &[ready(TRUE, "")]), []);
        assert_eq!(
            told(&[ready(TRUE, "")], &[ready(FALSE, "gone")]),
            [(warning, "NotReady", "gone".into())]
        );
        let going = condition(types::READY, FALSE, reasons::DELETING, "");
        assert_eq!(told(&[ready(TRUE, "")], &[going]), []);
        assert_eq!(
            told(none, &[paused(TRUE, "by hand")]),
            [(normal, "Paused", "by hand".into())]
        );
        let taken = |status: &str| condition(types::INTERRUPTION, status, reasons::SPOT_RECLAIM, "soon");
        assert_eq!(
            told(none, &[taken(TRUE)]),
            [(warning, "SpotReclaim", "soon".into())]
        );
        assert_eq!(told(&[taken(TRUE)], &[taken(TRUE)]), []);
        assert_eq!(told(&[taken(TRUE)], &[taken(FALSE)]), []);
        assert_eq!(
            told(&[paused(TRUE, "")], &[paused(FALSE, "")]),
            [(normal, "NotPaused", "It is reconciled again".into())]
        );
    }
}
