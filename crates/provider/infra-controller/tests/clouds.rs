//! Clusters in a SimulatedCloud: its zones, its instance types.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _, future};
use kube::runtime::{WatchStreamExt as _, watcher};
use nephele_api::{
    cloud::v1alpha1::{Fault, Region, SimulatedCloud, SimulatedCloudSpec, Zone},
    conditions::{self, types},
    core::{Cluster, MachinePool},
    infrastructure,
    infrastructure::v1beta2::{
        CloudReference, InMemoryCluster, InMemoryMachine, InMemoryMachinePool, InMemoryMachineTemplate,
        PoolMachine,
    },
};
use nephele_cloud::{Cloud, Hardware, Model};
use nephele_controller::PAUSED_ANNOTATION;
use nephele_model::{FaultId, GoDuration, InstanceType};
use nephele_testkit::{
    ManagementApi,
    objects::{self, NAMESPACE},
};
use serde_json::json;

use crate::world::{Setup, World, reason};

fn cloud(name: &str, zones: &[&str], types: &[&str]) -> SimulatedCloud {
    let zone = |name: &&str| Zone {
        name: (*name).into(),
        control_plane: None,
    };
    let kind = |name: &&str| InstanceType {
        name: (*name).into(),
        cpu: 16,
        memory: "64Gi".into(),
        architecture: "arm64".into(),
        ..InstanceType::default()
    };
    let spec = SimulatedCloudSpec {
        regions: vec![Region {
            name: "north".into(),
            zones: zones.iter().map(zone).collect(),
        }],
        instance_types: types.iter().map(kind).collect(),
        ..SimulatedCloudSpec::default()
    };
    let mut cloud = SimulatedCloud::new(name, spec);
    cloud.metadata.namespace = Some(NAMESPACE.into());
    cloud
}

fn zones(object: &InMemoryCluster) -> Vec<(String, Option<bool>)> {
    let domains = object
        .status
        .iter()
        .flat_map(|status| status.failure_domains.clone());
    domains
        .map(|domain| (domain.name, domain.control_plane))
        .collect()
}

