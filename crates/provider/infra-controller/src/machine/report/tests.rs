use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, update};
use nephele_cloud::{Allocation, Hardware, MachineError, Software};
use nephele_model::{ClusterId, MachineId};
use nephele_testkit::objects;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn object() -> InMemoryMachine {
    let mut object = objects::in_memory_machine(&objects::control_plane("demo", "m"));
    object.metadata.generation = Some(3);
    object
}

fn since(second: i64, kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        last_transition_time: Time(at(second)),
        observed_generation: Some(3),
        ..condition(kind, status, reason, message)
    }
}

fn observed(stages: [StageObservation; 4]) -> MachineObservation {
    MachineObservation {
        started_at: at(1),
        stages: Stage::ALL.into_iter().zip(stages).collect(),
        provider_id: "in-memory://m".into(),
        allocation: Allocation {
            addresses: vec![nephele_cloud::MachineAddress {
                kind: "InternalIP".into(),
                address: "10.0.0.7".into(),
            }],
            ..Allocation::default()
        },
        zone: Some("a".into()),
        cloud_spec: "north".into(),
        region: None,
        hardware: Hardware::default(),
        software: Software::default(),
        kubeadm: None,
        update: None,
        deleting: false,
        wrong: BTreeMap::new(),
    }
}

#[test]
fn a_waiting_machine_says_what_for() {
    let status = waiting(&object(), &Waiting::BootstrapData, Role::ControlPlane, at(5));
    let message = "Waiting for the bootstrap provider to provide bootstrap data";
    let blocked = "WaitingForVMProvisioned";
    let ready = format!("VMProvisioned: {message}");
    let expected = InMemoryMachineStatus {
        conditions: vec![
            since(5, "Paused", "False", "NotPaused", ""),
            since(5, "VMProvisioned", "False", "WaitingForBootstrapData", message),
            since(5, "NodeProvisioned", "False", blocked, ""),
            since(5, "EtcdProvisioned", "False", blocked, ""),
            since(5, "APIServerProvisioned", "False", blocked, ""),
            since(5, "Ready", "False", "NotReady", &ready),
        ],
        ..InMemoryMachineStatus::default()
    };
    assert_eq!(status, expected);
}

#[test]
fn a_machine_of_the_market_spot_may_be_interrupted_from_the_start() {
    let stages = [const { StageObservation::Waiting { due: None } }; 4];
    let status = |market: &str| {
        let mut object = object();
        object.spec.market = market.to_owned();
        observed_status(&object, &observed(stages.clone()), at(9))
    };
    let of_demand = status("OnDemand");
    assert_eq!(
        status("Spot"),
        InMemoryMachineStatus {
            interruptible: true,
            ..of_demand
        }
    );
}

#[test]
fn a_booting_machine_becomes_provisioned_with_its_addresses() {
    let mut object = object();
    object.status = Some(waiting(
        &object,
        &Waiting::BootstrapData,
        Role::ControlPlane,
        at(5),
    ));
    let due = at(20);
    let stages = [
        StageObservation::Waiting { due: Some(due) },
        StageObservation::Blocked,
        StageObservation::Blocked,
        StageObservation::Blocked,
    ];
    let booting = observed_status(&object, &observed(stages), at(9));
    assert_eq!(
        (booting.initialization.clone(), booting.start_time.clone()),
        (None, Some(MicroTime(at(1))))
    );
    assert_eq!(booting.addresses, []);
    assert_eq!(
        booting.conditions[1..4],
        [
            since(5, "VMProvisioned", "False", "WaitingForStartupTimeout", ""),
            since(5, "NodeProvisioned", "False", "WaitingForVMProvisioned", ""),
            since(5, "EtcdProvisioned", "False", "WaitingForVMProvisioned", ""),
        ]
    );
    object.status = Some(booting);
    let stages = [
        StageObservation::Reached { at: at(20) },
        StageObservation::Waiting { due: Some(at(30)) },
        StageObservation::Blocked,
        StageObservation::Blocked,
    ];
    let booted = observed_status(&object, &observed(stages), at(21));
    let waiting = "WaitingForNodeProvisioned";
    let ready = "NodeProvisioned: WaitingForStartupTimeout";
    let expected = InMemoryMachineStatus {
        initialization: Some(Initialization {
            provisioned: Some(true),
        }),
        start_time: Some(MicroTime(at(1))),
        network: None,
        addresses: vec![MachineAddress {
            kind: "InternalIP".into(),
            address: "10.0.0.7".into(),
        }],
        failure_domain: "a".into(),
        interruptible: false,
        conditions: vec![
            since(5, "Paused", "False", "NotPaused", ""),
            since(20, "VMProvisioned", "True", "Provisioned", ""),
            since(5, "NodeProvisioned", "False", "WaitingForStartupTimeout", ""),
            since(5, "EtcdProvisioned", "False", waiting, ""),
            since(5, "APIServerProvisioned", "False", waiting, ""),
            since(5, "Ready", "False", "NotReady", ready),
        ],
    };
    assert_eq!(booted, expected);
}

