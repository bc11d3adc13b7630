//! A record of the journal as people and scripts read it.

use jiff::Timestamp;
use nephele_engine::{Entry, Event, EventKind, Operation, Outcome, Record, Request};
use nephele_model::{CloudError, ResourceId, ResourceKind};
use serde::{Deserialize, Serialize};

use crate::clock::CloudClock;

/// The most faults that a line lists. A namespace may have any number, and each may count the operation. With names of
/// 253 characters they are 25 KiB; readers take lines of 64 KiB.
const FAULTS_MAX: usize = 100;

/// A record of the journal, in the words of the kinds that users see. One line of JSON in `GET /journal`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalLine {
    /// The number of the record. Records are numbered from 1, without gaps, since the start of the manager.
    pub sequence: u64,
    /// When it was, to the millisecond.
    pub time: Timestamp,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The cluster. Empty for a cloud or a fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// `Machine`, `LoadBalancer`, `SimulatedCloud` or `Fault`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The name of the machine, cloud or fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The operation, such as `CreateInstance`; `event` is set otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// The caller of the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caller: String,
    /// The answer to the operation: `Accepted`, `AlreadyDone`, `Delayed`, or the reason of an error, such as
    /// `QuotaExceeded`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// The event, such as `StageReached`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The faults that counted the operation, or that caused the event. If more than a hundred counted it, the last hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Whether the last of these faults hit the operation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
}

impl JournalLine {
    /// The event of the last line for a reader who may not read the journal any more.
    pub const ACCESS_ENDED: &str = "AccessEnded";

