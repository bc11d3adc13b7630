use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use nephele_api::{
    conditions::condition,
    infrastructure::v1beta2::{
        InMemoryMachineStatus, PoolReference,
        deletion::Deletion,
        instance::InstanceRecord,
        termination::{TERMINATE_ANNOTATION, Termination},
    },
};
use nephele_cloud::Allocation;
use nephele_model::{Caller, ClusterId};
use nephele_testkit::objects;

use super::*;

fn wanted(role: Role) -> Wanted {
    let cluster = ClusterId {
        namespace: "default".into(),
        name: "demo".into(),
    };
    Wanted {
        spec: MachineSpec {
            id: MachineId {
                cluster,
                name: "m".into(),
            },
            labels: [].into(),
            role,
            caller: Caller::Machine,
            version: "v1.36.3".into(),
            zone: None,
            region: None,
            cloud_spec: String::new(),
            instance_type: None,
            market: nephele_model::Market::OnDemand,
            hardware: None,
            image: None,
            start_up: BTreeMap::new(),
            allocation: Allocation::default(),
            started_at: None,
            reached: BTreeMap::new(),
            is_deregistered: false,
            etcd_member_removed: false,
            etcd_image_tag: None,
            files: None,
            kubeadm: None,
            update: None,
        },
        claims: vec![],
        mistake: None,
        infrastructure_provisioned: true,
        control_plane_initialized: true,
        bootstrapped: true,
        simulated: Simulated::Yes,
        provisioned: false,
        exists: false,
        has_vanished: false,
    }
}

/// The decision once extensions have allowed the machine, if they are asked.
fn plan(object: &InMemoryMachine, validated: Validated) -> Decision {
    decided(first(object, validated), Answered::Said(Answer::Continue))
}

/// The decision by the answer of the extensions, if they are asked.
fn decided(plan: Plan, answer: Answered) -> Decision {
    match plan {
        Plan::Ask(wanted) => answered(*wanted, answer),
        Plan::Decided(decision) => decision,
    }
}

fn paused() -> Validated {
    Validated::Paused {
        message: "p".into(),
        begun: None,
    }
}

fn object() -> InMemoryMachine {
    objects::in_memory_machine(&objects::worker("demo", "m"))
}

#[test]
fn a_machine_waits_for_what_comes_first() {
    let worker = wanted(Role::Worker);
    let control_plane = wanted(Role::ControlPlane);
    let mistake = Mistake::FailureDomain {
        wanted: "c".into(),
        known: vec!["a".into()],
    };
    let nothing_yet = Wanted {
        infrastructure_provisioned: false,
        control_plane_initialized: false,
        bootstrapped: false,
        simulated: Simulated::No,
        ..worker.clone()
    };
    let uninitialized = Wanted {
        infrastructure_provisioned: true,
        ..nothing_yet.clone()
    };
    let bad = Simulated::WithBadAuthorities("broken".into());
    for (wanted, expected) in [
        (worker.clone(), None),
        (control_plane.clone(), None),
        (nothing_yet.clone(), Some(Waiting::ClusterInfrastructure)),
        (uninitialized.clone(), Some(Waiting::ControlPlaneInitialized)),
        (
            Wanted {
                control_plane_initialized: true,
                ..uninitialized.clone()
            },
            Some(Waiting::BootstrapData),
        ),
        (
            Wanted {
                bootstrapped: false,
                control_plane_initialized: false,
                ..control_plane.clone()
            },
            Some(Waiting::BootstrapData),
        ),
        // A control plane machine does not wait for itself.
        (
            Wanted {
                control_plane_initialized: false,
                ..control_plane.clone()
            },
            None,
        ),
        (
            Wanted {
                simulated: Simulated::No,
                ..worker.clone()
            },
            Some(Waiting::SimulatedCluster),
        ),
        (
            Wanted {
                simulated: Simulated::WithoutAuthorities,
                ..worker.clone()
            },
            None,
        ),
        (
            Wanted {
                simulated: Simulated::WithoutAuthorities,
                ..control_plane.clone()
            },
            Some(Waiting::Authorities),
        ),
        (
            Wanted {
                simulated: bad.clone(),
                ..worker.clone()
            },
            None,
        ),
        (
            Wanted {
                simulated: bad,
                ..control_plane.clone()
            },
            Some(Waiting::ValidAuthorities("broken".into())),
        ),
        (
            Wanted {
                mistake: Some(mistake.clone()),
                ..nothing_yet.clone()
            },
            Some(Waiting::Correction(mistake)),
        ),
        // A machine that was provisioned once does not wait for its owners again, but for the cloud after a restart.
        (
            Wanted {
                provisioned: true,
                simulated: Simulated::Yes,
                ..nothing_yet.clone()
            },
            None,
        ),
        (
            Wanted {
                provisioned: true,
                ..nothing_yet
            },
            Some(Waiting::SimulatedCluster),
        ),
        (
            Wanted {
                spec: MachineSpec {
                    started_at: Some(Timestamp::UNIX_EPOCH),
                    ..uninitialized.spec.clone()
                },
                ..uninitialized.clone()
            },
            Some(Waiting::SimulatedCluster),
        ),
    ] {
        assert_eq!(waits_for(&wanted), expected, "{wanted:?}");
    }
}

