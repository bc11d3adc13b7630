//! Objects of one name in two namespaces, objects that have one name after each other, and their events.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{Api, Resource, ResourceExt, api::PostParams};
use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, termination::TERMINATE_ANNOTATION},
};
use nephele_controller::PAUSED_ANNOTATION;
use nephele_model::{ClusterId, MachineId};
use nephele_testkit::{
    eventually, eventually_of,
    objects::{self, Purpose},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::world::{World, is_ready};

const OTHER: &str = "other";

/// Creates an object in the other namespace.
async fn elsewhere<K>(world: &World, mut object: K) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    object.meta_mut().namespace = Some(OTHER.into());
    let api: Api<K> = Api::namespaced(world.api.client(), OTHER);
    api.create(&PostParams::default(), &object)
        .await
        .expect("created")
}

/// Waits until something holds for an object of the other namespace.
async fn there<K>(world: &World, name: &str, wanted: impl Fn(&K) -> bool + Send + Sync) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let api: Api<K> = Api::namespaced(world.api.client(), OTHER);
    let is_so = |object: Option<&K>| object.is_some_and(&wanted);
    eventually_of(&api, name, "to be as wanted", is_so)
        .await
        .expect("it is there")
}

/// A control plane machine named `cp` of a cluster named `demo` comes up in the other namespace.
async fn twin(world: &World) -> (InMemoryCluster, InMemoryMachine) {
    let namespaces: Api<Namespace> = Api::all(world.api.client());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(OTHER.into());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("a namespace");
    let cluster = elsewhere(world, objects::cluster("demo")).await;
    elsewhere(world, objects::in_memory_cluster(&cluster)).await;
    let object = there(world, "demo", InMemoryCluster::is_provisioned).await;
    let clusters: Api<Cluster> = Api::namespaced(world.api.client(), OTHER);
    let status = kube::api::Patch::Merge(json!({ "status": objects::provisioned(false) }));
    clusters
        .patch_status("demo", &Default::default(), &status)
        .await
        .expect("patched");
    for purpose in [Purpose::Cluster, Purpose::Etcd] {
        elsewhere(world, objects::authority_secret("demo", purpose)).await;
    }
    let machine: Machine = elsewhere(world, objects::control_plane("demo", "cp")).await;
    elsewhere(world, objects::in_memory_machine(&machine)).await;
    (object, there(world, "cp", is_ready).await)
}

