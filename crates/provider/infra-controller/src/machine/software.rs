//! The software that a machine runs, and the software that an update requests. Pure.

use jiff::Timestamp;
use nephele_api::{
    conditions::{reasons, types},
    core::Machine,
    infrastructure::v1beta2::{
        InMemoryMachine,
        pool_machine::{VERSION_ANNOTATION, annotation},
        update::{self, UPDATE_IN_PROGRESS_ANNOTATION},
    },
};
use nephele_cloud::{Files, Latency, MachineUpdate, Software};

/// The software that the machine of an object runs.
///
/// Once the machine has booted, this is the software in its origin, even if the specs already have other values: an
/// update in place changes it when its time is over. Without an update in place, only the version follows the Machine,
/// for people who change it by hand and for extensions that know nothing of this provider.
pub(super) fn software(object: &InMemoryMachine, machine: &Machine) -> Software {
    // The Machine of a pool's machine has no version before its Node exists.
    let version = annotation(&object.metadata, VERSION_ANNOTATION)
        .map_or_else(|| machine.spec.version.clone(), str::to_owned);
    let Some(known) = recorded(object) else {
        return Software {
            version,
            image: text(&object.spec.image),
            ..Software::default()
        };
    };
    if version.is_empty() || is_updating(object, machine) {
        known
    } else {
        Software { version, ..known }
    }
}

/// The software in the origin of a machine that has booted.
pub(super) fn recorded(object: &InMemoryMachine) -> Option<Software> {
    object.origin().and_then(|origin| origin.software).map(from_api)
}

/// Whether the Machine of a booted machine has another version although no update was requested. This is rare. The
/// cached Machine may then be older than the update in the InMemoryMachine, because each has its own cache.
pub(super) fn follows(object: &InMemoryMachine, machine: &Machine) -> bool {
    recorded(object).is_some_and(|known| software(object, machine).version != known.version)
}

/// Whether an update in place was requested, is in progress or failed.
fn is_updating(object: &InMemoryMachine, machine: &Machine) -> bool {
    let marked = |metadata| annotation(metadata, UPDATE_IN_PROGRESS_ANNOTATION).is_some();
    let asked = object.update().is_some_and(|update| update.ended.is_none());
    marked(&machine.metadata) || marked(&object.metadata) || asked
}

/// The update that the object requests, unless it has ended.
pub(super) fn update(object: &InMemoryMachine) -> Option<Box<MachineUpdate>> {
    let asked = object.update().filter(|update| update.ended.is_none())?;
    Some(Box::new(MachineUpdate {
        asked_at: asked.asked_at.0,
        takes: asked.duration.map_or(Latency::ZERO, |duration| {
            Latency::jittered(&duration, asked.jitter.as_ref())
        }),
        software: from_api(asked.software),
        fails: !asked.failure.is_empty(),
        is_accepted: is_accepted(object, asked.asked_at.0),
    }))
}

/// Whether the cloud has accepted the update that was requested at a time: only then a status says that it is under way.
fn is_accepted(object: &InMemoryMachine, asked_at: Timestamp) -> bool {
    let status = object.status.iter().flat_map(|status| &status.conditions);
    let mut under_way = status.filter(|condition| {
        condition.type_ == types::UPDATING && condition.reason == reasons::IN_PLACE_UPDATING
    });
    // A condition counts whole seconds.
    under_way.any(|condition| condition.last_transition_time.0.as_second() >= asked_at.as_second())
}

/// The software as an origin records it.
pub(super) fn to_api(software: &Software) -> update::Software {
    let Software {
        version,
        image,
        etcd_image_tag,
        files,
    } = software.clone();
    let files = files.map(|Files { digest, contents }| update::Files { digest, contents });
    update::Software {
        version,
        image: image.unwrap_or_default(),
        etcd_image_tag: etcd_image_tag.unwrap_or_default(),
        files,
    }
}

