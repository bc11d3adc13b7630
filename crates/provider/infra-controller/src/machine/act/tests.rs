use jiff::Timestamp;
use nephele_api::infrastructure::v1beta2::{instance::InstanceRecord, update};
use nephele_cloud::{Software, StageObservation, UpdateObservation};
use nephele_testkit::objects;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("in range")
}

fn object() -> InMemoryMachine {
    objects::in_memory_machine(&objects::worker("demo", "m"))
}

/// A worker that started after one second and has reached these stages.
fn observed(reached: &[(Stage, i64)]) -> MachineObservation {
    let state = |stage: Stage| {
        let found = reached.iter().find(|(known, _)| *known == stage);
        found.map_or(StageObservation::Blocked, |(_, millis)| {
            StageObservation::Reached { at: at(*millis) }
        })
    };
    MachineObservation {
        started_at: at(1000),
        stages: [Stage::Vm, Stage::Node]
            .into_iter()
            .map(|stage| (stage, state(stage)))
            .collect(),
        provider_id: "in-memory://m".into(),
        allocation: Allocation {
            owner_set: "machinedeployment/md".into(),
            ordinal: Some(2),
            ..Allocation::default()
        },
        zone: None,
        cloud_spec: "north".into(),
        region: None,
        hardware: Hardware::default(),
        software: Software {
            version: "v1.36.3".into(),
            ..Software::default()
        },
        kubeadm: None,
        update: None,
        deleting: false,
        wrong: BTreeMap::new(),
    }
}

fn expected(reached: &[(&str, i64)]) -> InstanceRecord {
    let software = update::Software {
        version: "v1.36.3".into(),
        ..update::Software::default()
    };
    let origin = CreationRecord {
        software: Some(software),
        seed_key: Some(SeedKey {
            owner_set: "machinedeployment/md".into(),
            ordinal: 2,
        }),
        reached: reached
            .iter()
            .map(|(stage, millis)| ((*stage).to_owned(), MicroTime(at(*millis))))
            .collect(),
        cloud: "north".into(),
        ..CreationRecord::begun(MicroTime(at(1000)))
    };
    InstanceRecord {
        machine: "m".into(),
        origin: Some(origin),
        ..InstanceRecord::default()
    }
}

#[test]
fn how_a_machine_came_to_be_is_written_when_it_begins_when_it_has_a_name_and_when_it_is_up() {
    let mut object = object();
    let mut write = |observed: &MachineObservation| {
        let (written, precondition) = recorded(&object, observed)?;
        let expected = if object.origin().is_none() {
            Precondition::ResourceVersion
        } else {
            Precondition::None
        };
        assert_eq!(precondition, expected);
        object = written;
        Some((
            object.spec.provider_id.clone(),
            object.instance().expect("it is kept"),
        ))
    };
    assert_eq!(write(&observed(&[])), Some((String::new(), expected(&[]))));
    assert_eq!(write(&observed(&[])), None);
    let named = "in-memory://m".to_owned();
    let booted = observed(&[(Stage::Vm, 2345)]);
    assert_eq!(write(&booted), Some((named.clone(), expected(&[("vm", 2345)]))));
    assert_eq!(write(&booted), None);
    let up = [("node", 3456), ("vm", 2345)];
    assert_eq!(
        write(&observed(&[(Stage::Vm, 2345), (Stage::Node, 3456)])),
        Some((named, expected(&up)))
    );
    // After a restart, with times in whole seconds.
    assert_eq!(write(&observed(&[(Stage::Vm, 2000), (Stage::Node, 3000)])), None);
}

#[test]
fn times_of_a_manager_that_began_the_machine_at_another_time_are_replaced() {
    let mut object = object();
    let late = MachineObservation {
        started_at: at(-150),
        ..observed(&[(Stage::Vm, 2345)])
    };
    object = recorded(&object, &late).expect("it is new").0;
    let up = observed(&[(Stage::Vm, 3345), (Stage::Node, 4456)]);
    object = recorded(&object, &up).expect("it began at another time").0;
    assert_eq!(object.instance(), Some(expected(&[("node", 4456), ("vm", 3345)])));
}

#[test]
fn the_end_of_an_update_is_written_over_no_other_update() {
    let mut object = object();
    let up = observed(&[(Stage::Vm, 2000), (Stage::Node, 3000)]);
    object = recorded(&object, &up).expect("it is new").0;
    let asked = Update {
        software: update::Software {
            version: "v1.36.4".into(),
            ..update::Software::default()
        },
        asked_at: MicroTime(at(5000)),
        duration: None,
        jitter: None,
        failure: String::new(),
        ended: None,
    };
    object.instance_mut().update = Some(asked.clone());
    assert_eq!(recorded(&object, &up), None);
    let update = Some(UpdateObservation {
        asked_at: at(5000),
        ended: Some(at(6000)),
    });
    let (written, precondition) =
        recorded(&object, &MachineObservation { update, ..up.clone() }).expect("it is over");
    assert_eq!(precondition, Precondition::ResourceVersion);
    assert_eq!(
        written.update(),
        Some(Update {
            ended: Some(MicroTime(at(6000))),
            ..asked
        })
    );
    let earlier = Some(UpdateObservation {
        asked_at: at(4000),
        ended: Some(at(4500)),
    });
    assert_eq!(
        recorded(
            &object,
            &MachineObservation {
                update: earlier,
                ..up
            }
        ),
        None
    );
}