#[test]
fn a_machine_is_ready_when_all_its_stages_are() {
    let reached = |second| StageObservation::Reached { at: at(second) };
    let stages = [reached(1), reached(2), reached(3), reached(4)];
    let status = observed_status(&object(), &observed(stages), at(9));
    let expected = [
        since(9, "Paused", "False", "NotPaused", ""),
        since(1, "VMProvisioned", "True", "Provisioned", ""),
        since(2, "NodeProvisioned", "True", "Provisioned", ""),
        since(3, "EtcdProvisioned", "True", "Provisioned", ""),
        since(4, "APIServerProvisioned", "True", "Provisioned", ""),
        since(9, "Ready", "True", "Ready", ""),
    ];
    assert_eq!(status.conditions, expected);
    let again = InMemoryMachine {
        status: Some(status.clone()),
        ..object()
    };
    let stages = [reached(1), reached(2), reached(3), reached(4)];
    assert_eq!(observed_status(&again, &observed(stages), at(99)), status);
}

#[test]
fn what_the_pools_gave_is_shown_and_stays() {
    let reached = |second| StageObservation::Reached { at: at(second) };
    let observed = observed([reached(1), reached(2), reached(3), reached(4)]);
    let given = ClaimedAddress {
        address: "10.0.0.7".into(),
        prefix: Some(24),
        gateway: "10.0.0.1".into(),
    };
    let applied = |claimed| Applied {
        object: None,
        observed: Ok(Some(observed.clone())),
        claimed,
    };
    let status =
        provided(&object(), &applied(vec![given.clone()]), at(9)).expect("there is something to tell");
    assert_eq!(
        status.network,
        Some(MachineNetworkStatus {
            addresses: vec![given]
        })
    );
    // The claims of a provisioned machine are not read again.
    let again = InMemoryMachine {
        status: Some(status.clone()),
        ..object()
    };
    assert_eq!(provided(&again, &applied(vec![]), at(99)), Some(status));
}

#[test]
fn a_failed_stage_is_told_and_keeps_the_provisioned_flag() {
    let stages = [
        StageObservation::Reached { at: at(1) },
        StageObservation::Failed {
            cause: "kernel panic".into(),
        },
        StageObservation::Blocked,
        StageObservation::Blocked,
    ];
    let status = observed_status(&object(), &observed(stages), at(9));
    assert_eq!(
        status.initialization,
        Some(Initialization {
            provisioned: Some(true)
        })
    );
    assert_eq!(
        status.conditions[2],
        since(9, "NodeProvisioned", "False", "StartupFailed", "kernel panic")
    );
}

#[test]
fn a_provisioned_machine_that_waits_after_a_restart_says_nothing_new() {
    let reached = |second| StageObservation::Reached { at: at(second) };
    let stages = [reached(1), reached(2), reached(3), reached(4)];
    let before = observed_status(&object(), &observed(stages), at(9));
    let object = InMemoryMachine {
        status: Some(before.clone()),
        ..object()
    };
    assert_eq!(
        waiting(&object, &Waiting::SimulatedCluster, Role::ControlPlane, at(50)),
        before
    );
    let cluster = ClusterId {
        namespace: "default".into(),
        name: "demo".into(),
    };
    let refused = Applied {
        object: None,
        observed: Err(MachineError::UnknownCluster(cluster)),
        claimed: vec![],
    };
    assert_eq!(provided(&object, &refused, at(50)), None);
}

