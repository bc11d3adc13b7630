//! The backends in the status of an InMemoryCluster.

use std::time::Duration;

use nephele_api::{
    cloud::v1alpha1::Fault,
    infrastructure::v1beta2::{Backend, InMemoryCluster, InMemoryMachine},
};
use nephele_testkit::objects::{self, NAMESPACE};
use serde_json::{Value, json};

use crate::world::World;

/// A cluster whose control plane machine `cp` is up.
async fn started(first_port: u16) -> World {
    let world = World::start(first_port);
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    world
}

fn listed(object: &InMemoryCluster) -> Vec<Backend> {
    let balancer = object
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.clone());
    balancer.unwrap_or_default().backends
}

/// Each backend of a status: its name, and why it is not in service.
fn told(object: &InMemoryCluster) -> Vec<(String, String, String)> {
    let told = |backend: Backend| (backend.name, backend.reason, backend.message);
    listed(object).into_iter().map(told).collect()
}

async fn until(world: &World, expected: &[(&str, &str, &str)]) -> InMemoryCluster {
    let is_told = |object: &InMemoryCluster| {
        told(object)
            .iter()
            .map(|(name, reason, message)| (&**name, &**reason, &**message))
            .eq(expected.iter().copied())
    };
    world
        .api
        .eventually("demo", &format!("to have the backends {expected:?}"), is_told)
        .await
}

async fn begin(world: &World, name: &str, spec: &Value) {
    let object = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec });
    world
        .api
        .create(&serde_json::from_value::<Fault>(object).expect("a Fault"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_status_lists_who_is_behind_the_load_balancer_and_why_it_gets_no_connections() {
    let world = started(19_900).await;
    let object = until(&world, &[("cp", "", "")]).await;
    let machine = world
        .cloud
        .observe_machine(&World::machine_id("demo", "cp"))
        .expect("it is there");
    let address = machine
        .allocation
        .addresses
        .iter()
        .find(|address| address.kind == "InternalIP");
    let up = Backend {
        name: "cp".into(),
        address: address.expect("one").address.clone(),
        in_service: true,
        ..Backend::default()
    };
    assert_eq!(listed(&object), [up]);

    begin(
        &world,
        "hold",
        &json!({ "match": { "names": ["late"] }, "effect": { "hold": { "stage": "apiServer" } } }),
    )
    .await;
    world.machine(&objects::control_plane("demo", "late")).await;
    world.bootstrap("late").await;
    until(&world, &[("cp", "", ""), ("late", "Starting", "")]).await;
    world.api.delete::<Fault>("hold").await;
    until(&world, &[("cp", "", ""), ("late", "", "")]).await;

    let failed = (
        "cp",
        "HealthCheckFailed",
        "Nothing on the machine answers (Fault freeze)",
    );
    begin(
        &world,
        "freeze",
        &json!({ "match": { "names": ["cp"] }, "effect": { "freeze": {} } }),
    )
    .await;
    until(&world, &[failed, ("late", "", "")]).await;
    let drained = (
        "late",
        "Drained",
        "The load balancer has no backends (Fault drain)",
    );
    begin(
        &world,
        "drain",
        &json!({ "effect": { "loadBalancer": { "noBackends": {} } } }),
    )
    .await;
    until(&world, &[failed, drained]).await;
    world.api.delete::<Fault>("freeze").await;
    world.api.delete::<Fault>("drain").await;
    until(&world, &[("cp", "", ""), ("late", "", "")]).await;

    world.api.delete::<InMemoryMachine>("cp").await;
    until(&world, &[("late", "", "")]).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_show_in_the_backends() {
    let world = started(18_500).await;
    for name in ["frozen", "held"] {
        world.machine(&objects::control_plane("demo", name)).await;
    }
    begin(
        &world,
        "freeze",
        &json!({ "match": { "names": ["frozen"] }, "effect": { "freeze": {} } }),
    )
    .await;
    begin(
        &world,
        "hold",
        &json!({ "match": { "names": ["held"] }, "effect": { "hold": { "stage": "apiServer" } } }),
    )
    .await;
    for name in ["frozen", "held"] {
        world.bootstrap(name).await;
    }
    let frozen = (
        "frozen",
        "HealthCheckFailed",
        "Nothing on the machine answers (Fault freeze)",
    );
    let all = [("cp", "", ""), frozen, ("held", "Starting", "")];
    let before = until(&world, &all).await;
    let writes = |world: &World| world.writes("demo").len();
    writes(&world);
    let world = world.restart().await;
    // A cluster that was created afterwards is up, so everything before it was reconciled.
    world.cluster("other").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (writes(&world), world.api.get::<InMemoryCluster>("demo").await),
        (0, before)
    );
    world.stop().await;
}

/// Its changes are as frequent as users want; the writes are not.
#[tokio::test(start_paused = true)]
async fn a_backend_that_comes_and_goes_is_written_once_a_second_at_most() {
    let world = started(18_800).await;
    until(&world, &[("cp", "", "")]).await;
    for (name, offset) in [("a", "0s"), ("b", "500ms"), ("c", "1200ms")] {
        let schedule = json!({ "every": "2s", "for": "1s", "offset": offset });
        begin(
            &world,
            name,
            &json!({ "effect": { "freeze": {} }, "budget": { "schedule": schedule } }),
        )
        .await;
    }
    world.writes("demo");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = world.writes("demo").len();
    assert!((20..=61).contains(&writes), "{writes}");
    for name in ["a", "b", "c"] {
        world.api.delete::<Fault>(name).await;
    }
    until(&world, &[("cp", "", "")]).await;
    world.stop().await;
}
