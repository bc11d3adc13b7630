use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use nephele_api::{
    conditions::condition,
    infrastructure::v1beta2::{InMemoryMachineStatus, creation_record::CreationRecord},
};
use nephele_cloud::Allocation;
use nephele_model::ClusterId;
use nephele_testkit::objects;

use super::*;

fn id() -> MachineId {
    MachineId {
        cluster: ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        },
        name: "m".into(),
    }
}

fn object() -> InMemoryMachine {
    let mut object = objects::in_memory_machine(&objects::worker("demo", "m"));
    object.spec.instance_type = "large".into();
    object.spec.image = "noble".into();
    object
}

fn address(address: &str) -> MachineAddress {
    MachineAddress {
        kind: "InternalIP".into(),
        address: address.into(),
    }
}

#[test]
fn who_is_asked_before_learns_what_is_to_be() {
    let internal = nephele_cloud::MachineAddress {
        kind: "InternalIP".into(),
        address: "10.0.0.7".into(),
    };
    let spec = MachineSpec {
        id: id(),
        labels: [].into(),
        role: Role::ControlPlane,
        caller: nephele_model::Caller::Machine,
        version: "v1.36.3".into(),
        zone: Some("a".into()),
        region: Some("north".into()),
        cloud_spec: String::new(),
        instance_type: Some("large".into()),
        market: nephele_model::Market::OnDemand,
        hardware: None,
        image: Some("noble".into()),
        start_up: BTreeMap::new(),
        allocation: Allocation {
            addresses: vec![internal],
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
    };
    let expected = Instance {
        provider_id: "in-memory://m".into(),
        control_plane: true,
        version: "v1.36.3".into(),
        failure_domain: "a".into(),
        region: "north".into(),
        instance_type: "large".into(),
        image: "noble".into(),
        addresses: vec![address("10.0.0.7")],
    };
    assert_eq!(to_be(&object(), &spec), expected);
    let mut given = object();
    given.spec.provider_id = "in-memory://given".into();
    assert_eq!(to_be(&given, &spec).provider_id, "in-memory://given");
}

#[test]
fn who_is_asked_afterwards_learns_what_was() {
    let mut object = object();
    let never = Instance {
        instance_type: "large".into(),
        image: "noble".into(),
        ..Instance::default()
    };
    assert_eq!(was(&object, Some(&id())), never);
    assert_eq!(was(&object, None), never);
    let start_time = Some(MicroTime(Timestamp::UNIX_EPOCH));
    object.status = Some(InMemoryMachineStatus {
        start_time: start_time.clone(),
        ..InMemoryMachineStatus::default()
    });
    let booting = Instance {
        provider_id: "in-memory://m".into(),
        ..never
    };
    assert_eq!(was(&object, Some(&id())), booting);
    object.instance_mut().origin = Some(CreationRecord {
        addresses: vec![address("10.0.0.7")],
        failure_domain: "a".into(),
        region: "north".into(),
        ..CreationRecord::begun(MicroTime(Timestamp::UNIX_EPOCH))
    });
    let moved = Instance {
        failure_domain: "a".into(),
        region: "north".into(),
        addresses: vec![address("10.0.0.7")],
        ..booting
    };
    assert_eq!(was(&object, Some(&id())), moved);
    object.status = Some(InMemoryMachineStatus {
        start_time,
        failure_domain: "b".into(),
        addresses: vec![address("10.0.0.8")],
        ..InMemoryMachineStatus::default()
    });
    let up = Instance {
        failure_domain: "b".into(),
        addresses: vec![address("10.0.0.8")],
        ..moved
    };
    assert_eq!(was(&object, Some(&id())), up);
}

#[test]
fn those_are_looked_at_again_that_may_wait_for_an_answer() {
    let with = |reason: &str| {
        let conditions = vec![condition(types::VM_PROVISIONED, conditions::FALSE, reason, "")];
        InMemoryMachine {
            status: Some(InMemoryMachineStatus {
                conditions,
                ..InMemoryMachineStatus::default()
            }),
            ..object()
        }
    };
    let mut going = object();
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    for (object, expected) in [
        (object(), false),
        (with(reasons::WAITING_FOR_BOOTSTRAP_DATA), false),
        (with(reasons::WAITING_FOR_HOOK), true),
        (with(reasons::HOOK_FAILED), true),
        (going, true),
    ] {
        assert_eq!(may_wait(&object), expected, "{object:?}");
    }
}
