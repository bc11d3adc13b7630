use nephele_model::{Capacity, EtcdAlarm, Quota, SimTime, VisibleEffect};

use super::*;
use crate::active_effect::active_effect_of;

fn machine() -> ResourceId {
    ResourceId {
        namespace: "default".into(),
        cluster: "demo".into(),
        kind: ResourceKind::Instance,
        name: "m".into(),
    }
}

fn line(record: Record) -> JournalLine {
    JournalLine::of(&Entry { sequence: 7, record })
}

/// The line about the machine, with what is the same in all of them.
fn expected(event: &str, message: &str) -> JournalLine {
    JournalLine {
        sequence: 7,
        time: Timestamp::from_second(5).expect("in range"),
        namespace: "default".into(),
        cluster: "demo".into(),
        kind: "Machine".into(),
        name: "m".into(),
        event: event.into(),
        message: message.into(),
        ..JournalLine::default()
    }
}

const AT: SimTime = SimTime::from_millis(5000);

fn event(kind: EventKind) -> Record {
    Record::Event(Event {
        at: AT,
        id: machine(),
        generation: 1,
        kind,
        took: None,
    })
}

#[test]
fn an_operation_says_who_asked_what_was_answered_and_which_faults_counted_it() {
    let operation = |request: Request, outcome, is_hit| Record::Operation {
        operation: Box::new(Operation {
            caller: "infra".into(),
            request,
            at: AT,
        }),
        outcome,
        faults: vec!["slow".into()],
        is_hit,
    };
    let base = JournalLine {
        operation: "DeleteInstance".into(),
        caller: "infra".into(),
        faults: vec!["slow".into()],
        ..expected("", "")
    };
    let delete = || Request::Delete(machine());
    let capacity = Capacity::CloudQuota {
        cloud_spec: ResourceId::cloud("default", "north"),
        of: Quota::Instances,
    };
    let full = CloudError::NoCapacity {
        capacity: Box::new(capacity),
        limit: 3,
        amount: 1,
        is_kept: false,
    };
    let until = SimTime::from_millis(6500);
    assert_eq!(
        [
            line(operation(delete(), Outcome::Accepted, false)),
            line(operation(delete(), Outcome::Delayed { until }, true)),
            line(operation(delete(), Outcome::Refused(full), false)),
        ],
        [
            JournalLine {
                outcome: "Accepted".into(),
                ..base.clone()
            },
            JournalLine {
                outcome: "Delayed".into(),
                message: "ask again in 1.5s".into(),
                hit: true,
                ..base.clone()
            },
            JournalLine {
                outcome: "QuotaExceeded".into(),
                message: "quota of 3 instances is used up".into(),
                ..base
            },
        ]
    );
}

#[test]
fn an_event_says_what_happened_in_words() {
    let visible_effect = VisibleEffect::EtcdAlarm(EtcdAlarm::NoSpace);
    let affected_ids = |active_effect| {
        line(event(EventKind::BecameAffected {
            fault: "full".into(),
            active_effect,
        }))
    };
    let adopted = |reached, is_deleting| line(event(EventKind::Adopted { reached, is_deleting }));
    let leaked = |is_adopted, is_replaced| {
        let fault = "full".into();
        let addresses = vec![];
        line(event(EventKind::Leaked {
            fault,
            since: AT,
            addresses,
            is_adopted,
            is_replaced,
        }))
    };
    let of_fault = |line: JournalLine| JournalLine {
        faults: vec!["full".into()],
        ..line
    };
    assert_eq!(
        [
            adopted(vec![("vm".into(), AT), ("node".into(), AT)], false),
            adopted(vec![], true),
            line(event(EventKind::StageReached("vm".into()))),
            line(event(EventKind::Deleted)),
            leaked(false, false),
            leaked(true, false),
            leaked(false, true),
            line(event(EventKind::LeakedDeleted { since: AT })),
            affected_ids(Some(active_effect_of(&visible_effect))),
            affected_ids(None),
            line(Record::CapacityFreed {
                at: AT,
                capacity: Capacity::Zone("a".into()),
                waiting: machine()
            }),
        ],
        [
            expected("Adopted", "Known again after a restart, with vm, node"),
            expected(
                "Adopted",
                "Known again after a restart, while it is being deleted"
            ),
            expected("StageReached", "vm"),
            expected("Deleted", ""),
            of_fault(expected(
                "Leaked",
                "The instance still exists, and has no owner (Fault full)"
            )),
            of_fault(expected(
                "Leaked",
                "Known again after a restart: the instance still exists, and has no owner (Fault full)",
            )),
            of_fault(expected(
                "Leaked",
                "A repeated creation made a second instance; the first one still exists, and has no owner (Fault full)",
            )),
            expected("LeakedDeleted", "The leaked instance is deleted"),
            of_fault(expected(
                "Afflicted",
                "The etcd member raises alarm NOSPACE (Fault full)"
            )),
            of_fault(expected("Healed", "Healed (Fault full)")),
            expected("RoomFreed", "There is room in zone a"),
        ]
    );
}

#[test]
fn a_line_reads_back_and_leaves_out_what_is_empty() {
    let line = expected("Deleted", "");
    let text = serde_json::to_string(&line).expect("it can be written");
    assert_eq!(
        text,
        "{\"sequence\":7,\"time\":\"1970-01-01T00:00:05Z\",\"namespace\":\"default\",\"cluster\":\"demo\",\
         \"kind\":\"Machine\",\"name\":\"m\",\"event\":\"Deleted\"}"
    );
    assert_eq!(serde_json::from_str::<JournalLine>(&text).expect("a line"), line);
}
