use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use nephele_api::{
    conditions::{condition, reasons},
    core::ClusterStatus,
    infrastructure::v1beta2::{
        Behaviour, ClaimedAddress, FailureDomain, InMemoryMachineStatus, Initialization,
        MachineNetworkStatus, PoolReference, Provisioning,
        creation_record::{CreationRecord, SeedKey},
        deletion::Deletion,
        pool_machine::VERSION_ANNOTATION,
        termination::Termination,
    },
};
use nephele_cloud::{ClusterObservation, Hardware};
use nephele_model::{Endpoint, Fraction, GoDuration};
use nephele_testkit::objects;

use super::*;

fn id() -> MachineId {
    let cluster = ClusterId {
        namespace: "default".into(),
        name: "demo".into(),
    };
    MachineId {
        cluster,
        name: "m".into(),
    }
}

fn found(machine: &Machine, cluster: &Cluster) -> Fetched {
    Fetched {
        owned: true,
        machine: Some(Arc::new(machine.clone())),
        id: Some(id().cluster),
        cluster: Some(Arc::new(cluster.clone())),
        resolved_cloud: Some(Arc::default()),
        ..Fetched::default()
    }
}

fn observed(authorities_set: bool) -> Option<ClusterObservation> {
    let endpoint = Endpoint {
        host: "127.0.0.1".into(),
        port: 20_000,
    };
    Some(ClusterObservation {
        endpoint,
        authorities_set,
        backends: 0,
        machines: 0,
        etcd_members: vec![],
    })
}