fn from_api(software: update::Software) -> Software {
    let update::Software {
        version,
        image,
        etcd_image_tag,
        files,
    } = software;
    let files = files.map(|update::Files { digest, contents }| Files { digest, contents });
    Software {
        version,
        image: text(&image),
        etcd_image_tag: text(&etcd_image_tag),
        files,
    }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
    use kube::ResourceExt as _;
    use nephele_api::{
        conditions::{self, condition},
        infrastructure::v1beta2::{InMemoryMachineStatus, creation_record::CreationRecord, update::Update},
    };
    use nephele_model::{Fraction, GoDuration};
    use nephele_testkit::objects;

    use super::*;

    fn running(version: &str) -> update::Software {
        let files = update::Files {
            digest: "d".into(),
            contents: BTreeMap::from([("/etc/motd".into(), "sha256:ab".into())]),
        };
        update::Software {
            version: version.into(),
            image: "old".into(),
            etcd_image_tag: "3.6.8-0".into(),
            files: Some(files),
        }
    }

    fn time() -> MicroTime {
        MicroTime("2026-01-02T03:04:05.678901Z".parse().expect("an instant"))
    }

    fn asked(ended: Option<MicroTime>) -> Update {
        Update {
            software: running("v1.36.4"),
            asked_at: time(),
            duration: GoDuration::parse("1m30s").ok(),
            jitter: Fraction::parse("0.5").ok(),
            failure: String::new(),
            ended,
        }
    }

    /// A Machine that is to have v1.36.4, and the object of its machine that booted with v1.36.3.
    fn found() -> (InMemoryMachine, Machine) {
        let mut machine = objects::control_plane("demo", "m");
        machine.spec.version = "v1.36.4".into();
        let mut object = objects::in_memory_machine(&machine);
        object.spec.image = "new".into();
        object.instance_mut().origin = Some(CreationRecord {
            software: Some(running("v1.36.3")),
            ..CreationRecord::begun(time())
        });
        (object, machine)
    }

    #[test]
    fn a_machine_that_has_not_booted_runs_what_it_is_to_run() {
        let (mut object, machine) = found();
        object.spec.instance = None;
        let expected = Software {
            version: "v1.36.4".into(),
            image: Some("new".into()),
            ..Software::default()
        };
        assert_eq!(software(&object, &machine), expected);
        // One of a manager that did not note it yet.
        object.instance_mut().origin = Some(CreationRecord::begun(time()));
        assert_eq!(software(&object, &machine), expected);
    }

    #[test]
    fn what_was_noted_stays_while_an_update_is_to_come_or_under_way_and_without_one_the_version_follows() {
        let noted = |version: &str| from_api(running(version));
        let (object, machine) = found();
        assert_eq!(software(&object, &machine), noted("v1.36.4"));
        let mark = (UPDATE_IN_PROGRESS_ANNOTATION.to_owned(), String::new());

        let (object, mut machine) = found();
        machine.annotations_mut().extend([mark.clone()]);
        assert_eq!(software(&object, &machine), noted("v1.36.3"));
        let (mut object, machine) = found();
        object.annotations_mut().extend([mark]);
        assert_eq!(software(&object, &machine), noted("v1.36.3"));
        for (ended, expected) in [(None, "v1.36.3"), (Some(time()), "v1.36.4")] {
            let (mut object, machine) = found();
            object.instance_mut().update = Some(asked(ended));
            assert_eq!(software(&object, &machine), noted(expected));
        }
    }

    #[test]
    fn a_machine_follows_when_its_machine_says_another_version_and_no_update_is_announced() {
        let (mut object, mut machine) = found();
        assert!(follows(&object, &machine));
        machine
            .annotations_mut()
            .extend([(UPDATE_IN_PROGRESS_ANNOTATION.to_owned(), String::new())]);
        assert!(!follows(&object, &machine));
        machine.annotations_mut().clear();
        machine.spec.version = "v1.36.3".into();
        assert!(!follows(&object, &machine));
        machine.spec.version = "v1.36.4".into();
        object.spec.instance = None;
        assert!(!follows(&object, &machine), "it has not begun");
    }

    #[test]
    fn a_version_that_is_not_set_changes_nothing() {
        let (object, mut machine) = found();
        machine.spec.version.clear();
        assert_eq!(software(&object, &machine), from_api(running("v1.36.3")));
        let (mut object, machine) = found();
        object
            .annotations_mut()
            .insert(VERSION_ANNOTATION.into(), "v1.36.9".into());
        assert_eq!(software(&object, &machine).version, "v1.36.9");
    }

    #[test]
    fn an_update_is_asked_for_until_it_is_over() {
        let (mut object, _) = found();
        assert_eq!(update(&object), None);
        let expected = MachineUpdate {
            asked_at: time().0,
            takes: Latency::Jittered {
                base: std::time::Duration::from_secs(90),
                fraction: 0.5,
            },
            software: from_api(running("v1.36.4")),
            fails: false,
            is_accepted: false,
        };
        object.instance_mut().update = Some(asked(None));
        assert_eq!(update(&object), Some(Box::new(expected.clone())));
        let fails = Update {
            failure: "no space".into(),
            ..asked(None)
        };
        object.instance_mut().update = Some(fails);
        assert_eq!(
            update(&object),
            Some(Box::new(MachineUpdate {
                fails: true,
                ..expected
            }))
        );
        object.instance_mut().update = Some(asked(None));
        let updating = |second: i64| {
            let condition = condition(types::UPDATING, conditions::TRUE, reasons::IN_PLACE_UPDATING, "");
            let since = Timestamp::from_second(time().0.as_second() + second).expect("in range");
            let conditions = vec![Condition {
                last_transition_time: Time(since),
                ..condition
            }];
            Some(InMemoryMachineStatus {
                conditions,
                ..InMemoryMachineStatus::default()
            })
        };
        // The condition of an earlier update.
        object.status = updating(-1);
        assert_eq!(update(&object).map(|update| update.is_accepted), Some(false));
        object.status = updating(0);
        assert_eq!(update(&object).map(|update| update.is_accepted), Some(true));
        object.instance_mut().update = Some(asked(Some(time())));
        assert_eq!(update(&object), None);
    }

    #[test]
    fn what_is_noted_reads_back_as_it_runs() {
        let runs = from_api(running("v1.36.3"));
        assert_eq!(from_api(to_api(&runs)), runs);
        let bare = Software {
            version: "v1.36.3".into(),
            ..Software::default()
        };
        assert_eq!(from_api(to_api(&bare)), bare);
    }
}