#[test]
fn a_living_object_is_provided_once_nothing_is_missing() {
    let id = wanted(Role::Worker).spec.id;
    let gated = Wanted {
        bootstrapped: false,
        ..wanted(Role::Worker)
    };
    for (validated, expected) in [
        (
            Validated::ExternallyManaged,
            Decision::Leave(Outcome::WaitingOn("external manager")),
        ),
        (
            Validated::WithoutOwner(Some(id.clone())),
            Decision::Leave(Outcome::WaitingOn("owner")),
        ),
        (
            Validated::Orphaned(Some(id)),
            Decision::Leave(Outcome::WaitingOn("machine and cluster")),
        ),
        (
            paused(),
            Decision::Pause {
                message: "p".into(),
                kept: None,
            },
        ),
        (
            Validated::Wanted(Box::new(gated)),
            Decision::Wait {
                waiting: Waiting::BootstrapData,
                role: Role::Worker,
                cluster: "demo".into(),
                missing: vec![],
            },
        ),
        (
            Validated::Wanted(Box::new(wanted(Role::Worker))),
            Decision::Provide {
                spec: Box::new(wanted(Role::Worker).spec),
                claimed: vec![],
            },
        ),
    ] {
        assert_eq!(plan(&object(), validated), expected);
    }
}

#[test]
fn deletion_waits_for_nothing_but_a_pause() {
    let mut object = object();
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let gated = || {
        let gated = Wanted {
            infrastructure_provisioned: false,
            bootstrapped: false,
            ..wanted(Role::Worker)
        };
        Validated::Wanted(Box::new(gated))
    };
    assert_eq!(plan(&object, gated()), Decision::Leave(Outcome::Done));
    object.metadata.finalizers = Some(vec![finalizers::MACHINE.into()]);
    let id = wanted(Role::Worker).spec.id;
    assert_eq!(plan(&object, gated()), Decision::Remove(Some(id.clone())));
    assert_eq!(
        plan(&object, Validated::Orphaned(Some(id.clone()))),
        Decision::Remove(Some(id))
    );
    assert_eq!(
        plan(&object, Validated::WithoutOwner(None)),
        Decision::Remove(None)
    );
    assert_eq!(
        plan(&object, paused()),
        Decision::Pause {
            message: "p".into(),
            kept: None
        }
    );
}

#[test]
fn a_machine_from_before_a_restart_is_restored_before_it_is_deleted() {
    let mut object = object();
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    object.metadata.finalizers = Some(vec![finalizers::MACHINE.into()]);
    let begun = Wanted {
        provisioned: true,
        ..wanted(Role::Worker)
    };
    let planned =
        |object: &InMemoryMachine, wanted: &Wanted| plan(object, Validated::Wanted(Box::new(wanted.clone())));
    assert_eq!(
        planned(&object, &begun),
        Decision::ResumeRemoval(Box::new(begun.spec.clone()))
    );
    let remove = Decision::Remove(Some(begun.spec.id.clone()));
    assert_eq!(
        planned(
            &object,
            &Wanted {
                exists: true,
                ..begun.clone()
            }
        ),
        remove
    );
    let time = || MicroTime(Timestamp::UNIX_EPOCH);
    object.instance_mut().deletion = Some(Deletion {
        time: time(),
        ended: Some(time()),
    });
    assert_eq!(planned(&object, &begun), remove);
}

