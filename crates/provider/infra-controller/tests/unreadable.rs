//! Objects that do not have the shape of their kind, each beside a good one.

use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault, SimulatedCloud, SimulatedCloudSpec},
    conditions::{self, types},
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{
        InMemoryCluster, InMemoryMachine, InMemoryMachinePool, InMemoryMachinePoolTemplate,
        InMemoryMachineTemplate,
    },
};
use nephele_model::FaultId;
use nephele_testkit::{
    ManagementApi, eventually, eventually_of,
    objects::{self, NAMESPACE},
};
use serde_json::{Value, json};

use crate::world::{Setup, World};

/// One object of each kind that cannot be read.
async fn create_all(api: &ManagementApi, name: &str) {
    api.create_shapeless::<Cluster>(name, &json!({ "paused": "maybe" }))
        .await;
    api.create_shapeless::<Machine>(name, &json!({ "version": 1.36 }))
        .await;
    api.create_shapeless::<MachinePool>(name, &json!({ "replicas": "many" }))
        .await;
    api.create_shapeless::<InMemoryCluster>(name, &json!({ "controlPlaneEndpoint": "cloud:6443" }))
        .await;
    api.create_shapeless::<InMemoryMachine>(name, &json!({ "behaviour": "slow" }))
        .await;
    api.create_shapeless::<InMemoryMachinePool>(name, &json!({ "template": 1 }))
        .await;
    api.create_shapeless::<InMemoryMachineTemplate>(
        name,
        &json!({ "template": { "spec": { "behaviour": 1 } } }),
    )
    .await;
    api.create_shapeless::<InMemoryMachinePoolTemplate>(name, &json!({ "template": 1 }))
        .await;
    api.create_shapeless::<SimulatedCloud>(name, &Value::Null).await;
    api.create_shapeless::<Fault>(name, &json!({ "effect": "fail" }))
        .await;
    api.create_shapeless::<ClusterFault>(name, &json!({ "fault": 1 }))
        .await;
}

/// Waits until an object says that it is invalid. Returns why.
async fn mistake<K: Resource<DynamicType = ()>>(world: &World, name: &str) -> String {
    world
        .api
        .eventually_says::<K>(name, types::READY, "InvalidConfiguration")
        .await
}

/// Waits for the Event about an object that cannot be read. Returns what it says.
async fn event<K: Resource<DynamicType = ()>>(world: &World, name: &str) -> String {
    let what = format!("an Event about {} {name}", K::kind(&()));
    let look = async || {
        let story = world.api.story(&K::kind(&()), name).await;
        let unreadable = story
            .iter()
            .find(|[_, reason, _]| reason == "Unreadable")
            .cloned();
        unreadable.map(|[_, _, note]| note).ok_or(story)
    };
    eventually(&what, look).await
}