#[tokio::test(start_paused = true)]
async fn clusters_and_machines_of_one_name_in_two_namespaces_are_two_of_each() {
    let world = World::start(19_000);
    let here = world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    let (there, _) = twin(&world).await;
    assert_ne!(
        here.spec.control_plane_endpoint,
        there.spec.control_plane_endpoint
    );

    let elsewhere = ClusterId {
        namespace: OTHER.into(),
        name: "demo".into(),
    };
    let twin = MachineId {
        cluster: elsewhere.clone(),
        name: "cp".into(),
    };
    world.api.delete::<InMemoryMachine>("cp").await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    world.api.delete::<InMemoryCluster>("demo").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    assert_eq!(world.cloud.observe_cluster(&World::id("demo")), None);
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("demo", "cp")),
        None
    );
    // The objects of the same names in the other namespace keep running.
    assert_eq!(
        world
            .cloud
            .observe_cluster(&elsewhere)
            .expect("it is there")
            .machines,
        1
    );
    assert!(world.cloud.observe_machine(&twin).is_some());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_made_again_under_its_name_begins_afresh() {
    let world = World::start(19_100);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let first = world.ready(&machine).await;
    world.api.delete::<InMemoryMachine>("cp").await;
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    world.api.delete::<Machine>("cp").await;
    tokio::time::advance(Duration::from_secs(1)).await;

    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    let waiting = world.waits(&machine, "WaitingForBootstrapData").await;
    let status = waiting.status.clone().unwrap_or_default();
    assert_eq!(
        (
            status.initialization,
            status.start_time,
            waiting.spec.provider_id.as_str()
        ),
        (None, None, "")
    );
    assert_eq!(
        world.cloud.observe_machine(&World::machine_id("demo", "cp")),
        None
    );
    world.bootstrap("cp").await;
    let second = world.ready(&machine).await;
    assert_ne!(first.uid(), second.uid());
    let started = |machine: &InMemoryMachine| machine.status.clone().and_then(|status| status.start_time);
    assert!(
        started(&second) > started(&first),
        "{:?} {:?}",
        started(&first),
        started(&second)
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn conditions_say_which_generation_they_are_of() {
    let world = World::start(19_200);
    let object = world.cluster("demo").await;
    world.authorities("demo").await;
    world.settled_cluster(&object).await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machine = world.ready(&machine).await;
    let domains = json!({ "spec": { "failureDomains": [{ "name": "a", "controlPlane": true }] } });
    let changed = world.api.patch::<InMemoryCluster>("demo", &domains).await;
    assert!(changed.metadata.generation > object.metadata.generation);
    let is_of = |object: &InMemoryCluster| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        conditions
            .iter()
            .all(|condition| condition.observed_generation == changed.metadata.generation)
    };
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to have observed its generation", is_of)
        .await;
    let generation = world.api.get::<InMemoryMachine>("cp").await.metadata.generation;
    let status = machine.status.unwrap_or_default();
    let of: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.observed_generation)
        .collect();
    assert!(
        generation.is_some() && of.contains(&generation),
        "{of:?} of {generation:?}"
    );
    world.stop().await;
}

/// Waits until the events of an object are these; events are published in the background.
async fn reads(world: &World, kind: &str, name: &str, expected: &[(&str, &str, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(kind, reason, note)| [kind, reason, note].map(str::to_owned))
        .collect();
    let look = async || {
        let told = world.api.story(kind, name).await;
        if told == expected { Ok(()) } else { Err(told) }
    };
    eventually(&format!("{kind} {name} to have the Events {expected:?}"), look).await;
}

#[tokio::test(start_paused = true)]
async fn events_tell_the_story_of_a_cluster_and_of_a_machine() {
    let world = World::start(19_300);
    let object = world.cluster("demo").await;
    world.authorities("demo").await;
    world.settled_cluster(&object).await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    for value in [json!("true"), json!(null)] {
        let annotation = json!({ "metadata": { "annotations": { (PAUSED_ANNOTATION): value } } });
        world.api.patch::<InMemoryMachine>("cp", &annotation).await;
        let wanted = if value.is_null() { "False" } else { "True" };
        world
            .api
            .eventually("cp", "to follow the annotation", |machine: &InMemoryMachine| {
                let conditions = machine.status.clone().unwrap_or_default().conditions;
                conditions
                    .iter()
                    .any(|one| one.type_ == "Paused" && one.status == wanted)
            })
            .await;
    }
    let terminate = json!({ "metadata": { "annotations": { (TERMINATE_ANNOTATION): "" } } });
    world.api.patch::<InMemoryMachine>("cp", &terminate).await;
    reads(
        &world,
        "InMemoryCluster",
        "demo",
        &[("Normal", "Ready", "The load balancer serves 127.0.0.1:19300")],
    )
    .await;
    let paused = "InMemoryMachine has the cluster.x-k8s.io/paused annotation";
    let story = [
        ("Normal", "InstanceCreated", "Created an instance; it boots"),
        (
            "Normal",
            "Ready",
            "The instance is up, and its Node has joined the cluster",
        ),
        ("Normal", "Paused", paused),
        ("Normal", "NotPaused", "It is reconciled again"),
        (
            "Warning",
            "NotReady",
            "VMProvisioned: The simulated instance was terminated and stays gone",
        ),
    ];
    reads(&world, "InMemoryMachine", "cp", &story).await;
    world.stop().await;
}