fn expected(role: Role) -> Wanted {
    let (owner_set, machine) = match role {
        Role::ControlPlane => ("control-plane", objects::control_plane("demo", "m")),
        Role::Worker => ("machine/m", objects::worker("demo", "m")),
    };
    Wanted {
        spec: MachineSpec {
            id: id(),
            labels: machine.labels().clone(),
            role,
            caller: Caller::Machine,
            version: "v1.36.3".into(),
            zone: None,
            region: None,
            cloud_spec: "default".into(),
            instance_type: None,
            market: nephele_model::Market::OnDemand,
            hardware: None,
            image: None,
            start_up: BTreeMap::new(),
            allocation: Allocation {
                owner_set: owner_set.to_owned(),
                ..Allocation::default()
            },
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
        infrastructure_provisioned: false,
        control_plane_initialized: false,
        bootstrapped: true,
        simulated: Simulated::No,
        provisioned: false,
        exists: false,
        has_vanished: false,
    }
}

fn wanted(validated: Validated) -> Wanted {
    match validated {
        Validated::Wanted(wanted) => *wanted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_label_of_the_machine_makes_a_control_plane() {
    let cluster = objects::cluster("demo");
    for (machine, role) in [
        (objects::worker("demo", "m"), Role::Worker),
        (objects::control_plane("demo", "m"), Role::ControlPlane),
    ] {
        let object = objects::in_memory_machine(&machine);
        assert_eq!(
            wanted(validate(&object, found(&machine, &cluster))),
            expected(role)
        );
    }
}

#[test]
fn what_the_machine_has_to_wait_for_is_read_from_its_owners_and_the_cloud() {
    let mut cluster = objects::cluster("demo");
    cluster.status = Some(objects::provisioned(true));
    let mut machine = objects::worker("demo", "m");
    machine.spec.bootstrap = None;
    let object = objects::in_memory_machine(&machine);
    let all = Wanted {
        infrastructure_provisioned: true,
        control_plane_initialized: true,
        bootstrapped: false,
        ..expected(Role::Worker)
    };
    for (observed, fault, simulated) in [
        (None, None, Simulated::No),
        (observed(false), None, Simulated::WithoutAuthorities),
        (
            observed(false),
            Some("broken"),
            Simulated::WithBadAuthorities("broken".into()),
        ),
        (observed(true), Some("broken"), Simulated::Yes),
    ] {
        let authorities_fault = fault.map(str::to_owned);
        let fetched = Fetched {
            observed,
            authorities_fault,
            ..found(&machine, &cluster)
        };
        assert_eq!(
            wanted(validate(&object, fetched)),
            Wanted {
                simulated,
                ..all.clone()
            }
        );
    }
}

#[test]
fn a_machine_that_was_up_is_described_as_it_was() {
    let machine = objects::worker("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    let since = Timestamp::from_second(7).expect("in range");
    let mut list = Vec::new();
    conditions::set(
        &mut list,
        condition("VMProvisioned", "True", reasons::PROVISIONED, ""),
        since,
    );
    conditions::set(
        &mut list,
        condition(
            "NodeProvisioned",
            "False",
            reasons::WAITING_FOR_STARTUP_TIMEOUT,
            "",
        ),
        since,
    );
    object.spec.instance_type = "m.large".into();
    object.status = Some(InMemoryMachineStatus {
        initialization: Some(Initialization {
            provisioned: Some(true),
        }),
        addresses: vec![nephele_api::infrastructure::v1beta2::MachineAddress {
            kind: "InternalIP".into(),
            address: "10.0.0.7".into(),
        }],
        start_time: Some(MicroTime(since)),
        network: None,
        failure_domain: "a".into(),
        interruptible: false,
        conditions: list,
    });
    let mut moved = machine.clone();
    moved.spec.failure_domain = "b".into();
    let plain = expected(Role::Worker);
    let expected = Wanted {
        spec: MachineSpec {
            zone: Some("a".into()),
            instance_type: Some("m.large".into()),
            allocation: Allocation {
                addresses: vec![MachineAddress {
                    kind: "InternalIP".into(),
                    address: "10.0.0.7".into(),
                }],
                ..plain.spec.allocation.clone()
            },
            started_at: Some(since),
            reached: [(Stage::Vm, since)].into(),
            ..plain.spec.clone()
        },
        provisioned: true,
        ..plain
    };
    assert_eq!(
        wanted(validate(&object, found(&moved, &objects::cluster("demo")))),
        expected
    );
}

/// Its conditions say only that it is gone. It may take long to go, and until then its Node is there.
#[test]
fn what_a_terminated_machine_had_reached_is_known() {
    let machine = objects::worker("demo", "m");
    let at = |second| MicroTime(Timestamp::from_second(second).expect("in range"));
    let mut object = objects::in_memory_machine(&machine);
    let reached = [("vm".to_owned(), at(9)), ("node".to_owned(), at(12))].into();
    object.instance_mut().origin = Some(CreationRecord {
        reached,
        ..CreationRecord::begun(at(7))
    });
    object.status = Some(InMemoryMachineStatus {
        start_time: Some(at(7)),
        ..Default::default()
    });
    let reached = |object: &InMemoryMachine| {
        wanted(validate(object, found(&machine, &objects::cluster("demo"))))
            .spec
            .reached
    };
    assert_eq!(
        reached(&object),
        BTreeMap::new(),
        "what runs is what its conditions say"
    );
    object.instance_mut().termination = Some(Termination { time: at(20) });
    assert_eq!(
        reached(&object),
        [(Stage::Vm, at(9).0), (Stage::Node, at(12).0)].into()
    );
}

#[test]
fn the_member_of_a_machine_that_goes_without_the_control_planes_hook_is_removed() {
    let cluster = objects::cluster("demo");
    let removed = |machine: &Machine| {
        let object = objects::in_memory_machine(machine);
        wanted(validate(&object, found(machine, &cluster)))
            .spec
            .etcd_member_removed
    };
    let living = objects::control_plane("demo", "m");
    let mut going = living.clone();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut held = going.clone();
    objects::annotate(&mut held, ETCD_MEMBER_HOOK, "");
    let mut worker = objects::worker("demo", "m");
    worker.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(
        [&living, &going, &held, &worker].map(removed),
        [false, true, false, false]
    );
}

#[test]
fn behaviour_becomes_start_up_times() {
    let provisioning = |duration: &str, jitter: &str| {
        let startup_duration = GoDuration::parse(duration).ok();
        let startup_jitter = Fraction::parse(jitter).ok();
        Some(Component {
            provisioning: Provisioning {
                startup_duration,
                startup_jitter,
            },
        })
    };
    let machine = objects::control_plane("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    object.spec.behaviour = Some(Behaviour {
        vm: provisioning("1.5s", "0.2"),
        node: provisioning("", "0.2"),
        api_server: None,
        etcd: provisioning("1m", ""),
    });
    let times = |millis, fraction| Latency::Jittered {
        base: Duration::from_millis(millis),
        fraction,
    };
    // The cloud decides about the stages without a duration.
    assert_eq!(
        start_up(&object),
        [(Stage::Vm, times(1500, 0.2)), (Stage::Etcd, times(60_000, 0.0))].into()
    );
}

#[test]
fn addresses_from_pools_come_in_their_order_unless_others_were_published() {
    let claim = |address: &str| Claim {
        wanted: crate::claims::Wanted {
            name: "m-0-0".into(),
            pool: PoolReference::default(),
        },
        state: crate::claims::ClaimState::Bound(ClaimedAddress {
            address: address.into(),
            ..ClaimedAddress::default()
        }),
    };
    let claims = [claim("10.0.0.7"), claim("fd00::7")];
    let address = |kind: &str, address: &str| MachineAddress {
        kind: kind.into(),
        address: address.into(),
    };
    let mut object = objects::in_memory_machine(&objects::worker("demo", "m"));
    assert_eq!(addresses(&object, &[]), []);
    assert_eq!(
        addresses(&object, &claims),
        [
            address("InternalIP", "10.0.0.7"),
            address("InternalIP", "fd00::7"),
            address("Hostname", "m")
        ]
    );
    // A machine that has begun to boot, after a restart.
    let given = ClaimedAddress {
        address: "10.0.0.9".into(),
        ..ClaimedAddress::default()
    };
    let network = Some(MachineNetworkStatus {
        addresses: vec![given],
    });
    object.status = Some(InMemoryMachineStatus {
        network: network.clone(),
        ..InMemoryMachineStatus::default()
    });
    assert_eq!(
        addresses(&object, &[]),
        [address("InternalIP", "10.0.0.9"), address("Hostname", "m")]
    );
    object.status = Some(InMemoryMachineStatus {
        addresses: vec![nephele_api::infrastructure::v1beta2::MachineAddress {
            kind: "InternalIP".into(),
            address: "10.0.0.8".into(),
        }],
        network,
        ..InMemoryMachineStatus::default()
    });
    assert_eq!(addresses(&object, &claims), [address("InternalIP", "10.0.0.8")]);
}

#[test]
fn a_machine_is_of_the_set_that_has_no_random_name() {
    let mut machine = objects::worker("demo", "m");
    let mut is_of = |label: &str, name: &str, expected: &str| {
        objects::label(&mut machine, label, name);
        assert_eq!(set_of(&machine), expected);
    };
    is_of(labels::SET_NAME, "md-x7k2p", "machineset/md-x7k2p");
    is_of(
        labels::DEPLOYMENT_NAME,
        "demo-md-abcde",
        "machinedeployment/demo-md-abcde",
    );
    is_of(
        labels::TOPOLOGY_DEPLOYMENT_NAME,
        "md",
        "topology/machinedeployment/md",
    );
    is_of(labels::CONTROL_PLANE, "", "control-plane");
    let mut machine = objects::worker("demo", "m");
    let mut is_of = |label: &str, name: &str, expected: &str| {
        objects::label(&mut machine, label, name);
        assert_eq!(set_of(&machine), expected);
    };
    is_of(POOL_NAME_LABEL, "demo-mp-abcde", "machinepool/demo-mp-abcde");
    is_of(labels::TOPOLOGY_POOL_NAME, "mp", "topology/machinepool/mp");
    assert_eq!(caller(&machine), Caller::MachinePool);
}

#[test]
fn what_a_machine_got_once_is_what_it_brings_along() {
    let machine = objects::worker("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    let seed_key = SeedKey {
        owner_set: "machinedeployment/md".into(),
        ordinal: 3,
    };
    object.instance_mut().origin = Some(CreationRecord {
        pod_cidrs: vec!["192.168.7.0/24".into()],
        seed_key: Some(seed_key),
        ..CreationRecord::begun(MicroTime(Timestamp::UNIX_EPOCH))
    });
    let expected = Allocation {
        addresses: vec![],
        pod_cidrs: vec!["192.168.7.0/24".into()],
        owner_set: "machinedeployment/md".into(),
        ordinal: Some(3),
    };
    assert_eq!(allocation(&object, Some(&machine)), expected);
}

#[test]
fn a_failure_domain_has_to_be_one_of_the_clusters_when_it_has_some() {
    let mut cluster = objects::cluster("demo");
    let mut machine = objects::worker("demo", "m");
    machine.spec.failure_domain = "x".into();
    assert_eq!(misplaced(text(&machine.spec.failure_domain), &cluster), None);
    let domain = |name: &str| FailureDomain {
        name: name.into(),
        ..FailureDomain::default()
    };
    cluster.status = Some(ClusterStatus {
        failure_domains: vec![domain("b"), domain("a")],
        ..ClusterStatus::default()
    });
    let mistake = Mistake::FailureDomain {
        wanted: "x".into(),
        known: vec!["a".into(), "b".into()],
    };
    assert_eq!(
        misplaced(text(&machine.spec.failure_domain), &cluster),
        Some(mistake)
    );
    machine.spec.failure_domain = "a".into();
    assert_eq!(misplaced(text(&machine.spec.failure_domain), &cluster), None);
}

#[test]
fn a_machine_of_a_pool_is_what_its_pool_made_it() {
    let cluster = objects::cluster("demo");
    let mut machine = objects::worker("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    objects::annotate(&mut object, VERSION_ANNOTATION, "v1.35.4");
    objects::annotate(&mut object, FAILURE_DOMAIN_ANNOTATION, "a");
    // Before its Node exists, the Machine has no version.
    machine.spec.version.clear();
    let spec = wanted(validate(&object, found(&machine, &cluster))).spec;
    assert_eq!(
        (spec.version.as_str(), spec.zone.as_deref()),
        ("v1.35.4", Some("a"))
    );
    // A pool that gets another version does not change an existing machine.
    machine.spec.version = "v1.36.3".into();
    assert_eq!(
        wanted(validate(&object, found(&machine, &cluster))).spec.version,
        "v1.35.4"
    );
}

#[test]
fn what_forbids_work_comes_in_order() {
    let mut cluster = objects::cluster("demo");
    let machine = objects::worker("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    let unowned = Fetched {
        owned: false,
        ..found(&machine, &cluster)
    };
    assert_eq!(validate(&object, unowned), Validated::WithoutOwner(Some(id())));
    let lost = Fetched {
        machine: None,
        ..found(&machine, &cluster)
    };
    assert_eq!(validate(&object, lost), Validated::Orphaned(Some(id())));
    let lost = Fetched {
        cluster: None,
        ..found(&machine, &cluster)
    };
    assert_eq!(validate(&object, lost), Validated::Orphaned(Some(id())));
    cluster.spec.paused = Some(true);
    let message = "Cluster spec.paused is set to true".to_owned();
    let paused = Validated::Paused { message, begun: None };
    assert_eq!(validate(&object, found(&machine, &cluster)), paused);
    objects::annotate(&mut object, nephele_controller::MANAGED_BY_ANNOTATION, "x");
    assert_eq!(
        validate(&object, found(&machine, &cluster)),
        Validated::ExternallyManaged
    );
}

#[test]
fn a_paused_machine_rests_also_if_it_has_lost_its_owner_and_is_being_deleted() {
    let mut object = objects::in_memory_machine(&objects::worker("demo", "m"));
    let found = || Fetched {
        id: Some(id().cluster),
        ..Fetched::default()
    };
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(validate(&object, found()), Validated::Orphaned(Some(id())));
    objects::annotate(&mut object, nephele_controller::PAUSED_ANNOTATION, "");
    let message = "InMemoryMachine has the cluster.x-k8s.io/paused annotation".to_owned();
    assert_eq!(
        validate(&object, found()),
        Validated::Paused { message, begun: None }
    );
}

#[test]
fn a_paused_machine_runs_on_once_it_has_begun_until_its_instance_is_gone() {
    let mut cluster = objects::cluster("demo");
    cluster.spec.paused = Some(true);
    let machine = objects::worker("demo", "m");
    let begun = |object: &InMemoryMachine| match validate(object, found(&machine, &cluster)) {
        Validated::Paused { begun, .. } => begun.map(|wanted| wanted.spec.started_at),
        other => panic!("{other:?}"),
    };
    let mut object = objects::in_memory_machine(&machine);
    assert_eq!(begun(&object), None);
    object.instance_mut().origin = Some(CreationRecord::begun(MicroTime(Timestamp::UNIX_EPOCH)));
    assert_eq!(begun(&object), Some(Some(Timestamp::UNIX_EPOCH)));
    // Neither a deletion nor a termination is over when it is asked for.
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    object.instance_mut().termination = Some(Termination {
        time: MicroTime(Timestamp::UNIX_EPOCH),
    });
    assert_eq!(begun(&object), Some(Some(Timestamp::UNIX_EPOCH)));
    let time = || MicroTime(Timestamp::UNIX_EPOCH);
    object.instance_mut().deletion = Some(Deletion {
        time: time(),
        ended: Some(time()),
    });
    assert_eq!(begun(&object), None);
}

#[test]
fn what_the_cloud_does_not_have_is_a_mistake_before_a_machine_has_booted() {
    let cluster = objects::cluster("demo");
    let machine = objects::worker("demo", "m");
    let mut object = objects::in_memory_machine(&machine);
    let large = Some(Ok(Hardware::default()));
    let fetched = Fetched {
        described: large,
        ..found(&machine, &cluster)
    };
    let known = wanted(validate(&object, fetched));
    // The cloud gives it its hardware when it is created.
    assert_eq!((known.mistake, known.spec.hardware), (None, None));
    let unknown = CloudError::UnknownInstanceType {
        wanted: "huge".into(),
        known: vec!["large".into()],
    };
    let fetched = || Fetched {
        described: Some(Err(unknown.clone())),
        ..found(&machine, &cluster)
    };
    let mistake = wanted(validate(&object, fetched())).mistake;
    assert_eq!(mistake, Some(Mistake::Unknown(unknown.clone())));
    // Before the SimulatedCloud of its cluster is known, nothing is a mistake, and nothing boots.
    let early = Fetched {
        resolved_cloud: None,
        observed: observed(true),
        ..found(&machine, &cluster)
    };
    let early = wanted(validate(&object, early));
    assert_eq!((early.mistake, early.simulated), (None, Simulated::No));
    // It keeps its hardware.
    object.instance_mut().origin = Some(CreationRecord::begun(MicroTime(Timestamp::UNIX_EPOCH)));
    let booted = wanted(validate(&object, fetched()));
    assert_eq!(
        (booted.mistake, booted.spec.hardware),
        (None, Some(Hardware::default()))
    );
}