/// A cluster with a machine in a cloud, and a fault and templates, all in order.
async fn good(world: &World) {
    let mut cloud = SimulatedCloud::new("good", SimulatedCloudSpec::default());
    cloud.metadata.namespace = Some(NAMESPACE.into());
    world.api.create(&cloud).await;
    let fault = json!({
        "metadata": { "name": "good", "namespace": NAMESPACE },
        "spec": { "effect": { "fail": { "reason": "QuotaExceeded" } }, "match": { "names": ["other"] } },
    });
    world
        .api
        .create(&serde_json::from_value::<Fault>(fault).expect("a Fault"))
        .await;
    let template = json!({
        "metadata": { "name": "good", "namespace": NAMESPACE }, "spec": { "template": { "spec": {} } },
    });
    let template: InMemoryMachineTemplate = serde_json::from_value(template).expect("a template");
    world.api.create(&template).await;
    world.cluster("good").await;
    world
        .api
        .patch_status::<Cluster>("good", &json!(objects::provisioned(true)))
        .await;
    let machine = world.machine(&objects::worker("good", "good")).await;
    world.bootstrap("good").await;
    let is_active = |fault: &Fault| {
        fault
            .status
            .as_ref()
            .is_some_and(|status| status.phase == "Active")
    };
    world.api.eventually("good", "to be active", is_active).await;
    let is_ready = |cloud: &SimulatedCloud| {
        cloud
            .status
            .as_ref()
            .is_some_and(|status| conditions::is_true(&status.conditions, types::READY))
    };
    world.api.eventually("good", "to be ready", is_ready).await;
    let says = |template: &InMemoryMachineTemplate| template.status.is_some();
    world
        .api
        .eventually("good", "to say what its machines have", says)
        .await;
    world.ready(&machine).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_says_so_once_and_hides_no_other() {
    let api = ManagementApi::start();
    create_all(&api, "listed").await;
    let world = World::over(api, Setup::at(25_000));
    create_all(&world.api, "watched").await;
    good(&world).await;
    for name in ["listed", "watched"] {
        let endpoint = "spec.controlPlaneEndpoint: invalid type: string \"cloud:6443\", expected ";
        assert!(
            mistake::<InMemoryCluster>(&world, name)
                .await
                .starts_with(endpoint)
        );
        assert!(
            mistake::<InMemoryMachine>(&world, name)
                .await
                .starts_with("spec.behaviour: ")
        );
        assert!(
            mistake::<InMemoryMachinePool>(&world, name)
                .await
                .starts_with("spec.template: ")
        );
        assert!(
            mistake::<SimulatedCloud>(&world, name)
                .await
                .starts_with("spec: invalid type: null")
        );
        assert!(
            mistake::<Fault>(&world, name)
                .await
                .starts_with("spec.effect.fail: ")
        );
        assert_eq!(phase::<Fault>(&world, name).await, "Invalid");
        mistake::<ClusterFault>(&world, name).await;
        assert_eq!(phase::<ClusterFault>(&world, name).await, "Invalid");
        event::<InMemoryMachineTemplate>(&world, name).await;
        event::<InMemoryMachinePoolTemplate>(&world, name).await;
        event::<Cluster>(&world, name).await;
        event::<Machine>(&world, name).await;
        event::<MachinePool>(&world, name).await;
    }
    drop(world.api.take_writes());
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let writes = world.api.take_writes();
    let about = writes
        .iter()
        .filter(|write| ["listed", "watched"].contains(&write.name.as_str()));
    assert_eq!(about.count(), 0);
    world.stop().await;
}

async fn phase<K: Resource<DynamicType = ()>>(world: &World, name: &str) -> String {
    let object = world.api.shapeless::<K>().get(name).await.expect("it is there");
    object
        .data
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Gives a field of the spec of the good object a value that cannot be read.
async fn spoil<K: Resource<DynamicType = ()>>(world: &World, field: &str) {
    let patch = Patch::Merge(json!({ "spec": { field: 3 } }));
    let spoilt = world
        .api
        .shapeless::<K>()
        .patch("good", &PatchParams::default(), &patch)
        .await;
    spoilt.expect("the patch is taken");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_any_more_keeps_what_it_has_and_can_be_deleted() {
    let world = World::start(25_100);
    good(&world).await;
    let fault = FaultId {
        namespace: NAMESPACE.into(),
        name: "good".into(),
    };
    assert!(world.cloud.observe_fault(&fault).is_some());
    spoil::<InMemoryMachine>(&world, "instanceType").await;
    spoil::<InMemoryCluster>(&world, "failureDomains").await;
    spoil::<Cluster>(&world, "paused").await;
    spoil::<Machine>(&world, "version").await;
    spoil::<Fault>(&world, "budget").await;
    assert!(
        mistake::<InMemoryMachine>(&world, "good")
            .await
            .starts_with("spec.instanceType: ")
    );
    assert!(
        mistake::<InMemoryCluster>(&world, "good")
            .await
            .starts_with("spec.failureDomains: ")
    );
    // As with any spec that is invalid, its effect ends.
    mistake::<Fault>(&world, "good").await;
    assert!(world.cloud.observe_fault(&fault).is_none());
    let cluster = World::id("good");
    let machine = World::machine_id("good", "good");
    assert!(world.cloud.observe_cluster(&cluster).is_some());
    assert!(world.cloud.observe_machine(&machine).is_some());
    // Over a restart, too.
    let world = world.restart().await;
    world
        .until("the machine runs again", |cloud| {
            cloud.observe_machine(&machine).is_some()
        })
        .await;
    let object = world
        .api
        .shapeless::<InMemoryMachine>()
        .get("good")
        .await
        .expect("it is there");
    assert!(!object.finalizers().is_empty());
    world
        .api
        .shapeless::<InMemoryMachine>()
        .delete("good", &DeleteParams::default())
        .await
        .expect("asked");
    let gone = |object: Option<&DynamicObject>| object.is_none();
    eventually_of(
        &world.api.shapeless::<InMemoryMachine>(),
        "good",
        "to be gone",
        gone,
    )
    .await;
    world
        .until("the machine is gone", |cloud| {
            cloud.observe_machine(&machine).is_none()
        })
        .await;
    world.stop().await;
}