fn expected(names: &[&str]) -> Vec<(String, Option<bool>)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), Some(true)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_the_zones_of_its_cloud_and_loses_one_that_is_removed() {
    let world = World::start(17_000);
    world.api.create(&cloud("default", &["b", "a"], &[])).await;
    let object = world.cluster("demo").await;
    assert_eq!(zones(&object), expected(&["a", "b"]));
    let patch = json!({ "spec": cloud("default", &["c", "b"], &[]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    let now = expected(&["b", "c"]);
    let object = world
        .api
        .eventually("demo", "to have the new zones", |object| zones(object) == now)
        .await;
    assert!(object.is_provisioned());
    // The failure domains of the InMemoryCluster come before those of the SimulatedCloud.
    let patch = json!({ "spec": { "failureDomains": [{ "name": "own" }] } });
    world.api.patch::<InMemoryCluster>("demo", &patch).await;
    let now = vec![("own".to_owned(), None)];
    world
        .api
        .eventually("demo", "to have its own", |object| zones(object) == now)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_waits_for_the_cloud_that_it_names() {
    let world = World::start(17_100);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    world.api.create(&object).await;
    let waits = |object: &InMemoryCluster| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::CLOUD_AVAILABLE) == Some("CloudNotFound")
    };
    let object = world.api.eventually("demo", "to miss its cloud", waits).await;
    assert!(!object.is_provisioned());
    world.api.create(&cloud("north", &["a"], &[])).await;
    let object = world.provisioned("demo").await;
    assert_eq!(zones(&object), expected(&["a"]));
    let status = object.status.unwrap_or_default();
    assert!(conditions::is_true(&status.conditions, types::CLOUD_AVAILABLE));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_an_unknown_type_says_so_and_boots_when_the_type_is_there() {
    let world = World::start(17_200);
    world.api.create(&cloud("default", &["a"], &["m1"])).await;
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.failure_domain = "a".into();
    let machine = world.api.create(&machine).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec.instance_type = "m2".into();
    let object = world.api.create(&object).await;
    let waiting: InMemoryMachine = world.waits(&object, "UnknownInstanceType").await;
    let status = waiting.status.unwrap_or_default();
    let ready = conditions::find(&status.conditions, types::READY).expect("a summary");
    assert_eq!(
        ready.message,
        "VMProvisioned: The cloud has no instance type m2; it has m1"
    );
    let patch = json!({ "spec": cloud("default", &["a"], &["m1", "m2"]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    world.ready(&object).await;
    let seen = world
        .cloud
        .observe_machine(&World::machine_id("demo", "w"))
        .expect("it is there");
    assert_eq!(
        (seen.zone.as_deref(), seen.region.as_deref()),
        (Some("a"), Some("north"))
    );
    let Hardware {
        architecture,
        capacity,
        ..
    } = &seen.hardware;
    assert_eq!(
        (&**architecture, &*capacity["cpu"], &*capacity["memory"]),
        ("arm64", "16", "64Gi")
    );
    // The machine keeps its hardware when its instance type changes, and over a restart too.
    let patch = json!({ "spec": cloud("default", &["b"], &["m1"]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    let now = expected(&["b"]);
    world
        .api
        .eventually("demo", "to have the new zone", |object| zones(object) == now)
        .await;
    let world = world.restart().await;
    let id = World::machine_id("demo", "w");
    world
        .until("the machine to be back", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    let back = world.cloud.observe_machine(&id).expect("it is there");
    assert_eq!(
        (&back.hardware, &back.zone, &back.region),
        (&seen.hardware, &seen.zone, &seen.region)
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn templates_say_what_machines_of_their_cluster_have_and_then_are_left_alone() {
    let world = World::start(17_300);
    world.api.create(&cloud("default", &["a"], &[])).await;
    world.api.create(&cloud("north", &["a"], &["large"])).await;
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let template = |name: &str| {
        let mut object = InMemoryMachineTemplate::default();
        object.metadata.name = Some(name.into());
        object.metadata.namespace = Some(NAMESPACE.into());
        object.spec.template.spec.instance_type = "large".into();
        object
    };
    // Before the cluster is reconciled, its template has no status; the template of a ClusterClass belongs to no
    // cluster.
    let mut of_cluster = template("of-cluster");
    objects::own(&mut of_cluster, &cluster);
    world.api.create(&of_cluster).await;
    world.api.create(&template("of-class")).await;
    let cpu = |object: &InMemoryMachineTemplate| -> Option<String> {
        Some(object.status.as_ref()?.capacity.get("cpu")?.0.clone())
    };
    let has = |expected: &'static str| {
        move |object: &InMemoryMachineTemplate| cpu(object).as_deref() == Some(expected)
    };
    world
        .api
        .eventually("of-class", "to have 8 processors", has("8"))
        .await;
    let before = world.api.get::<InMemoryMachineTemplate>("of-cluster").await;
    assert_eq!(before.status, None);
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    world.api.create(&object).await;
    let told = world
        .api
        .eventually("of-cluster", "to have 16 processors", has("16"))
        .await;
    let node_info = told
        .status
        .and_then(|status| status.node_info)
        .unwrap_or_default();
    assert_eq!(
        (&*node_info.architecture, &*node_info.operating_system),
        ("arm64", "linux")
    );

    // Templates get no second write of the same values, and only their status is ever written.
    let mut written = world.writes("of-cluster");
    assert_eq!(written, ["patch inmemorymachinetemplates/status"]);
    let patch = json!({ "metadata": { "labels": { "touched": "" } } });
    world.api.patch::<SimulatedCloud>("north", &patch).await;
    world.api.patch::<Cluster>("demo", &patch).await;
    let patch = json!({ "spec": cloud("north", &["b"], &["large"]).spec });
    world.api.patch::<SimulatedCloud>("north", &patch).await;
    let now = expected(&["b"]);
    world
        .api
        .eventually("demo", "to have the new zone", |object| zones(object) == now)
        .await;
    let patch = json!({ "spec": cloud("default", &["b"], &["medium"]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    let silent = |object: &InMemoryMachineTemplate| cpu(object).is_none();
    world
        .api
        .eventually("of-class", "to have nothing to say", silent)
        .await;
    written = world.writes("of-cluster");
    assert_eq!(written, [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_says_what_its_machines_have_before_there_is_one() {
    let world = World::start(17_400);
    world.api.create(&cloud("default", &["a"], &["large"])).await;
    world.cluster("demo").await;
    let pool: MachinePool = serde_json::from_value(json!({
        "metadata": { "name": "pool", "namespace": NAMESPACE },
        "spec": { "clusterName": "demo", "replicas": 0, "template": { "spec": {
            "clusterName": "demo",
            "infrastructureRef":
                { "apiGroup": infrastructure::GROUP, "kind": "InMemoryMachinePool", "name": "pool" },
        } } },
    }))
    .expect("a pool");
    let pool = world.api.create(&pool).await;
    let mut object = InMemoryMachinePool::default();
    object.metadata.name = Some("pool".into());
    object.metadata.namespace = Some(NAMESPACE.into());
    object.spec.template = Some(PoolMachine {
        instance_type: "large".into(),
        ..PoolMachine::default()
    });
    objects::own(&mut object, &pool);
    world.api.create(&object).await;
    let said = |object: &InMemoryMachinePool| {
        let status = object.status.clone().unwrap_or_default();
        let cpu = status.capacity.get("cpu").map(|quantity| quantity.0.clone());
        (cpu, status.node_info.map(|info| info.architecture))
    };
    let has = |cpu: &str, architecture: &str| (Some(cpu.to_owned()), Some(architecture.to_owned()));
    let large = has("16", "arm64");
    world
        .api
        .eventually("pool", "to have 16 processors", |object| said(object) == large)
        .await;
    let patch = json!({ "spec": { "instanceTypes": null } });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    let large = has("8", "amd64");
    world
        .api
        .eventually("pool", "to have 8 processors", |object| said(object) == large)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_for_an_unknown_zone_says_so_and_boots_there_when_the_zone_is_there() {
    let world = World::start(17_500);
    world.cluster("demo").await;
    let with_zones = |names: &[&str]| {
        let mut status = json!(objects::provisioned(true));
        status["failureDomains"] = names.iter().map(|name| json!({ "name": name })).collect();
        status
    };
    world
        .api
        .patch_status::<Cluster>("demo", &with_zones(&["a", "b"]))
        .await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.failure_domain = "c".into();
    let machine = world.api.create(&machine).await;
    let object = world.api.create(&objects::in_memory_machine(&machine)).await;
    let waiting = world.waits(&object, "UnknownFailureDomain").await;
    let status = waiting.status.unwrap_or_default();
    let ready = conditions::find(&status.conditions, types::READY).expect("a summary");
    let message = "VMProvisioned: The Machine asks for failure domain c, but the cluster has only a, b";
    assert_eq!(
        (ready.message.as_str(), status.failure_domain.as_str()),
        (message, "")
    );
    world
        .api
        .patch_status::<Cluster>("demo", &with_zones(&["a", "b", "c"]))
        .await;
    let status = world.ready(&object).await.status.unwrap_or_default();
    assert_eq!(status.failure_domain, "c");
    world.stop().await;
}

fn slow_deletions(duration: &str) -> SimulatedCloud {
    let mut cloud = cloud("default", &[], &[]);
    let delete = json!({ "delete": { "fixed": { "duration": duration } } });
    cloud.spec.latency = serde_json::from_value(delete).expect("a latency");
    cloud
}

/// The object stays until the deletion is over, also after a restart. An hour has not passed in a test; a restart with
/// another duration draws it again.
#[tokio::test(start_paused = true)]
async fn a_slow_deletion_keeps_its_object_and_continues_after_a_restart() {
    let world = World::start(17_800);
    world.api.create(&slow_deletions("1h")).await;
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    world.api.delete::<InMemoryMachine>("cp").await;
    let is_noted = |object: &InMemoryMachine| object.deletion().is_some();
    let object = world
        .api
        .eventually("cp", "to record the deletion", is_noted)
        .await;
    let message = "Waiting for the deletion of the simulated machine";
    let says = |object: &InMemoryMachine| {
        let said = object.status.iter().flat_map(|status| &status.conditions);
        said.clone().any(|condition| condition.message == message)
    };
    world.api.eventually("cp", "to say what it waits for", says).await;
    let since = object.deletion();

    let world = world.restart().await;
    let is_deleting = |cloud: &nephele_cloud::Cloud| {
        cloud
            .observe_machine(&World::machine_id("demo", "cp"))
            .is_some_and(|seen| seen.deleting)
    };
    world
        .until("the machine is being deleted again", is_deleting)
        .await;
    let object = world.api.get::<InMemoryMachine>("cp").await;
    assert_eq!(object.deletion(), since);

    let api = world.stop().await;
    let patch = json!({ "spec": slow_deletions("1ms").spec });
    api.patch::<SimulatedCloud>("default", &patch).await;
    let world = World::over(api, crate::world::Setup::at(17_800));
    world.api.eventually_gone::<InMemoryMachine>("cp").await;
    assert!(!is_deleting(&world.cloud));
    world.stop().await;
}

fn with_clock(clock: &serde_json::Value) -> serde_json::Value {
    let mut spec = cloud("default", &[], &[]).spec;
    spec.latency =
        serde_json::from_value(json!({ "vm": { "fixed": { "duration": "1h" } } })).expect("a latency");
    spec.clock = serde_json::from_value(clock.clone()).expect("a clock");
    json!({ "spec": spec })
}

/// The clock of a cloud lets an hour pass at once, and holds what comes then until there is a step. The status shows it,
/// and a restart does not carry it out again.
#[tokio::test(start_paused = true)]
async fn a_clock_leaps_stands_still_and_goes_by_steps_also_over_a_restart() {
    let world = World::start(17_900);
    world.api.create(&cloud("default", &[], &[])).await;
    world
        .api
        .patch::<SimulatedCloud>("default", &with_clock(&json!({ "paused": true, "steps": 5 })))
        .await;
    let shows = |clock: serde_json::Value| {
        move |object: &SimulatedCloud| {
            let shown = object.status.as_ref().and_then(|status| status.clock.as_ref());
            let ahead = clock["ahead"].as_str().unwrap_or("0s");
            shown.is_some_and(|shown| {
                (
                    shown.paused,
                    shown.steps,
                    shown.ahead.as_ref().map(GoDuration::as_str),
                ) == (clock["paused"].as_bool(), clock["steps"].as_i64(), Some(ahead))
            })
        }
    };
    let clock = json!({ "paused": true, "steps": 5 });
    world
        .api
        .eventually("default", "to show the pause", shows(clock))
        .await;
    world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    let reached = |count: usize| {
        move |cloud: &nephele_cloud::Cloud| {
            let seen = cloud.observe_machine(&World::machine_id("demo", "cp"));
            seen.is_some_and(|seen| {
                seen.stages
                    .keys()
                    .filter(|stage| seen.reached(**stage).is_some())
                    .count()
                    == count
            })
        }
    };
    world.until("the machine exists", reached(0)).await;
    let clock = json!({ "paused": true, "steps": 5, "ahead": "3600s" });
    world
        .api
        .patch::<SimulatedCloud>("default", &with_clock(&clock))
        .await;
    // The other stages take no time, so they end at the same time as the first one.
    world.until("an hour has passed", reached(4)).await;
    world
        .api
        .eventually("default", "to show the leap", shows(clock.clone()))
        .await;
    world.ready(&machine).await;

    let second = world.machine(&objects::control_plane("demo", "cp-2")).await;
    world.bootstrap("cp-2").await;
    let world = world.restart().await;
    let stages = |cloud: &nephele_cloud::Cloud| {
        let seen = cloud.observe_machine(&World::machine_id("demo", "cp-2"))?;
        Some(
            seen.stages
                .keys()
                .filter(|stage| seen.reached(**stage).is_some())
                .count(),
        )
    };
    world
        .until("the second machine exists", |cloud| stages(cloud).is_some())
        .await;
    world
        .api
        .eventually("default", "to show the same clock", shows(clock))
        .await;
    assert_eq!(
        stages(&world.cloud),
        Some(0),
        "neither the leap nor the steps are repeated"
    );
    let clock = json!({ "paused": true, "steps": 6, "ahead": "3600s" });
    world
        .api
        .patch::<SimulatedCloud>("default", &with_clock(&clock))
        .await;
    world
        .until("one stage has passed", |cloud| stages(cloud) == Some(1))
        .await;
    world
        .api
        .eventually("default", "to show the step", shows(clock))
        .await;
    assert_eq!(stages(&world.cloud), Some(1));
    let clock = json!({ "paused": false, "steps": 6, "ahead": "3600s" });
    world
        .api
        .patch::<SimulatedCloud>("default", &with_clock(&clock))
        .await;
    world.ready(&second).await;
    world.stop().await;
}

/// Before and after a restart.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_paused_cloud_waits_until_it_is_resumed() {
    let world = World::start(18_600);
    world.api.create(&cloud("default", &["a"], &[])).await;
    let before = world.cluster("first").await;
    assert_eq!(zones(&before), expected(&["a"]));
    let paused =
        |paused: bool| json!({ "metadata": { "annotations": { PAUSED_ANNOTATION: paused.then_some("") } } });
    let kept = |object: &SimulatedCloud| object.status.clone().unwrap_or_default().paused_spec;
    world.api.patch::<SimulatedCloud>("default", &paused(true)).await;
    let is_kept = |object: &SimulatedCloud| kept(object).is_some();
    let spec = world
        .api
        .eventually("default", "to keep its spec", is_kept)
        .await
        .spec;
    let changed = cloud("default", &["b"], &[]).spec;
    world
        .api
        .patch::<SimulatedCloud>("default", &json!({ "spec": changed }))
        .await;
    assert_eq!(zones(&world.cluster("second").await), expected(&["a"]));

    let world = world.restart().await;
    assert_eq!(zones(&world.cluster("third").await), expected(&["a"]));
    let object = world.api.get::<SimulatedCloud>("default").await;
    assert_eq!((kept(&object), object.spec), (Some(spec), changed));

    world.api.patch::<SimulatedCloud>("default", &paused(false)).await;
    let object = world
        .api
        .eventually("default", "to continue", |object| kept(object).is_none())
        .await;
    let conditions = object.status.unwrap_or_default().conditions;
    assert!(conditions::is_true(&conditions, types::READY), "{conditions:?}");
    for name in ["first", "second", "third"] {
        let has_changed = |object: &InMemoryCluster| zones(object) == expected(&["b"]);
        world
            .api
            .eventually(name, "to have the new zones", has_changed)
            .await;
    }
    world.stop().await;
}

/// The load balancer is where the control planes are.
#[tokio::test(start_paused = true)]
async fn a_fault_of_a_region_hits_what_is_there_and_the_same_after_a_restart() {
    let world = World::start(18_900);
    let region = |name: &str, zone: &str, control_plane| {
        let zones = vec![Zone {
            name: zone.into(),
            control_plane,
        }];
        Region {
            name: name.into(),
            zones,
        }
    };
    let mut object = cloud("default", &[], &[]);
    object.spec.regions = vec![region("north", "a", None), region("edge", "e", Some(false))];
    world.api.create(&object).await;
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    for (name, zone) in [("in-north", "a"), ("at-the-edge", "e")] {
        let mut machine = objects::worker("demo", name);
        machine.spec.failure_domain = zone.into();
        let object = world.machine(&machine).await;
        world.bootstrap(name).await;
        world.ready(&object).await;
    }
    let of_machines = || json!({ "notReady": {} });
    let of_clusters = || json!({ "loadBalancer": { "noBackends": {} } });
    let faults = [
        ("machines-north", "north", of_machines()),
        ("machines-edge", "edge", of_machines()),
        ("clusters-north", "north", of_clusters()),
        ("clusters-edge", "edge", of_clusters()),
    ];
    for (name, region, effect) in &faults {
        let spec = json!({ "match": { "regions": [region] }, "effect": effect });
        let object = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec });
        world
            .api
            .create(&serde_json::from_value::<Fault>(object).expect("a Fault"))
            .await;
        let is_active = |fault: &Fault| {
            fault
                .status
                .as_ref()
                .is_some_and(|status| status.phase == "Active")
        };
        world
            .api
            .eventually::<Fault>(name, "to be in force", is_active)
            .await;
    }
    let affected = |cloud: &Cloud, name: &str| {
        let id = FaultId {
            namespace: NAMESPACE.into(),
            name: name.into(),
        };
        let affected = cloud
            .observe_fault(&id)
            .map(|seen| seen.affected)
            .unwrap_or_default();
        affected.into_iter().map(|one| one.machine).collect::<Vec<_>>()
    };
    let all = |cloud: &Cloud| faults.each_ref().map(|(name, ..)| affected(cloud, name));
    let machine = |name: &str| vec![Some(name.to_owned())];
    let hit = [machine("in-north"), machine("at-the-edge"), vec![None], vec![]];
    assert_eq!(all(&world.cloud), hit);
    let world = world.restart().await;
    let is_back = |cloud: &Cloud| {
        let wrong = |name| {
            cloud
                .observe_machine(&World::machine_id("demo", name))
                .map(|seen| seen.wrong.len())
        };
        cloud.observe_cluster(&World::id("demo")).is_some()
            && ["in-north", "at-the-edge"].map(wrong) == [Some(1), Some(1)]
    };
    world
        .until("the cluster and its machines to be back", is_back)
        .await;
    assert_eq!(all(&world.cloud), hit);
    world.stop().await;
}

/// How often a manager has read SimulatedClouds, in lists and watches.
static READS: AtomicUsize = AtomicUsize::new(0);

/// The watch from which the cloud is told breaks at once, so that the one from which statuses are written is ahead of it.
fn is_first_watch(method: &str, path: &str) -> bool {
    let is_read = method == "GET" && path.ends_with("/simulatedclouds");
    is_read && READS.fetch_add(1, Ordering::Relaxed) == 1
}

/// Without a cluster that would look at it.
#[tokio::test(start_paused = true)]
async fn a_change_and_a_removal_reach_the_cloud_by_themselves() {
    let api = ManagementApi::start();
    for name in ["changed", "removed"] {
        api.create(&cloud(name, &[], &["small"])).await;
    }
    let world = World::over(
        api,
        Setup {
            refused: is_first_watch,
            ..Setup::at(22_400)
        },
    );
    let resolved_clouds = |cloud: &Cloud, name: &str, instance_type: &str| {
        let model = Model {
            instance_type: Some(instance_type.into()),
            ..Model::default()
        };
        cloud.describe_model(NAMESPACE, name, &model).is_ok()
    };
    world
        .until("the clouds to be there", |cloud| {
            resolved_clouds(cloud, "removed", "small")
        })
        .await;
    world
        .api
        .eventually("changed", "to be ready", |object: &SimulatedCloud| {
            object.status.is_some()
        })
        .await;
    let patch = json!({ "spec": cloud("changed", &["a"], &["large"]).spec });
    world.api.patch::<SimulatedCloud>("changed", &patch).await;
    world.api.delete::<SimulatedCloud>("removed").await;
    let says_so = |object: &SimulatedCloud| object.status.as_ref().and_then(|status| status.zones) == Some(1);
    world.api.eventually("changed", "to have one zone", says_so).await;
    assert!(
        resolved_clouds(&world.cloud, "changed", "large"),
        "the cloud has what the status tells"
    );
    world
        .until("the other one to be gone", |cloud| {
            !resolved_clouds(cloud, "removed", "small")
        })
        .await;
    world.stop().await;
}

/// A cluster that is created right after its SimulatedCloud has it from the start.
#[tokio::test(start_paused = true)]
async fn a_cloud_and_its_first_cluster_can_be_created_together() {
    let world = World::start(22_500);
    let stored = world.api.api::<InMemoryCluster>();
    let touched = watcher::Config::default();
    let missed = watcher(stored, touched).applied_objects().try_filter(|object| {
        let status = object.status.clone().unwrap_or_default();
        future::ready(reason(&status.conditions, types::CLOUD_AVAILABLE) == Some("CloudNotFound"))
    });
    let missed = tokio::spawn(async move { std::pin::pin!(missed).next().await });
    world.api.create(&cloud("north", &["a"], &[])).await;
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    world.api.create(&object).await;
    let object = world.provisioned("demo").await;
    assert_eq!(zones(&object), expected(&["a"]));
    assert!(
        !missed.is_finished(),
        "no status said that there is no such cloud"
    );
    world.stop().await;
}
