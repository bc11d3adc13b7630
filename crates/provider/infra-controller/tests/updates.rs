//! Updates of machines in place, requested on their objects. The test plays Cluster API and its extension.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{
        InMemoryMachine,
        update::{Files, Software, UPDATE_IN_PROGRESS_ANNOTATION, Update},
    },
};
use nephele_model::GoDuration;
use nephele_testkit::objects;
use serde_json::{Value, json};

use crate::{world, world::World};

fn software(version: &str) -> Software {
    let contents = [("/etc/motd".to_owned(), "sha256:ab".to_owned())];
    let files = Files {
        digest: "d".into(),
        contents: contents.into(),
    };
    Software {
        version: version.into(),
        files: Some(files),
        ..Software::default()
    }
}

/// An update to `version` that takes `duration` from now.
fn update(world: &World, version: &str, duration: &str) -> Update {
    let now = world.api.clock()();
    Update {
        software: software(version),
        // The cloud counts in milliseconds.
        asked_at: MicroTime(Timestamp::from_millisecond(now.as_millisecond()).expect("an instant")),
        duration: GoDuration::parse(duration).ok(),
        jitter: None,
        failure: String::new(),
        ended: None,
    }
}

fn annotations(values: &[(&str, Option<&str>)]) -> Value {
    let values: serde_json::Map<_, _> = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    json!({ "metadata": { "annotations": values } })
}

/// Waits for a worker `w` of v1.36.3 that is up.
async fn up(world: &World) {
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let machine = world.machine(&objects::worker("demo", "w")).await;
    world.bootstrap("w").await;
    world.ready(&machine).await;
}

/// Marks the machine as Cluster API does, sets the new version on its Machine, and requests the update.
async fn ask(world: &World, update: &Update) {
    let mark = annotations(&[(UPDATE_IN_PROGRESS_ANNOTATION, Some(""))]);
    world.api.patch::<Machine>("w", &mark).await;
    world.api.patch::<InMemoryMachine>("w", &mark).await;
    let version = json!({ "spec": { "version": update.software.version } });
    world.api.patch::<Machine>("w", &version).await;
    world.api.patch::<InMemoryMachine>("w", &asking(update)).await;
}

/// A patch that replaces the requested update.
fn asking(update: &Update) -> Value {
    let mut update = json!(update);
    for absent in ["failure", "ended"] {
        if update.get(absent).is_none() {
            update[absent] = Value::Null;
        }
    }
    json!({ "spec": { "instance": { "update": update } } })
}

/// Cluster API removes the mark when the extension says that the update is done.
async fn unmark(world: &World) {
    let mark = annotations(&[(UPDATE_IN_PROGRESS_ANNOTATION, None)]);
    world.api.patch::<Machine>("w", &mark).await;
    world.api.patch::<InMemoryMachine>("w", &mark).await;
}

/// The object once its condition says so.
async fn says(world: &World, status: &str, reason: &str) -> InMemoryMachine {
    world
        .api
        .eventually("w", reason, |object: &InMemoryMachine| {
            let status_of = object.status.clone().unwrap_or_default();
            let found = conditions::find(&status_of.conditions, types::UPDATING);
            found.is_some_and(|condition| condition.status == status && condition.reason == reason)
        })
        .await
}

fn version(world: &World) -> String {
    let observed = world.cloud.observe_machine(&World::machine_id("demo", "w"));
    observed.expect("it runs").software.version
}

