//! The events about an object: it became ready or not ready, it was paused or unpaused.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use nephele_api::conditions::{self, reasons, types};
use nephele_kit::{Event, Events, Severity};

/// Publishes events for an object whose conditions were `before` and now are `after`.
pub(crate) fn publish<K>(object: &K, before: &[Condition], after: &[Condition], events: &Events)
where
    K: Resource<DynamicType = ()>,
{
    for Notable { severity, reason, note } in notable(before, after) {
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

/// Pure. An object that is not ready yet, or was never paused, gives no event.
fn notable(before: &[Condition], after: &[Condition]) -> Vec<Notable> {
    let became = |kind: &str| {
        let (was, is) = (conditions::is_true(before, kind), conditions::find(after, kind)?);
        let holds = is.status == conditions::TRUE;
        // Everybody expects a deleted object to become not ready.
        (was != holds && is.reason != reasons::DELETING).then(|| (holds, is.message.clone()))
    };
    let ready = became(types::READY).map(|(holds, note)| match holds {
        true => Notable { severity: Severity::Normal, reason: reasons::READY, note },
        false => Notable { severity: Severity::Warning, reason: reasons::NOT_READY, note },
    });
    let paused = became(types::PAUSED).map(|(holds, note)| {
        let reason = if holds { reasons::PAUSED } else { reasons::NOT_PAUSED };
        Notable { severity: Severity::Normal, reason, note }
    });
    ready.into_iter().chain(paused).collect()
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
            let told = notable(before, after).into_iter();
            told.map(|notable| (notable.severity, notable.reason, notable.note)).collect::<Vec<_>>()
        };
        let (normal, warning) = (Severity::Normal, Severity::Warning);
        let none: &[Condition] = &[];
        assert_eq!(told(none, &[ready(FALSE, "waits"), paused(FALSE, "")]), []);
        assert_eq!(told(&[ready(FALSE, "waits")], &[ready(FALSE, "still")]), []);
        assert_eq!(told(&[ready(FALSE, "")], &[ready(TRUE, "")]), [(normal, "Ready", String::new())]);
        assert_eq!(told(&[ready(TRUE, "")], &[ready(TRUE, "")]), []);
        assert_eq!(told(&[ready(TRUE, "")], &[ready(FALSE, "gone")]), [(warning, "NotReady", "gone".into())]);
        let going = condition(types::READY, FALSE, reasons::DELETING, "");
        assert_eq!(told(&[ready(TRUE, "")], &[going]), []);
        assert_eq!(told(none, &[paused(TRUE, "by hand")]), [(normal, "Paused", "by hand".into())]);
        assert_eq!(told(&[paused(TRUE, "")], &[paused(FALSE, "")]), [(normal, "NotPaused", String::new())]);
    }
}
