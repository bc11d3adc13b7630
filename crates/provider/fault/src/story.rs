//! The events about a Fault, which tell its story: what it has hit, and that it hits nothing any more. One event tells of all
//! hits since the status before, which is written once in a second at most.

use kube::Resource as _;
use nephele_api::cloud::v1alpha1::{Fault, FaultHit, FaultStatus};
use nephele_controller::{Event, Events, Severity};

/// The reason of the event about hits.
const HIT: &str = "Hit";

/// Publishes what has happened to a Fault between two statuses.
pub(crate) fn publish(object: &Fault, before: &FaultStatus, after: &FaultStatus, events: &Events) {
    for (reason, note) in told(before, after) {
        let regarding = object.object_ref(&());
        events.publish(Event {
            regarding,
            severity: Severity::Normal,
            reason,
            action: "Reconcile",
            note,
        });
    }
}

/// The reason and the note of each event. Pure.
fn told(before: &FaultStatus, after: &FaultStatus) -> Vec<(&'static str, String)> {
    let count = after.hits.unwrap_or_default() - before.hits.unwrap_or_default();
    let hit = after
        .last_hits
        .first()
        .filter(|_| count > 0)
        .map(|last| match count {
            1 => (HIT, format!("Hit {}", subject(last))),
            count => (HIT, format!("Hit {count} times, the last time {}", subject(last))),
        });
    let over = match after.phase.as_str() {
        _ if after.phase == before.phase => None,
        "Exhausted" => Some(("Exhausted", "It has made as many hits as it may".to_owned())),
        "Expired" => Some(("Expired", "Its time is over".to_owned())),
        _ => None,
    };
    hit.into_iter().chain(over).collect()
}

/// What was hit: `CreateInstance of the machine m of the Cluster demo`, or `the IPAddressClaim c`.
fn subject(hit: &FaultHit) -> String {
    let FaultHit {
        time: _,
        operation,
        cluster,
        machine,
        claim,
    } = hit;
    if !claim.is_empty() {
        return format!("the IPAddressClaim {claim}");
    }
    let operation = if operation.is_empty() {
        String::new()
    } else {
        format!("{operation} of ")
    };
    let machine = if machine.is_empty() {
        String::new()
    } else {
        format!("the machine {machine} of ")
    };
    format!("{operation}{machine}the Cluster {cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(phase: &str, hits: i64, last: Option<(&str, &str)>) -> FaultStatus {
        let hit = |(operation, machine): (&str, &str)| FaultHit {
            time: None,
            operation: operation.into(),
            cluster: "demo".into(),
            machine: machine.into(),
            claim: String::new(),
        };
        FaultStatus {
            phase: phase.into(),
            hits: Some(hits),
            last_hits: last.map(hit).into_iter().collect(),
            ..FaultStatus::default()
        }
    }

    #[test]
    fn events_tell_of_new_hits_and_of_the_end() {
        let none = FaultStatus::default();
        let active = status("Active", 0, None);
        assert_eq!(told(&none, &active), []);
        let first = status("Active", 1, Some(("CreateInstance", "m")));
        let of = |reason, note: &str| (reason, note.to_owned());
        assert_eq!(
            told(&active, &first),
            [of(HIT, "Hit CreateInstance of the machine m of the Cluster demo")]
        );
        assert_eq!(told(&first, &first), []);
        let last = status("Exhausted", 4, Some(("", "n")));
        assert_eq!(
            told(&first, &last),
            [
                of(
                    HIT,
                    "Hit 3 times, the last time the machine n of the Cluster demo"
                ),
                of("Exhausted", "It has made as many hits as it may"),
            ]
        );
        let of_cluster = status("Active", 1, Some(("CreateLoadBalancer", "")));
        assert_eq!(
            told(&active, &of_cluster),
            [of(HIT, "Hit CreateLoadBalancer of the Cluster demo")]
        );
        assert_eq!(
            told(&active, &status("Expired", 0, None)),
            [of("Expired", "Its time is over")]
        );
        let mut of_claim = status("Active", 1, Some(("", "")));
        of_claim.last_hits[0].claim = "node-0".into();
        assert_eq!(
            told(&active, &of_claim),
            [of(HIT, "Hit the IPAddressClaim node-0")]
        );
    }
}