#[test]
fn a_booting_machine_that_waits_after_a_restart_says_nothing_new_but_what_has_to_be_mended() {
    let stages = [
        StageObservation::Waiting { due: Some(at(20)) },
        StageObservation::Blocked,
        StageObservation::Blocked,
        StageObservation::Blocked,
    ];
    let before = observed_status(&object(), &observed(stages), at(9));
    let object = InMemoryMachine {
        status: Some(before.clone()),
        ..object()
    };
    for soon in [Waiting::SimulatedCluster, Waiting::Authorities] {
        assert_eq!(waiting(&object, &soon, Role::ControlPlane, at(50)), before);
    }
    let wrong = waiting(
        &object,
        &Waiting::ValidAuthorities("broken".into()),
        Role::ControlPlane,
        at(50),
    );
    assert_eq!(
        wrong.conditions[1],
        since(
            9,
            "VMProvisioned",
            "False",
            "InvalidCertificateAuthority",
            "broken"
        )
    );
}

#[test]
fn what_the_cloud_refuses_is_told_with_its_category() {
    let cluster = ClusterId {
        namespace: "default".into(),
        name: "demo".into(),
    };
    let error = MachineError::Name(MachineId {
        cluster,
        name: "m".into(),
    });
    let message = nephele_controller::chain(&error);
    let applied = Applied {
        object: None,
        observed: Err(error),
        claimed: vec![],
    };
    let status = provided(&object(), &applied, at(5)).expect("told");
    assert_eq!(
        status.conditions[1],
        since(5, "VMProvisioned", "False", "InvalidName", &message)
    );
    assert_eq!(status.initialization, None);
}

#[test]
fn a_pause_changes_nothing_but_its_condition() {
    let mut object = object();
    let before = waiting(&object, &Waiting::BootstrapData, Role::ControlPlane, at(5));
    object.status = Some(before.clone());
    let mut expected = before;
    expected.conditions[0] = since(9, "Paused", "True", "Paused", "p");
    assert_eq!(resting(&object, "p", at(9)), expected);
    object.status = Some(expected.clone());
    expected.conditions[0] = since(12, "Paused", "False", "NotPaused", "");
    assert_eq!(unpaused(&object, at(12)), expected);
}

#[test]
fn a_machine_says_how_far_its_update_in_place_is_and_nothing_of_one_that_it_was_never_asked_for() {
    let reached = || StageObservation::Reached { at: at(2) };
    let says = |update: Option<&Update>| {
        let mut object = object();
        if let Some(update) = update {
            object.instance_mut().update = Some(update.clone());
        }
        let observed = observed([reached(), reached(), reached(), reached()]);
        let status = observed_status(&object, &observed, at(5));
        assert!(conditions::is_true(&status.conditions, types::READY));
        conditions::find(&status.conditions, types::UPDATING).cloned()
    };
    assert_eq!(says(None), None);
    let asked = Update {
        software: update::Software {
            version: "v1.36.4".into(),
            ..update::Software::default()
        },
        asked_at: MicroTime(at(3)),
        duration: None,
        jitter: None,
        failure: String::new(),
        ended: None,
    };
    let message = "Updating in place to v1.36.4";
    assert_eq!(
        says(Some(&asked)),
        Some(since(5, "Updating", "True", "InPlaceUpdating", message))
    );
    let over = Update {
        ended: Some(MicroTime(at(4))),
        ..asked
    };
    assert_eq!(
        says(Some(&over)),
        Some(since(5, "Updating", "False", "NotUpdating", ""))
    );
    let failed = Update {
        failure: "no space".into(),
        ..over
    };
    assert_eq!(
        says(Some(&failed)),
        Some(since(5, "Updating", "True", "InPlaceUpdateFailed", "no space"))
    );
}
