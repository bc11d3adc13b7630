use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nephele_api::{
    infrastructure::v1beta2::{InMemoryMachinePoolTemplate, InMemoryMachineTemplate, PoolMachine},
    labels,
};
use nephele_cloud::Hardware;
use nephele_model::ClusterId;
use nephele_testkit::objects;
use serde_json::{Value, json};

use super::*;
use crate::resolved_cloud::model;

fn template(instance_type: &str) -> InMemoryMachineTemplate {
    let mut object = InMemoryMachineTemplate::default();
    object.metadata.name = Some("workers".into());
    object.metadata.namespace = Some("default".into());
    object.spec.template.spec.instance_type = instance_type.into();
    object
}

fn said<K: Template>(object: &K, expected_capacity: &ExpectedCapacity) -> Value {
    match plan(object, None, expected_capacity) {
        Plan::Tell(told) => serde_json::to_value(object.saying(told)).expect("JSON")["status"].clone(),
        Plan::Leave(outcome) => panic!("{outcome:?}"),
    }
}

#[test]
fn templates_say_what_their_machines_have() {
    let large = json!({
        "capacity": { "cpu": "8", "memory": "16Gi", "ephemeral-storage": "40Gi", "pods": "110" },
        "nodeInfo": { "architecture": "amd64", "operatingSystem": "linux" },
    });
    let usual = json!({
        "capacity": { "cpu": "2", "memory": "4Gi", "ephemeral-storage": "40Gi", "pods": "110" },
        "nodeInfo": { "architecture": "amd64", "operatingSystem": "linux" },
    });
    let cpu = |cpu: &str, memory: &str| {
        let mut hardware = Hardware::default();
        hardware.capacity.insert("cpu".into(), cpu.into());
        hardware.capacity.insert("memory".into(), memory.into());
        ExpectedCapacity::Machines(hardware)
    };
    let of_large = cpu("8", "16Gi");
    let of_usual = cpu("2", "4Gi");
    assert_eq!(said(&template("large"), &of_large), large);
    assert_eq!(said(&template(""), &of_usual), usual);
    let mut pools = InMemoryMachinePoolTemplate::default();
    assert_eq!(said(&pools, &of_usual), usual);
    let machine = PoolMachine {
        instance_type: "large".into(),
        ..PoolMachine::default()
    };
    pools.spec.template.spec.template = Some(machine);
    assert_eq!(
        (said(&pools, &of_large), pools.model()),
        (large, model("large", "", ""))
    );
}

#[test]
fn a_template_of_an_unknown_type_says_nothing() {
    let mut object = template("huge");
    assert_eq!(said(&object, &ExpectedCapacity::Nothing), Value::Null);
    // A template whose instance type is gone has no values any more.
    object.status = template("large")
        .saying(
            ExpectedCapacity::Machines(Default::default())
                .told()
                .expect("said"),
        )
        .status;
    assert_eq!(said(&object, &ExpectedCapacity::Nothing), json!({}));
}

#[test]
fn a_template_is_left_alone_while_paused_or_going_or_before_its_cluster_is_there() {
    let object = template("large");
    let expected_capacity = ExpectedCapacity::Machines(Hardware::default());
    let mut cluster = objects::cluster("demo");
    cluster.spec.paused = Some(true);
    let waiting = Plan::Leave(Outcome::WaitingOn("unpaused"));
    assert_eq!(plan(&object, Some(&cluster), &expected_capacity), waiting);
    let mut paused = object.clone();
    objects::annotate(&mut paused, nephele_controller::PAUSED_ANNOTATION, "");
    assert_eq!(plan(&paused, None, &expected_capacity), waiting);
    assert_eq!(
        plan(&object, None, &ExpectedCapacity::Open),
        Plan::Leave(Outcome::WaitingOn("cluster"))
    );
    let mut going = object;
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(plan(&going, None, &expected_capacity), Plan::Leave(Outcome::Done));
}

#[test]
fn a_template_is_for_the_cluster_that_owns_it_or_that_its_label_names() {
    let id = |name: &str| {
        Some(ClusterId {
            namespace: "default".into(),
            name: name.into(),
        })
    };
    let mut object = template("");
    assert_eq!(cluster_of(object.meta()), None);
    objects::label(&mut object, labels::CLUSTER_NAME, "labelled");
    assert_eq!(cluster_of(object.meta()), id("labelled"));
    objects::own(&mut object, &objects::cluster("demo"));
    assert_eq!(cluster_of(object.meta()), id("demo"));
}
