//! Faults: what users see of them on machines and clusters, and that everything continues when they are gone.

use std::{
    net::TcpListener,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nephele_api::{
    cloud::v1alpha1::{Fault, FaultStatus, MistakesByCaller, SimulatedCloud, SimulatedCloudSpec},
    conditions::{self, types},
    core::Cluster,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_cloud::Cloud;
use nephele_controller::{PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use nephele_model::ResourceKind;
use nephele_testkit::objects::{self, NAMESPACE};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{Setup, World, reason};

/// How long the port of a cluster that is gone waits for one of its name.
const A_PORT_WAITS: Duration = Duration::from_secs(60);

fn fault(name: &str, spec: &Value) -> Fault {
    let object = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec });
    serde_json::from_value(object).expect("a Fault")
}

/// Creates a fault and waits until it is in force.
async fn begin(world: &World, name: &str, spec: &Value) {
    world.api.create(&fault(name, spec)).await;
    phase(world, name, "Active").await;
}

async fn phase(world: &World, name: &str, phase: &str) -> FaultStatus {
    let has = |object: &Fault| object.status.as_ref().is_some_and(|status| status.phase == phase);
    world
        .api
        .eventually::<Fault>(name, phase, has)
        .await
        .status
        .expect("a status")
}

async fn hit(world: &World, name: &str, hits: i64) -> FaultStatus {
    let has = |object: &Fault| {
        object
            .status
            .as_ref()
            .is_some_and(|status| status.hits >= Some(hits))
    };
    world
        .api
        .eventually::<Fault>(name, "to have hit", has)
        .await
        .status
        .expect("a status")
}

async fn started(first_port: u16) -> World {
    let world = World::start(first_port);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    world
}

async fn worker(world: &World, name: &str) -> InMemoryMachine {
    let mut machine = objects::worker("demo", name);
    machine
        .metadata
        .labels
        .get_or_insert_default()
        .insert("rack".into(), name.into());
    let object = world.machine(&machine).await;
    world.bootstrap(name).await;
    object
}

/// As a backup leaves them, while the manager runs.
#[tokio::test(start_paused = true)]
async fn a_fault_and_a_cloud_that_lose_their_status_say_what_they_said() {
    let world = World::start(20_800);
    let mut cloud = SimulatedCloud::new("default", SimulatedCloudSpec::default());
    cloud.metadata.namespace = Some(NAMESPACE.into());
    world.api.create(&cloud).await;
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let spec = json!({
        "match": { "operations": ["CreateInstance"] },
        "effect": { "fail": { "reason": "InsufficientCapacity", "retryAfter": "100ms" } },
        "budget": { "count": 2 },
    });
    begin(&world, "full", &spec).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    hit(&world, "full", 2).await;
    let said = async |world: &World| {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let fault = world.api.get::<Fault>("full").await.status.unwrap_or_default();
        let cloud = world
            .api
            .get::<SimulatedCloud>("default")
            .await
            .status
            .unwrap_or_default();
        (
            fault.phase,
            fault.hits,
            fault.matched,
            cloud.instances,
            cloud.zones,
        )
    };
    let before = said(&world).await;
    assert_eq!(
        (before.0.as_str(), before.1, before.3),
        ("Exhausted", Some(2), Some(1))
    );
    world.api.patch_status::<Fault>("full", &Value::Null).await;
    world
        .api
        .patch_status::<SimulatedCloud>("default", &Value::Null)
        .await;
    assert_eq!(said(&world).await, before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_says_which_fault_fails_it_and_comes_up_when_that_is_gone() {
    let world = started(21_000).await;
    let spec = json!({
        "match": { "operations": ["CreateInstance"], "machineSelector": { "matchLabels": { "rack": "hit" } } },
        "effect": { "fail": { "reason": "InsufficientCapacity", "message": "rack is full", "retryAfter": "100ms" } },
    });
    begin(&world, "full", &spec).await;
    let object = worker(&world, "hit").await;
    let waiting = world.waits(&object, "InsufficientCapacity").await;
    let status = waiting.status.unwrap_or_default();
    let ready = conditions::find(&status.conditions, types::READY).expect("a summary");
    let message = "VMProvisioned: the cloud refused CreateInstance: there is not enough capacity: rack is full (Fault full)";
    assert_eq!(ready.message, message);
    // Other machines are left alone.
    let other = worker(&world, "other").await;
    world.ready(&other).await;
    let status = hit(&world, "full", 2).await;
    let last = &status.last_hits[0];
    assert_eq!(
        (
            last.operation.as_str(),
            last.cluster.as_str(),
            last.machine.as_str()
        ),
        ("CreateInstance", "demo", "hit")
    );
    assert_eq!(
        (
            status.matched,
            conditions::is_true(&status.conditions, types::READY)
        ),
        (status.hits, true)
    );
    world.api.delete::<Fault>("full").await;
    world.ready(&object).await;
    world.stop().await;
}

/// Whoever was told to retry in an hour need not wait for it.
#[tokio::test(start_paused = true)]
async fn a_machine_continues_as_soon_as_its_fault_is_gone_or_over() {
    let world = started(21_600).await;
    let effects = [
        json!({ "fail": { "reason": "Throttled", "retryAfter": "1h" } }),
        json!({ "delay": { "duration": "1h" } }),
    ];
    for (effect, name) in effects.into_iter().zip(["failed", "delayed"]) {
        let spec = json!({ "match": { "names": [name] }, "effect": effect });
        begin(&world, name, &spec).await;
        let object = worker(&world, name).await;
        hit(&world, name, 1).await;
        world.api.delete::<Fault>(name).await;
        world.ready(&object).await;
    }
    let brief = json!({
        "effect": { "fail": { "reason": "Throttled", "retryAfter": "1h" } },
        "budget": { "for": "1s" },
    });
    begin(&world, "brief", &brief).await;
    let object = worker(&world, "w").await;
    hit(&world, "brief", 1).await;
    world.ready(&object).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_machine() {
    let world = started(21_100).await;
    let spec = json!({
        "match": { "operations": ["CreateInstance", "DeleteInstance"] },
        "effect": { "fail": { "reason": "LostAnswer", "retryAfter": "100ms" } },
    });
    begin(&world, "lost", &spec).await;
    let object = worker(&world, "w").await;
    let ready = world.ready(&object).await;
    let addresses = ready.status.unwrap_or_default().addresses;
    let seen = world
        .cloud
        .observe_machine(&World::machine_id("demo", "w"))
        .expect("it is there");
    assert_eq!(seen.allocation.addresses.len(), addresses.len());
    assert_eq!(
        seen.allocation.ordinal,
        Some(0),
        "it has the number that it was given first"
    );
    assert_eq!(
        hit(&world, "lost", 1).await.hits,
        Some(1),
        "the repetition does nothing, and is not hit"
    );
    world.api.delete::<InMemoryMachine>("w").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    assert_eq!(hit(&world, "lost", 2).await.hits, Some(2));
    world.stop().await;
}

/// Otherwise the second cluster would take the port of the first one's load balancer, whose endpoint cannot change.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_whose_answer_is_lost_keeps_its_port() {
    let world = World::start(21_700);
    let spec = json!({
        "match": { "operations": ["CreateLoadBalancer"] },
        "effect": { "fail": { "reason": "LostAnswer", "retryAfter": "500ms" } },
    });
    begin(&world, "lost", &spec).await;
    for name in ["first", "second"] {
        let cluster = world.api.create(&objects::cluster(name)).await;
        world.api.create(&objects::in_memory_cluster(&cluster)).await;
    }
    hit(&world, "lost", 2).await;
    let mut ports = Vec::new();
    for name in ["first", "second"] {
        let endpoint = world
            .provisioned(name)
            .await
            .spec
            .control_plane_endpoint
            .expect("an endpoint");
        ports.push(endpoint.port);
    }
    ports.sort_unstable();
    assert_eq!(ports, [21_700, 21_701]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_told_and_then_over() {
    let world = started(21_200).await;
    let spec = json!({
        "match": { "names": ["w"], "operations": ["CreateInstance"] },
        "effect": { "delay": { "duration": "300ms" } },
    });
    begin(&world, "slow", &spec).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    let status = hit(&world, "slow", 1).await;
    assert_eq!((status.matched, status.hits), (Some(1), Some(1)));
    world.stop().await;
}

/// Nothing is created past a fault right after a restart, and its budget continues.
#[tokio::test(start_paused = true)]
async fn a_fault_outlives_a_restart() {
    let world = started(21_300).await;
    let spec = json!({
        "match": { "operations": ["CreateInstance"] },
        "effect": { "fail": { "reason": "Throttled", "retryAfter": "100ms" } },
        "budget": { "skip": 1, "count": 4 },
    });
    begin(&world, "f", &spec).await;
    let first = worker(&world, "first").await;
    world.ready(&first).await;
    // The numbers are written a second later at most.
    let has = |object: &Fault| {
        object
            .status
            .as_ref()
            .is_some_and(|status| status.matched == Some(1))
    };
    let before = world
        .api
        .eventually::<Fault>("f", "to have matched", has)
        .await
        .status
        .expect("a status");
    let world = world.restart_after(async {}).await;
    let second = worker(&world, "second").await;
    world.ready(&second).await;
    let after = phase(&world, "f", "Exhausted").await;
    assert_eq!(
        (after.matched, after.hits, &after.start_time),
        (Some(5), Some(4), &before.start_time)
    );
    world.stop().await;
}

/// A restart is no call: whatever a Fault, a rate or a lag does to calls, it does nothing to what is there.
#[tokio::test(start_paused = true)]
async fn a_restart_under_a_fault_of_every_operation_shows_nothing() {
    let mut cloud = SimulatedCloud::new("default", SimulatedCloudSpec::default());
    cloud.metadata.namespace = Some(NAMESPACE.into());
    let world = started(24_600).await;
    world.api.create(&cloud).await;
    world.authorities("demo").await;
    let control_plane = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let worker = worker(&world, "w").await;
    for machine in [&control_plane, &worker] {
        world.ready(machine).await;
    }
    let fails = json!({ "fail": { "reason": "Throttled", "retryAfter": "1h" } });
    begin(
        &world,
        "every",
        &json!({ "match": { "callers": ["cluster", "machine"] }, "effect": fails }),
    )
    .await;
    let api = json!({ "spec": { "api": { "readAfterWriteLag": "1h" } } });
    world.api.patch::<SimulatedCloud>("default", &api).await;
    let seen = |world: &World| {
        let balancer = world.cloud.observe_cluster(&World::id("demo"));
        let machines = ["cp", "w"].map(|name| world.cloud.observe_machine(&World::machine_id("demo", name)));
        (
            balancer.map(|balancer| (balancer.endpoint, balancer.backends, balancer.etcd_members)),
            machines,
        )
    };
    // The cloud has changed, so the cluster is read again.
    let is_hidden = |cluster: &InMemoryCluster| {
        let status = cluster.status.clone().unwrap_or_default();
        reason(&status.conditions, types::LOAD_BALANCER_AVAILABLE) == Some("NotVisibleYet")
    };
    let objects = world.api.eventually("demo", "to be hidden", is_hidden).await;
    let before = seen(&world);
    assert!(before.0.as_ref().is_some_and(|(_, backends, _)| *backends == 1));
    // These reads have missed what the callers themselves had made. They are told some time later.
    let caller_mistakes = |cloud: &SimulatedCloud| cloud.status.clone().unwrap_or_default().caller_mistakes;
    let is_told = |cloud: &SimulatedCloud| !caller_mistakes(cloud).is_empty();
    world
        .api
        .eventually::<SimulatedCloud>("default", "to tell a missed read", is_told)
        .await;
    let clouds = world.api.api::<SimulatedCloud>();
    let mut told = Vec::new();
    let world = world
        .restart_after(async {
            told = caller_mistakes(&clouds.get("default").await.expect("it is there"));
        })
        .await;
    let is_back = |cloud: &Cloud| {
        let is_there = |name| cloud.observe_machine(&World::machine_id("demo", name)).is_some();
        is_there("cp") && is_there("w")
    };
    world.until("both machines to be there", is_back).await;
    assert_eq!(seen(&world), before);
    // A new machine is a call, so the Fault and everything else has been looked at by then.
    let third = self::worker(&world, "third").await;
    world.waits(&third, "Throttled").await;
    let after = hit(&world, "every", 1).await;
    assert_eq!(
        (after.hits, after.last_hits[0].machine.as_str()),
        (Some(1), "third")
    );
    let status = world.api.get::<InMemoryCluster>("demo").await.status;
    assert_eq!(status, objects.status);
    // Whatever was counted by now is told within a second.
    sleep(Duration::from_secs(2)).await;
    let cloud = world.api.get::<SimulatedCloud>("default").await;
    assert_eq!(caller_mistakes(&cloud), told);
    assert_eq!(seen(&world), before);
    world.stop().await;
}

/// What a Fault keeps from being deleted is not deleted by a restart, whoever has asked for it and whenever.
#[tokio::test(start_paused = true)]
async fn a_restart_carries_out_no_deletion_that_a_fault_refuses() {
    let world = started(24_700).await;
    world.authorities("demo").await;
    let control_plane = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let machines = [
        control_plane,
        worker(&world, "early").await,
        worker(&world, "late").await,
    ];
    for machine in &machines {
        world.ready(machine).await;
    }
    let deletions = json!({ "operations": ["DeleteInstance", "DeleteLoadBalancer", "DeregisterBackend"] });
    let fails = json!({ "fail": { "reason": "Unavailable", "retryAfter": "1h" } });
    begin(&world, "f", &json!({ "match": deletions, "effect": fails })).await;
    world.api.delete::<InMemoryMachine>("early").await;
    hit(&world, "f", 1).await;
    let api = world.api.clone();
    let world = world
        .restart_after(async move {
            // While no manager runs.
            api.delete::<InMemoryMachine>("late").await;
            api.delete::<InMemoryMachine>("cp").await;
            api.delete::<InMemoryCluster>("demo").await;
        })
        .await;
    // One hit before, and at least one for each object after the restart.
    let refused = hit(&world, "f", 5).await;
    assert_eq!(refused.matched, refused.hits);
    for name in ["cp", "early", "late"] {
        let seen = world
            .cloud
            .observe_machine(&World::machine_id("demo", name))
            .expect("it runs");
        assert!(!seen.deleting, "{name}");
    }
    let cluster = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    assert_eq!((cluster.backends, cluster.machines), (1, 3));
    world.api.delete::<Fault>("f").await;
    for name in ["cp", "early", "late"] {
        world.api.eventually_gone::<InMemoryMachine>(name).await;
    }
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    world.stop().await;
}

/// Another process has taken its port while no manager ran, so the cluster does not run; its load balancer is there all the same.
#[tokio::test(start_paused = true)]
async fn a_restart_deletes_no_load_balancer_past_a_fault_where_the_cluster_cannot_run() {
    let world = started(26_300).await;
    let deletions = json!({ "operations": ["DeleteLoadBalancer"] });
    let fails = json!({ "fail": { "reason": "Unavailable", "retryAfter": "1h" } });
    begin(&world, "f", &json!({ "match": deletions, "effect": fails })).await;
    let api = world.api.clone();
    let taken = Arc::new(OnceLock::new());
    let taking = Arc::clone(&taken);
    let world = world
        .restart_after(async move {
            let other = TcpListener::bind(("127.0.0.1", 26_300)).expect("the port is free");
            taking.set(other).expect("it is taken once");
            api.delete::<InMemoryCluster>("demo").await;
        })
        .await;
    let refused = hit(&world, "f", 1).await;
    assert_eq!((refused.matched, refused.hits), (Some(1), Some(1)));
    world.api.get::<InMemoryCluster>("demo").await;
    world.api.delete::<Fault>("f").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    assert!(taken.get().is_some(), "the port is taken until now");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_load_balancer_shows_on_its_cluster_until_its_time_is_over() {
    let world = World::start(21_400);
    let spec = json!({
        "match": { "clusterSelector": { "matchExpressions": [{ "key": "quiet", "operator": "DoesNotExist" }] } },
        "effect": { "fail": { "reason": "Unauthorized", "retryAfter": "100ms" } },
        "budget": { "for": "1500ms" },
    });
    begin(&world, "f", &spec).await;
    let cluster = world.api.create(&objects::cluster("demo")).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let refused = |object: &InMemoryCluster| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::LOAD_BALANCER_AVAILABLE) == Some("Unauthorized")
    };
    world
        .api
        .eventually::<InMemoryCluster>("demo", "to be refused", refused)
        .await;
    world.provisioned("demo").await;
    assert!(phase(&world, "f", "Expired").await.hits > Some(0));
    world.stop().await;
}

/// Which machine it is was decided once. The Node is healed in the new process, too.
#[tokio::test(start_paused = true)]
async fn the_machine_that_is_hit_is_the_same_after_a_restart() {
    let world = started(21_700).await;
    let mut machines = Vec::new();
    for name in ["a", "b", "c"] {
        machines.push(worker(&world, name).await);
    }
    for machine in &machines {
        world.ready(machine).await;
    }
    let spec = json!({ "effect": { "notReady": {} }, "budget": { "skip": 1, "count": 1 } });
    world.api.create(&fault("f", &spec)).await;
    let before = hit(&world, "f", 1).await;
    assert_eq!(
        (before.matched, before.hits, before.affected.len()),
        (Some(2), Some(1), 1)
    );
    let world = world.restart_after(async {}).await;
    for machine in &machines {
        world.ready(machine).await;
    }
    let fourth = worker(&world, "d").await;
    world.ready(&fourth).await;
    let after = hit(&world, "f", 1).await;
    assert_eq!(
        (after.matched, after.hits, &after.affected),
        (Some(2), Some(1), &before.affected)
    );
    let name = &before.affected[0].machine;
    let wrong = |cloud: &Cloud| {
        cloud
            .observe_machine(&World::machine_id("demo", name))
            .map(|seen| seen.wrong)
    };
    world
        .until("the machine to be ill", |cloud| {
            wrong(cloud).is_some_and(|wrong| !wrong.is_empty())
        })
        .await;
    world.api.delete::<Fault>("f").await;
    world
        .until("the machine to be well", |cloud| {
            wrong(cloud).is_some_and(|wrong| wrong.is_empty())
        })
        .await;
    world.stop().await;
}

async fn set_paused(world: &World, name: &str, paused: bool) {
    let annotations = json!({ PAUSED_ANNOTATION: paused.then_some("") });
    world
        .api
        .patch::<Fault>(name, &json!({ "metadata": { "annotations": annotations } }))
        .await;
    let says = |object: &Fault| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        let condition = conditions::find(&conditions, types::PAUSED);
        condition.is_some_and(|condition| condition.status == if paused { "True" } else { "False" })
    };
    world
        .api
        .eventually::<Fault>(name, "to say whether it is paused", says)
        .await;
}

/// Which machines of the cluster `demo` are ill.
fn ill(world: &World, names: &[&str]) -> Vec<bool> {
    let seen = |name: &&str| world.cloud.observe_machine(&World::machine_id("demo", name));
    names
        .iter()
        .map(|name| seen(name).is_some_and(|seen| !seen.wrong.is_empty()))
        .collect()
}

/// Before and after a restart, and whatever becomes of its spec meanwhile.
#[tokio::test(start_paused = true)]
async fn a_paused_fault_still_affects_what_it_has_hit_and_hits_nothing_else() {
    let world = started(24_000).await;
    let first = worker(&world, "first").await;
    world.ready(&first).await;
    let spec = json!({ "effect": { "notReady": {} }, "budget": { "for": "1h" } });
    world.api.create(&fault("f", &spec)).await;
    let before = hit(&world, "f", 1).await;
    set_paused(&world, "f", true).await;
    let edited =
        json!({ "spec": { "effect": { "notReady": null, "vanish": {} }, "budget": { "for": "2h" } } });
    world.api.patch::<Fault>("f", &edited).await;
    let second = worker(&world, "second").await;
    world.ready(&second).await;
    assert_eq!(ill(&world, &["first", "second"]), [true, false]);

    let world = world.restart_after(async {}).await;
    let third = worker(&world, "third").await;
    world.ready(&third).await;
    let all = ["first", "second", "third"];
    world
        .until("the machine to be ill again", |_| {
            ill(&world, &all) == [true, false, false]
        })
        .await;
    let paused = world.api.get::<Fault>("f").await.status.expect("a status");
    let without_pause = |status: FaultStatus| {
        let mut conditions = status.conditions;
        conditions.retain(|condition| condition.type_ != types::PAUSED);
        FaultStatus {
            conditions,
            paused_spec: None,
            ..status
        }
    };
    assert_eq!(
        without_pause(paused.clone()),
        before,
        "only the pause was written"
    );
    assert_eq!(json!(paused.paused_spec.expect("it is kept")), spec);

    // Its time is over on time.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    world
        .until("all machines to be well", |_| ill(&world, &all) == [false; 3])
        .await;
    world
        .api
        .patch::<Fault>(
            "f",
            &json!({ "spec": { "effect": { "notReady": {}, "vanish": null } } }),
        )
        .await;
    set_paused(&world, "f", false).await;
    world
        .until("all machines to be ill", |_| ill(&world, &all) == [true; 3])
        .await;
    assert_eq!(hit(&world, "f", 3).await.paused_spec, None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_is_paused_before_it_began_has_no_effect_also_after_a_restart() {
    let world = started(24_100).await;
    let first = worker(&world, "first").await;
    world.ready(&first).await;
    let mut object = fault("f", &json!({ "effect": { "notReady": {} } }));
    object.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), String::new())].into());
    world.api.create(&object).await;
    set_paused(&world, "f", true).await;
    let world = world.restart_after(async {}).await;
    let second = worker(&world, "second").await;
    world.ready(&second).await;
    assert_eq!(
        (ill(&world, &["first", "second"]), world.cloud.faults()),
        (vec![false, false], vec![])
    );
    set_paused(&world, "f", false).await;
    assert_eq!(hit(&world, "f", 2).await.hits, Some(2));
    world.stop().await;
}

/// The Faults and the SimulatedClouds of other managers are theirs.
#[tokio::test(start_paused = true)]
async fn a_watch_filter_leaves_faults_and_clouds_of_others() {
    let world = World::start_with(Setup {
        watch_filter: Some("mine".into()),
        ..Setup::at(24_300)
    });
    let label = |value: &str| json!({ WATCH_FILTER_LABEL: value });
    for (name, labels) in [
        ("unlabelled", json!({})),
        ("theirs", label("theirs")),
        ("mine", label("mine")),
    ] {
        let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
        let object = json!({ "metadata": metadata, "spec": { "effect": { "notReady": {} } } });
        world
            .api
            .create(&serde_json::from_value::<Fault>(object).expect("a Fault"))
            .await;
    }
    phase(&world, "mine", "Active").await;
    let known = |world: &World| {
        world
            .cloud
            .faults()
            .into_iter()
            .map(|id| id.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(known(&world), ["mine"]);
    let world = world.restart_after(async {}).await;
    world
        .until("the Fault to be there again", |_| known(&world) == ["mine"])
        .await;
    for name in ["unlabelled", "theirs"] {
        assert_eq!(world.api.get::<Fault>(name).await.status, None);
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_was_created_again_has_a_budget_of_its_own() {
    let world = started(24_200).await;
    for name in ["a", "b", "c"] {
        let object = worker(&world, name).await;
        world.ready(&object).await;
    }
    let spec = json!({ "effect": { "notReady": {} }, "budget": { "count": 1 } });
    world.api.create(&fault("f", &spec)).await;
    let before = hit(&world, "f", 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    world.api.delete::<Fault>("f").await;
    world.api.create(&fault("f", &spec)).await;
    let is_new = |object: &Fault| {
        let status = object.status.clone().unwrap_or_default();
        status.hits == Some(1) && status.start_time != before.start_time
    };
    world
        .api
        .eventually::<Fault>("f", "to have begun afresh", is_new)
        .await;
    assert_eq!(
        ill(&world, &["a", "b", "c"])
            .into_iter()
            .filter(|ill| *ill)
            .count(),
        1
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_vanished_is_reported_and_stays_gone() {
    let world = started(21_800).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    begin(
        &world,
        "f",
        &json!({ "match": { "names": ["w"] }, "effect": { "vanish": {} } }),
    )
    .await;
    let is_gone = |object: &InMemoryMachine| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::VM_PROVISIONED) == Some("InstanceTerminated")
    };
    world
        .api
        .eventually::<InMemoryMachine>("w", "to be gone", is_gone)
        .await;
    world.api.delete::<Fault>("f").await;
    let world = world.restart_after(async {}).await;
    let other = worker(&world, "other").await;
    world.ready(&other).await;
    let object = world
        .api
        .eventually::<InMemoryMachine>("w", "to stay gone", is_gone)
        .await;
    assert!(
        object
            .spec
            .instance
            .is_some_and(|record| record.termination.is_some())
    );
    world.stop().await;
}

/// The machine is deleted for its owner. Its instance keeps the quota used, also over a restart, until its cloud is told that it
/// shall go.
#[tokio::test(start_paused = true)]
async fn a_leaked_instance_keeps_its_room_until_the_cloud_deletes_what_leaked() {
    let world = started(23_200).await;
    let mut cloud = SimulatedCloud::new("default", SimulatedCloudSpec::default());
    cloud.metadata.namespace = Some(NAMESPACE.into());
    cloud.spec.quotas.instances = Some(1);
    world.api.create(&cloud).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    begin(&world, "f", &json!({ "effect": { "leak": {} } })).await;
    world.api.delete::<InMemoryMachine>("w").await;
    world.api.eventually_gone::<InMemoryMachine>("w").await;
    assert_eq!(
        hit(&world, "f", 1).await.leaked_instances,
        [],
        "the SimulatedCloud has it"
    );
    world.api.delete::<Fault>("f").await;
    let leaks = |count: i64| {
        move |object: &SimulatedCloud| {
            object
                .status
                .as_ref()
                .is_some_and(|status| status.leaked == Some(count))
        }
    };
    let seen = world
        .api
        .eventually("default", "to have a leak", leaks(1))
        .await
        .status
        .unwrap_or_default();
    let [leaked] = &seen.leaked_instances[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (
            leaked.name.as_str(),
            leaked.cluster.as_str(),
            leaked.fault.as_str()
        ),
        ("w", "demo", "f")
    );
    assert_eq!(
        (leaked.vcpus, leaked.addresses.len(), seen.instances),
        (Some(2), 1, Some(1))
    );

    let world = world.restart_after(async {}).await;
    let other = worker(&world, "other").await;
    world.waits(&other, "QuotaExceeded").await;
    world
        .api
        .eventually(
            "default",
            "to have the same leak",
            move |object: &SimulatedCloud| {
                object
                    .status
                    .as_ref()
                    .is_some_and(|status| status.leaked_instances == seen.leaked_instances)
            },
        )
        .await;
    world
        .api
        .patch::<SimulatedCloud>("default", &json!({ "spec": { "leakedInstances": "Delete" } }))
        .await;
    world.ready(&other).await;
    world.api.eventually("default", "to have no leak", leaks(0)).await;
    world.stop().await;
}

/// The notice outlives a restart, and the instance is gone for good.
#[tokio::test(start_paused = true)]
async fn a_spot_machine_is_told_before_the_cloud_takes_it_back_and_others_stay() {
    let world = started(23_400).await;
    let mut object = objects::in_memory_machine(&world.api.create(&objects::worker("demo", "spot")).await);
    object.spec.market = "Spot".into();
    let object = world.api.create(&object).await;
    world.bootstrap("spot").await;
    let other = worker(&world, "other").await;
    for machine in [&object, &other] {
        world.ready(machine).await;
    }
    begin(
        &world,
        "f",
        &json!({ "effect": { "spotReclaim": { "notice": "3s" } } }),
    )
    .await;
    let is_told = |object: &InMemoryMachine| {
        let status = object.status.clone().unwrap_or_default();
        conditions::is_true(&status.conditions, types::INTERRUPTION)
    };
    world
        .api
        .eventually::<InMemoryMachine>("spot", "to be told", is_told)
        .await;
    let status = hit(&world, "f", 1).await;
    assert_eq!((status.matched, status.affected.len()), (Some(1), 1));
    assert!(status.affected[0].until.is_some(), "the notice is not over");
    let world = world.restart_after(async {}).await;
    let is_gone = |object: &InMemoryMachine| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::VM_PROVISIONED) == Some("InstanceTerminated")
    };
    world
        .api
        .eventually::<InMemoryMachine>("spot", "to be gone", is_gone)
        .await;
    world.ready(&other).await;
    let story = world.api.story("InMemoryMachine", "spot").await;
    assert!(
        story
            .iter()
            .any(|[severity, reason, _]| severity == "Warning" && reason == "SpotReclaim")
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_leaked_from_the_built_in_cloud_is_gone_with_its_fault() {
    let world = started(23_300).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    begin(&world, "f", &json!({ "effect": { "leak": {} } })).await;
    world.api.delete::<InMemoryMachine>("w").await;
    let leaks = |object: &Fault| {
        let status = object.status.as_ref();
        status.is_some_and(|status| status.leaked_instances.iter().any(|leaked| leaked.name == "w"))
    };
    world
        .api
        .eventually::<Fault>("f", "to list what leaked", leaks)
        .await;
    let leaked = |cloud: &Cloud| cloud.observe_cloud(NAMESPACE, "default").record.leaked.len();
    let world = world.restart_after(async {}).await;
    world
        .until("it to be known again", |cloud| leaked(cloud) == 1)
        .await;
    world.api.delete::<Fault>("f").await;
    world.until("it to be gone", |cloud| leaked(cloud) == 0).await;
    world.stop().await;
}

/// The load balancer of the cluster `demo` leaks. Returns its port.
async fn leaked_port(world: &World) -> Option<i32> {
    let first = port(&world.provisioned("demo").await);
    let deletion = json!({ "operations": ["DeleteLoadBalancer"] });
    begin(
        world,
        "f",
        &json!({ "match": deletion, "effect": { "leak": {} } }),
    )
    .await;
    world.api.delete::<InMemoryCluster>("demo").await;
    world.api.eventually_gone::<InMemoryCluster>("demo").await;
    first
}

fn port(object: &InMemoryCluster) -> Option<i32> {
    object
        .spec
        .control_plane_endpoint
        .as_ref()
        .map(|found| found.port)
}

/// How many load balancers of the cloud `default` are leaked.
fn leaked_balancers(cloud: &Cloud) -> usize {
    let leaked = cloud.observe_cloud(NAMESPACE, "default").record.leaked;
    leaked
        .iter()
        .filter(|leaked| leaked.id.kind == ResourceKind::LoadBalancer)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_leaked_keeps_its_port_over_a_restart_until_its_fault_is_gone() {
    let world = started(23_500).await;
    let first = leaked_port(&world).await;
    let leaks = |object: &Fault| {
        let leaked = object.status.clone().unwrap_or_default().leaked_load_balancers;
        leaked
            .iter()
            .any(|leaked| leaked.cluster == "demo" && leaked.port == first)
    };
    world
        .api
        .eventually::<Fault>("f", "to list what leaked", leaks)
        .await;
    let story = world.api.story("Fault", "f").await;
    assert!(
        story.iter().any(|[_, reason, _]| reason == "LoadBalancerLeaked"),
        "{story:?}"
    );
    let world = world.restart_after(async {}).await;
    let next = world.cluster("next").await;
    assert_ne!(port(&next), first);
    world.api.delete::<Fault>("f").await;
    world
        .until("it to be gone", |cloud| leaked_balancers(cloud) == 0)
        .await;
    assert_eq!(port(&world.cluster("last").await), first);
    world.stop().await;
}

/// The cloud has no such Fault any more, so its port is free, and the status says that.
#[tokio::test(start_paused = true)]
async fn what_leaked_is_gone_for_good_when_its_fault_is_not_valid_any_more() {
    let world = started(23_700).await;
    let first = leaked_port(&world).await;
    let lists = |count: usize| {
        move |object: &Fault| {
            object
                .status
                .as_ref()
                .is_some_and(|status| status.leaked_load_balancers.len() == count)
        }
    };
    world
        .api
        .eventually::<Fault>("f", "to list what leaked", lists(1))
        .await;
    world
        .api
        .patch::<Fault>("f", &json!({ "spec": { "match": { "pools": ["p"] } } }))
        .await;
    world
        .api
        .eventually::<Fault>("f", "to list nothing", lists(0))
        .await;
    sleep(A_PORT_WAITS).await;
    assert_eq!(port(&world.cluster("next").await), first);
    world
        .api
        .patch::<Fault>("f", &json!({ "spec": { "match": { "pools": null } } }))
        .await;
    phase(&world, "f", "Active").await;
    assert_eq!(leaked_balancers(&world.cloud), 0);
    let world = world.restart_after(async {}).await;
    assert_eq!(port(&world.provisioned("next").await), first);
    assert_eq!(leaked_balancers(&world.cloud), 0);
    world.stop().await;
}

/// Also if no cluster is left that asks for it, and if another one of its name comes at once.
#[tokio::test(start_paused = true)]
async fn what_leaked_is_gone_with_its_cloud() {
    for is_replaced in [false, true] {
        let world = started(if is_replaced { 23_900 } else { 23_800 }).await;
        cloud(&world).await;
        let first = leaked_port(&world).await;
        let leaks = |count: i64| {
            move |object: &SimulatedCloud| {
                object
                    .status
                    .as_ref()
                    .is_some_and(|status| status.leaked == Some(count))
            }
        };
        world.api.eventually("default", "to list it", leaks(1)).await;
        world.api.delete::<Fault>("f").await;
        world.api.delete::<SimulatedCloud>("default").await;
        if is_replaced {
            cloud(&world).await;
            world.api.eventually("default", "to list nothing", leaks(0)).await;
        }
        world
            .until("it to be gone", |cloud| leaked_balancers(cloud) == 0)
            .await;
        sleep(A_PORT_WAITS).await;
        assert_eq!(port(&world.cluster("next").await), first);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_held_says_by_which_fault_and_joins_when_that_is_gone() {
    let world = started(21_900).await;
    begin(&world, "f", &json!({ "effect": { "hold": { "stage": "node" } } })).await;
    let object = worker(&world, "w").await;
    let message = "NodeProvisioned: Fault f holds the machine here";
    let is_held = |object: &InMemoryMachine| {
        let status = object.status.clone().unwrap_or_default();
        conditions::find(&status.conditions, types::READY).is_some_and(|ready| ready.message == message)
    };
    world
        .api
        .eventually::<InMemoryMachine>("w", "to be held", is_held)
        .await;
    let status = hit(&world, "f", 1).await;
    let machines: Vec<_> = status
        .affected
        .iter()
        .map(|affected| affected.machine.as_str())
        .collect();
    assert_eq!(
        (status.matched, status.hits, machines),
        (Some(1), Some(1), vec!["w"])
    );
    world.api.delete::<Fault>("f").await;
    world.ready(&object).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_a_fault_spares_is_counted() {
    let world = started(21_910).await;
    let spec = json!({ "effect": { "hold": { "stage": "node" } }, "budget": { "skip": 1 } });
    begin(&world, "f", &spec).await;
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    let has = |object: &Fault| {
        object
            .status
            .as_ref()
            .is_some_and(|status| status.matched == Some(1))
    };
    let status = world
        .api
        .eventually::<Fault>("f", "to have counted", has)
        .await
        .status
        .expect("a status");
    assert_eq!((status.hits, status.affected), (Some(0), vec![]));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_cannot_be_read_says_so_and_has_no_effect() {
    let world = started(21_500).await;
    let spec = json!({ "effect": { "fail": { "reason": "Throttled", "retryAfter": "100ms" } } });
    begin(&world, "f", &spec).await;
    // The schema of a real API server would refuse it.
    let wrong = json!({ "spec": { "match": { "pools": ["p"] } } });
    world.api.patch::<Fault>("f", &wrong).await;
    let status = phase(&world, "f", "Invalid").await;
    let ready = conditions::find(&status.conditions, types::READY).expect("a condition");
    assert_eq!(
        ready.message,
        "spec.match.pools: \"p\" is not for a fault of machines or API servers"
    );
    let object = worker(&world, "w").await;
    world.ready(&object).await;
    world.stop().await;
}

async fn cloud(world: &World) {
    let mut cloud = SimulatedCloud::new("default", SimulatedCloudSpec::default());
    cloud.metadata.namespace = Some(NAMESPACE.into());
    world.api.create(&cloud).await;
}

/// One instance serves the machine. The other one has no owner: the cloud lists it, and counts who made it, also after a
/// restart.
#[tokio::test(start_paused = true)]
async fn a_creation_that_is_carried_out_twice_leaves_an_instance_that_the_cloud_lists_and_deletes() {
    let world = started(23_500).await;
    cloud(&world).await;
    let twice = json!({ "effect": { "duplicate": { "retryAfter": "100ms" } }, "budget": { "count": 1 } });
    begin(&world, "f", &twice).await;
    let object = worker(&world, "w").await;
    let ready = world.ready(&object).await;
    let id = World::machine_id("demo", "w");
    let addresses = |cloud: &Cloud| {
        let seen = cloud.observe_machine(&id).expect("it is there");
        seen.allocation
            .addresses
            .iter()
            .map(|address| address.address.clone())
            .collect::<Vec<_>>()
    };
    let shown: Vec<_> = ready
        .status
        .unwrap_or_default()
        .addresses
        .into_iter()
        .map(|shown| shown.address)
        .collect();
    assert_eq!(addresses(&world.cloud), shown);
    let double = MistakesByCaller {
        caller: "machine".into(),
        double_creates: Some(1),
        missed_reads: Some(0),
    };
    let counts = |instances: i64, leaked: i64| {
        let caller_mistakes = vec![double.clone()];
        move |object: &SimulatedCloud| {
            let status = object.status.clone().unwrap_or_default();
            (status.instances, status.leaked) == (Some(instances), Some(leaked))
                && status.caller_mistakes == caller_mistakes
        }
    };
    let seen = world
        .api
        .eventually("default", "to list it", counts(2, 1))
        .await
        .status
        .unwrap_or_default();
    let [leaked] = &seen.leaked_instances[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (
            leaked.name.as_str(),
            leaked.cluster.as_str(),
            leaked.fault.as_str()
        ),
        ("w", "demo", "f")
    );
    assert_eq!(leaked.addresses, [""; 0], "they are not known");
    let story = world.api.story("SimulatedCloud", "default").await;
    assert!(
        story
            .iter()
            .any(|[severity, reason, _]| severity == "Warning" && reason == "DoubleCreate")
    );

    let world = world.restart_after(async {}).await;
    world
        .until("the machine to be back", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    let again = world
        .api
        .eventually("default", "to have the same leak", counts(2, 1))
        .await;
    assert_eq!(
        again.status.unwrap_or_default().leaked_instances,
        seen.leaked_instances
    );
    assert_eq!(addresses(&world.cloud), shown);
    world
        .api
        .patch::<SimulatedCloud>("default", &json!({ "spec": { "leakedInstances": "Delete" } }))
        .await;
    world
        .api
        .eventually("default", "to have no leak", counts(1, 0))
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_creation_does_not_show_says_so_and_the_cloud_counts_the_reads() {
    let world = started(23_600).await;
    cloud(&world).await;
    begin(&world, "f", &json!({ "effect": { "lag": { "duration": "1h" } } })).await;
    let object = worker(&world, "w").await;
    let waiting = world
        .waits(&object, "NotVisibleYet")
        .await
        .status
        .unwrap_or_default();
    let booted = conditions::find(&waiting.conditions, types::VM_PROVISIONED).expect("a condition");
    let told = "the cloud refused DescribeInstance: reads of default/demo/instance/w do not show CreateInstance until \
                3600s after it (Fault f)";
    assert_eq!(booted.message, told);
    let is_counted = |object: &SimulatedCloud| {
        let found = object.status.clone().unwrap_or_default().caller_mistakes;
        found
            .iter()
            .any(|found| found.caller == "machine" && found.missed_reads >= Some(1))
    };
    world
        .api
        .eventually("default", "to count the reads", is_counted)
        .await;
    let story = world.api.story("SimulatedCloud", "default").await;
    assert!(
        story
            .iter()
            .any(|[severity, reason, _]| severity == "Warning" && reason == "MissedRead")
    );
    world.api.delete::<Fault>("f").await;
    world.ready(&object).await;
    world.stop().await;
}