#[test]
fn missing_claims_are_made_while_a_machine_waits_and_it_boots_when_all_are_bound() {
    let claim = |index: usize, state| Claim {
        wanted: claims::Wanted {
            name: format!("m-0-{index}"),
            pool: PoolReference::default(),
        },
        state,
    };
    let given = |address: &str| ClaimedAddress {
        address: address.into(),
        ..ClaimedAddress::default()
    };
    let bound = |index, address| claim(index, ClaimState::Bound(given(address)));
    let unmet = [bound(0, "10.0.0.7"), claim(1, ClaimState::Missing)];
    let with = |claims: &[Claim]| Wanted {
        claims: claims.to_vec(),
        ..wanted(Role::Worker)
    };
    let plan_of = |wanted: Wanted| plan(&object(), Validated::Wanted(Box::new(wanted)));
    let wait = |waiting, missing: &[Claim]| Decision::Wait {
        waiting,
        role: Role::Worker,
        cluster: "demo".into(),
        missing: missing.to_vec(),
    };
    let addresses = Waiting::Addresses(Unmet::of(&unmet).expect("one is not bound"));
    assert_eq!(plan_of(with(&unmet)), wait(addresses, &unmet[1..]));
    // Its addresses are claimed while it waits, but not when the wait may never end.
    let gated = Wanted {
        bootstrapped: false,
        ..with(&unmet)
    };
    assert_eq!(plan_of(gated), wait(Waiting::BootstrapData, &unmet[1..]));
    let early = Wanted {
        infrastructure_provisioned: false,
        ..with(&unmet)
    };
    assert_eq!(plan_of(early), wait(Waiting::ClusterInfrastructure, &[]));
    let before_the_control_plane = Wanted {
        bootstrapped: false,
        control_plane_initialized: false,
        ..with(&unmet)
    };
    assert_eq!(
        plan_of(before_the_control_plane),
        wait(Waiting::ControlPlaneInitialized, &[])
    );

    let all = with(&[bound(0, "10.0.0.7"), bound(1, "fd00::7")]);
    let claimed = vec![given("10.0.0.7"), given("fd00::7")];
    assert_eq!(
        plan_of(all.clone()),
        Decision::Provide {
            spec: Box::new(all.spec),
            claimed
        }
    );
}

#[test]
fn the_condition_shows_the_end_of_a_pause_before_work_begins() {
    let mut object = object();
    let paused = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, "p");
    object.status = Some(InMemoryMachineStatus {
        conditions: vec![paused],
        ..InMemoryMachineStatus::default()
    });
    assert_eq!(
        plan(&object, Validated::Wanted(Box::new(wanted(Role::Worker)))),
        Decision::Unpause
    );
}

/// The start time from its status or, after a move, from its origin: both are the time in the MachineSpec.
#[test]
fn a_machine_begins_once() {
    let fresh = wanted(Role::Worker);
    let booting = MachineSpec {
        started_at: Some(Timestamp::UNIX_EPOCH),
        ..fresh.spec.clone()
    };
    for (wanted, expected) in [
        (fresh.clone(), true),
        (
            Wanted {
                spec: booting.clone(),
                ..fresh.clone()
            },
            false,
        ),
        (
            Wanted {
                provisioned: true,
                ..fresh.clone()
            },
            false,
        ),
        (
            Wanted {
                provisioned: true,
                spec: booting,
                ..fresh.clone()
            },
            false,
        ),
        (
            Wanted {
                exists: true,
                ..fresh
            },
            false,
        ),
    ] {
        let planned = first(&object(), Validated::Wanted(Box::new(wanted.clone())));
        let provide = Decision::Provide {
            spec: Box::new(wanted.spec.clone()),
            claimed: vec![],
        };
        assert_eq!(
            planned,
            if expected {
                Plan::Ask(Box::new(wanted))
            } else {
                Plan::Decided(provide)
            }
        );
    }
}

