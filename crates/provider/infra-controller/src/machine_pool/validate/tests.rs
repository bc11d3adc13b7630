use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nephele_api::infrastructure::v1beta2::{Behaviour, Component, Provisioning};
use nephele_model::GoDuration;
use nephele_testkit::objects;

use super::*;

#[test]
fn whatever_machines_are_made_from_changes_the_revision() {
    let slow = Component {
        provisioning: Provisioning {
            startup_duration: GoDuration::parse("10s").ok(),
            ..Provisioning::default()
        },
    };
    let behaviour = Some(Behaviour {
        vm: Some(slow),
        ..Behaviour::default()
    });
    let plain = PoolMachine::default();
    let behaves = PoolMachine {
        behaviour,
        ..plain.clone()
    };
    let large = PoolMachine {
        instance_type: "large".into(),
        ..plain.clone()
    };
    let revisions = [
        revision(&plain, "v1.36.3", "data"),
        revision(&plain, "v1.36.4", "data"),
        revision(&plain, "v1.36.3", "data-2"),
        revision(&behaves, "v1.36.3", "data"),
        revision(&large, "v1.36.3", "data"),
    ];
    let mut distinct = revisions.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), revisions.len(), "{revisions:?}");
    // An upgrade of the provider does not replace existing machines.
    assert_eq!(revisions[0], revision(&plain, "v1.36.3", "data"));
}

#[test]
fn a_paused_pool_rests_also_if_it_has_lost_its_owner_and_is_being_deleted() {
    let mut object = InMemoryMachinePool::default();
    let found = || Fetched {
        owned: false,
        pool: None,
        id: None,
        cluster: None,
        members: [].into(),
        disowned: vec![],
        machines: [].into(),
    };
    object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(validate(&object, found()).0, Validated::Orphaned);
    objects::annotate(&mut object, nephele_controller::PAUSED_ANNOTATION, "");
    let message = "InMemoryMachinePool has the cluster.x-k8s.io/paused annotation".to_owned();
    assert_eq!(validate(&object, found()).0, Validated::Paused(message));
}