    /// The line of a record.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        let mut line = Self::about(entry.sequence, entry.record.resource());
        let at = match &entry.record {
            Record::Operation {
                operation,
                outcome,
                faults,
                is_hit,
            } => {
                line.faults = faults[faults.len().saturating_sub(FAULTS_MAX)..].to_vec();
                line.hit = *is_hit;
                line.operation(operation, outcome);
                operation.at
            }
            Record::Event(event) => {
                line.event(event);
                event.at
            }
            Record::CapacityFreed { at, capacity, .. } => {
                line.say("RoomFreed", format!("There is room in {capacity}"));
                *at
            }
            Record::GrantEnded { at, .. } => {
                line.say(
                    "TurnEnded",
                    "It did not ask for the room in time, and lost its place".to_owned(),
                );
                *at
            }
            Record::FaultWindow { at, fault, begins } => {
                line.faults = vec![fault.name.clone()];
                let (event, what) = if *begins {
                    ("FaultWindowBegan", "begins")
                } else {
                    ("FaultWindowEnded", "ends")
                };
                line.say(event, format!("A window of its schedule {what}"));
                *at
            }
            Record::FaultEnded { at, fault } => {
                line.faults = vec![fault.name.clone()];
                line.say("FaultEnded", "Its time is over".to_owned());
                *at
            }
        };
        line.time = CloudClock::published(at);
        line
    }

    /// Says that the journal no longer has some records, the last of them with this number.
    pub(super) fn missed(records: u64, last: u64, now: Timestamp) -> Self {
        let mut line = Self {
            sequence: last,
            time: now,
            ..Self::default()
        };
        line.say(
            "RecordsMissed",
            format!("{records} records are no longer in the journal"),
        );
        line
    }

    /// Says that the reader may not read on. The last record that was read has this number.
    pub(super) fn access_ended(last: u64, now: Timestamp) -> Self {
        let mut line = Self {
            sequence: last,
            time: now,
            ..Self::default()
        };
        line.say(
            Self::ACCESS_ENDED,
            "The permission to read the journal was taken away, or could not be checked again".to_owned(),
        );
        line
    }

    /// Some more bytes than its texts have.
    pub(super) fn bytes(&self) -> usize {
        let Self {
            sequence: _,
            time: _,
            namespace,
            cluster,
            kind,
            name,
            operation,
            caller,
            outcome,
            event,
            message,
            faults,
            hit: _,
        } = self;
        let texts = [
            namespace, cluster, kind, name, operation, caller, outcome, event, message,
        ];
        let texts = texts.into_iter().chain(faults);
        // The names of its fields, and the quotes.
        texts.map(|text| text.len() + 16).sum::<usize>() + 64
    }

    fn about(sequence: u64, id: &ResourceId) -> Self {
        let kind = match id.kind {
            ResourceKind::Instance => "Machine",
            ResourceKind::LoadBalancer => "LoadBalancer",
            ResourceKind::Cloud => "SimulatedCloud",
            ResourceKind::Fault => "Fault",
        };
        Self {
            sequence,
            namespace: id.namespace.clone(),
            cluster: id.cluster.clone(),
            kind: kind.to_owned(),
            // A cluster has one load balancer.
            name: if id.kind == ResourceKind::LoadBalancer {
                String::new()
            } else {
                id.name.clone()
            },
            ..Self::default()
        }
    }

    fn say(&mut self, event: &str, message: String) {
        event.clone_into(&mut self.event);
        self.message = message;
    }

    fn operation(&mut self, operation: &Operation, outcome: &Outcome) {
        operation.verb().clone_into(&mut self.operation);
        self.caller.clone_from(&operation.caller);
        let (word, error) = match outcome {
            Outcome::Accepted => ("Accepted", None),
            Outcome::AlreadyDone => ("AlreadyDone", None),
            Outcome::Delayed { .. } => ("Delayed", None),
            Outcome::Refused(error) => (CloudError::category(error), Some(error)),
        };
        word.clone_into(&mut self.outcome);
        self.message = match (outcome, error) {
            (_, Some(error)) => error.to_string(),
            (Outcome::Delayed { until }, None) => {
                format!("ask again in {:?}", until.since(operation.at))
            }
            _ => backend(&operation.request)
                .map(|name| format!("machine {name}"))
                .unwrap_or_default(),
        };
    }

    fn event(&mut self, event: &Event) {
        let (word, message) = match &event.kind {
            EventKind::Adopted { reached, is_deleting } => {
                let stages: Vec<_> = reached.iter().map(|(stage, _)| stage.as_str()).collect();
                let mut message = "Known again after a restart".to_owned();
                if !stages.is_empty() {
                    message += &format!(", with {}", stages.join(", "));
                }
                if *is_deleting {
                    message += ", while it is being deleted";
                }
                ("Adopted", message)
            }
            EventKind::StageReached(stage) => ("StageReached", stage.to_string()),
            EventKind::StageFailed { stage, cause } => ("StageFailed", format!("{stage}: {cause}")),
            EventKind::BecameAffected {
                fault,
                active_effect: Some(active_effect),
            } => {
                self.faults = vec![fault.clone()];
                (
                    "Afflicted",
                    format!("{} (Fault {fault})", active_effect.visible_effect),
                )
            }
            EventKind::BecameAffected {
                fault,
                active_effect: None,
            } => {
                self.faults = vec![fault.clone()];
                ("Healed", format!("Healed (Fault {fault})"))
            }
            EventKind::Updated(update) => ("Updated", update.clone()),
            EventKind::BackendInService(name) => ("BackendInService", format!("machine {name}")),
            EventKind::BackendOutOfService(name) => ("BackendOutOfService", format!("machine {name}")),
            EventKind::Leaked {
                fault,
                is_replaced: true,
                ..
            } => {
                self.faults = vec![fault.clone()];
                let message = "A repeated creation made a second instance; the first one still exists, and has no \
                               owner";
                ("Leaked", format!("{message} (Fault {fault})"))
            }
            EventKind::Leaked {
                fault, is_adopted, ..
            } => {
                self.faults = vec![fault.clone()];
                let known = if *is_adopted {
                    "Known again after a restart: the"
                } else {
                    "The"
                };
                let what = noun(event.id.kind);
                let message = format!("{known} {what} still exists, and has no owner (Fault {fault})");
                ("Leaked", message)
            }
            EventKind::LeakedDeleted { .. } => (
                "LeakedDeleted",
                format!("The leaked {} is deleted", noun(event.id.kind)),
            ),
            EventKind::Deleted => ("Deleted", String::new()),
        };
        self.say(word, message);
    }
}

/// What leaks, in words.
fn noun(kind: ResourceKind) -> &'static str {
    if kind == ResourceKind::LoadBalancer {
        "load balancer"
    } else {
        "instance"
    }
}

/// The instance that a request to a load balancer names.
fn backend(request: &Request) -> Option<&str> {
    match request {
        Request::RegisterBackend { instance, .. } | Request::DeregisterBackend { instance, .. } => {
            Some(instance)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