#[test]
fn an_extension_has_a_machine_wait_until_it_begins() {
    let planned = |wanted: &Wanted, answer: Answered| {
        decided(
            first(&object(), Validated::Wanted(Box::new(wanted.clone()))),
            answer,
        )
    };
    let wait = |waiting| Decision::Wait {
        waiting,
        role: Role::Worker,
        cluster: "demo".into(),
        missing: vec![],
    };
    let after = Duration::from_secs(7);
    let message = "not yet".to_owned();
    let later = || {
        Answered::Said(Answer::Wait {
            after,
            message: message.clone(),
        })
    };
    let fresh = wanted(Role::Worker);
    assert_eq!(
        planned(&fresh, later()),
        wait(Waiting::Hook {
            after,
            message: message.clone()
        })
    );
    let failed = Answered::Failed("unreachable".into());
    assert_eq!(
        planned(&fresh, failed),
        wait(Waiting::FailedHook("unreachable".into()))
    );
    let provide = Decision::Provide {
        spec: Box::new(fresh.spec.clone()),
        claimed: vec![],
    };
    assert_eq!(planned(&fresh, Answered::Said(Answer::Continue)), provide);
    let exists = Wanted {
        exists: true,
        ..fresh
    };
    assert_eq!(planned(&exists, later()), provide);
}

#[test]
fn an_instance_vanishes_once_it_is_there_and_stays_gone_whatever_changes_later() {
    let begun = Wanted {
        spec: MachineSpec {
            started_at: Some(Timestamp::UNIX_EPOCH),
            ..wanted(Role::Worker).spec
        },
        ..wanted(Role::Worker)
    };
    let noted = |object: &InMemoryMachine, wanted: &Wanted| match plan(
        object,
        Validated::Wanted(Box::new(wanted.clone())),
    ) {
        Decision::Terminate { spec, noted } => {
            assert_eq!(*spec, wanted.spec);
            Some(noted)
        }
        _ => None,
    };
    assert_eq!(noted(&object(), &begun), None);
    let mut asked = object();
    objects::annotate(&mut asked, TERMINATE_ANNOTATION, "");
    assert_eq!(noted(&asked, &begun), Some(false));
    // There is no instance yet.
    assert_eq!(noted(&asked, &wanted(Role::Worker)), None);
    // A fault made it vanish.
    assert_eq!(
        noted(
            &object(),
            &Wanted {
                has_vanished: true,
                ..begun.clone()
            }
        ),
        Some(false)
    );
    let mut gone = object();
    let termination = Some(Termination {
        time: MicroTime(Timestamp::UNIX_EPOCH),
    });
    let instance = InstanceRecord {
        machine: "m".into(),
        termination,
        ..InstanceRecord::default()
    };
    gone.spec.instance = Some(Box::new(instance));
    assert_eq!(noted(&gone, &begun), Some(true));
    // As after a move to another management cluster.
    assert_eq!(noted(&gone, &wanted(Role::Worker)), Some(true));
    let mut copied = gone.clone();
    copied.spec.instance.as_mut().expect("it is kept").machine = "other".into();
    assert_eq!(noted(&copied, &begun), None);
    let mut going = gone.clone();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(noted(&going, &begun), None);
    let mut paused = gone;
    let condition = condition(types::PAUSED, conditions::TRUE, reasons::PAUSED, "");
    paused.status.get_or_insert_default().conditions.push(condition);
    assert_eq!(noted(&paused, &begun), None);
}

#[test]
fn a_paused_machine_continues_once_its_cluster_is_back() {
    let begun = |simulated| Wanted {
        provisioned: true,
        simulated,
        ..wanted(Role::ControlPlane)
    };
    let kept = |wanted: Wanted| {
        let validated = Validated::Paused {
            message: "p".into(),
            begun: Some(Box::new(wanted)),
        };
        match plan(&object(), validated) {
            Decision::Pause { kept, .. } => kept.is_some(),
            other => panic!("{other:?}"),
        }
    };
    assert!(kept(begun(Simulated::Yes)));
    for not_yet in [Simulated::No, Simulated::WithoutAuthorities] {
        assert!(!kept(begun(not_yet)));
    }
}

mod finalizer;