fn noted(object: &InMemoryMachine) -> Option<Software> {
    object.origin().and_then(|origin| origin.software)
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_its_time_and_what_runs_is_noted_with_its_end() {
    let world = World::start(18_000);
    up(&world).await;
    ask(&world, &update(&world, "v1.36.4", "1s")).await;
    let under_way = says(&world, "True", "InPlaceUpdating").await;
    let told = conditions::find(
        &under_way.status.as_ref().expect("a status").conditions,
        types::UPDATING,
    );
    assert_eq!(
        told.map(|condition| condition.message.as_str()),
        Some("Updating in place to v1.36.4")
    );
    let over = says(&world, "False", "NotUpdating").await;
    assert_eq!(noted(&over), Some(software("v1.36.4")));
    let update = over.update().expect("it is there");
    let took = update
        .ended
        .expect("it is over")
        .0
        .duration_since(update.asked_at.0);
    assert_eq!(took.as_millis(), 1000);
    assert_eq!(version(&world), "v1.36.4");
    // It is the same machine, and nothing else changed.
    assert_eq!(over.metadata.uid, under_way.metadata.uid);
    let status = |object: &InMemoryMachine| {
        let status = object.status.clone().unwrap_or_default();
        (
            status.start_time,
            status.addresses,
            conditions::is_true(&status.conditions, types::READY),
        )
    };
    assert_eq!(status(&over), status(&under_way));
    unmark(&world).await;

    // The machine is restored from the recorded software.
    let world = world.restart().await;
    world
        .until("the machine to be back", |cloud| {
            cloud.observe_machine(&World::machine_id("demo", "w")).is_some()
        })
        .await;
    assert_eq!(version(&world), "v1.36.4");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_machine_is_to_become_is_not_run_before_it_is_asked_for_and_its_time_is_over() {
    let world = World::start(18_100);
    up(&world).await;
    ask(&world, &update(&world, "v1.36.4", "1h")).await;
    says(&world, "True", "InPlaceUpdating").await;
    assert_eq!(version(&world), "v1.36.3");
    let before = world.api.get::<InMemoryMachine>("w").await.update();

    // Nor after a restart, after which the update continues.
    let world = world.restart().await;
    let seen = |cloud: &nephele_cloud::Cloud| cloud.observe_machine(&World::machine_id("demo", "w"));
    world
        .until("the update to continue", |cloud| {
            seen(cloud).is_some_and(|seen| seen.update.is_some())
        })
        .await;
    assert_eq!(version(&world), "v1.36.3");
    let after = world.api.get::<InMemoryMachine>("w").await;
    assert_eq!(after.update(), before);
    assert_eq!(
        noted(&after).map(|software| software.version).as_deref(),
        Some("v1.36.3")
    );

    // An update that ended while no manager ran is over after the start.
    let api = world.stop().await;
    let hour_ago = api.clock()() - jiff::SignedDuration::from_secs(3600);
    let asked_at = MicroTime(Timestamp::from_millisecond(hour_ago.as_millisecond()).expect("an instant"));
    let earlier = Update {
        asked_at: asked_at.clone(),
        duration: GoDuration::parse("59m").ok(),
        ..before.expect("it was asked for")
    };
    api.patch::<InMemoryMachine>("w", &asking(&earlier)).await;
    let world = World::over(api, world::Setup::at(18_100));
    let over = says(&world, "False", "NotUpdating").await;
    let ended = over.update().and_then(|update| update.ended).expect("it is over");
    assert_eq!(
        ended.0.duration_since(asked_at.0),
        jiff::SignedDuration::from_mins(59)
    );
    assert_eq!(noted(&over), Some(software("v1.36.4")));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_says_why_and_changes_nothing_and_another_one_may_work() {
    let world = World::start(18_200);
    up(&world).await;
    let failing = Update {
        failure: "no space left".into(),
        ..update(&world, "v1.36.4", "100ms")
    };
    ask(&world, &failing).await;
    let failed = says(&world, "True", "InPlaceUpdateFailed").await;
    let status = failed.status.clone().expect("a status");
    let told = conditions::find(&status.conditions, types::UPDATING).expect("a condition");
    assert_eq!(told.message, "no space left");
    assert!(conditions::is_true(&status.conditions, types::READY));
    assert_eq!(
        noted(&failed).map(|software| software.version).as_deref(),
        Some("v1.36.3")
    );
    assert_eq!(version(&world), "v1.36.3");

    ask(&world, &update(&world, "v1.36.4", "0")).await;
    let over = says(&world, "False", "NotUpdating").await;
    assert_eq!(noted(&over), Some(software("v1.36.4")));
    world.stop().await;
}

/// As people do by hand, and as extensions do that know nothing of simulated machines.
#[tokio::test(start_paused = true)]
async fn without_an_update_the_version_follows_its_machine_once_nothing_is_in_progress() {
    let world = World::start(18_300);
    up(&world).await;
    let mark = annotations(&[(UPDATE_IN_PROGRESS_ANNOTATION, Some(""))]);
    world.api.patch::<Machine>("w", &mark).await;
    world
        .api
        .patch::<Machine>("w", &json!({ "spec": { "version": "v1.36.4" } }))
        .await;
    // Another machine, created later, is up: so this one was reconciled.
    let later = world.machine(&objects::worker("demo", "later")).await;
    world.bootstrap("later").await;
    world.ready(&later).await;
    assert_eq!(version(&world), "v1.36.3");

    unmark(&world).await;
    let follows =
        |object: &InMemoryMachine| noted(object).is_some_and(|software| software.version == "v1.36.4");
    world.api.eventually("w", "to follow", follows).await;
    assert_eq!(version(&world), "v1.36.4");
    tokio::time::timeout(Duration::from_secs(20), world.stop())
        .await
        .expect("it stops");
}

/// Lists of Machines are answered once, and watches never: the manager's cache of Machines never changes.
fn frozen(_: &str, path: &str) -> bool {
    static LISTS: AtomicUsize = AtomicUsize::new(0);
    path == "/apis/cluster.x-k8s.io/v1beta2/machines" && LISTS.fetch_add(1, Ordering::Relaxed) > 0
}

/// Machines and InMemoryMachines are read through caches of their own, and either may lag behind the other.
#[tokio::test(start_paused = true)]
async fn a_machine_from_before_an_update_does_not_take_the_update_back() {
    let world = World::start(10_300);
    up(&world).await;
    let world = world
        .restart_with(world::Setup {
            refused: frozen,
            ..world::Setup::at(10_300)
        })
        .await;
    let id = World::machine_id("demo", "w");
    world
        .until("the machine to be back", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    ask(&world, &update(&world, "v1.36.4", "0")).await;
    says(&world, "False", "NotUpdating").await;
    unmark(&world).await;
    let touch = annotations(&[("touched", Some(""))]);
    world.api.patch::<InMemoryMachine>("w", &touch).await;
    // Another cluster, created later, is up: so the machine was reconciled.
    world.cluster("other").await;
    assert_eq!(version(&world), "v1.36.4");
    let object = world.api.get::<InMemoryMachine>("w").await;
    assert_eq!(noted(&object), Some(software("v1.36.4")));
    world.stop().await;
}
