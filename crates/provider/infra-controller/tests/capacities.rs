//! The limits of SimulatedClouds: what users see of them, and that everything continues when there is room.

use nephele_api::{
    cloud::v1alpha1::{CloudApi, LimitUsage, SimulatedCloud, SimulatedCloudSpec},
    conditions::{self, types},
    core::Cluster,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_model::{GoDuration, Quotas, Stock};
use nephele_testkit::objects::{self, NAMESPACE};
use serde_json::json;

use crate::world::{World, reason};

/// Creates the default SimulatedCloud.
async fn limited(world: &World, spec: SimulatedCloudSpec) {
    let mut cloud = SimulatedCloud::new("default", spec);
    cloud.metadata.namespace = Some(NAMESPACE.into());
    world.api.create(&cloud).await;
}

fn instances(max: u32) -> SimulatedCloudSpec {
    let quotas = Quotas {
        instances: Some(max),
        ..Quotas::default()
    };
    SimulatedCloudSpec {
        quotas,
        ..SimulatedCloudSpec::default()
    }
}

async fn change(world: &World, spec: &serde_json::Value) {
    world
        .api
        .patch::<SimulatedCloud>("default", &json!({ "spec": spec }))
        .await;
}

async fn started(world: &World) {
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
}

async fn worker(world: &World, name: &str, instance_type: &str) -> InMemoryMachine {
    let machine = world.api.create(&objects::worker("demo", name)).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec.instance_type = instance_type.into();
    let object = world.api.create(&object).await;
    world.bootstrap(name).await;
    object
}

/// The message of a machine that waits for this reason.
async fn message(world: &World, object: &InMemoryMachine, reason: &str) -> String {
    let status = world.waits(object, reason).await.status.unwrap_or_default();
    conditions::find(&status.conditions, types::VM_PROVISIONED)
        .expect("a condition")
        .message
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_machine_beyond_a_quota_waits_and_boots_when_the_quota_is_raised() {
    let world = World::start(22_000);
    started(&world).await;
    let first = worker(&world, "a", "").await;
    world.ready(&first).await;
    // The machine was there before the SimulatedCloud, and counts.
    limited(&world, instances(1)).await;
    world
        .api
        .eventually("default", "to be ready", |object: &SimulatedCloud| {
            object.status.is_some()
        })
        .await;
    let second = worker(&world, "b", "").await;
    let told = "the cloud refused CreateInstance: quota of 1 instances is used up; delete machines, or raise \
                spec.quotas.instances of SimulatedCloud default";
    assert_eq!(message(&world, &second, "QuotaExceeded").await, told);
    change(&world, &json!({ "quotas": { "instances": 2 } })).await;
    world.ready(&second).await;
    // Lowering it deletes nothing, also when everything returns after a restart.
    change(&world, &json!({ "quotas": { "instances": 0 } })).await;
    let world = world.restart().await;
    let third = worker(&world, "c", "").await;
    world.waits(&third, "QuotaExceeded").await;
    for name in ["a", "b"] {
        let id = World::machine_id("demo", name);
        world
            .until("the machine to be back", |cloud| {
                cloud.observe_machine(&id).is_some()
            })
            .await;
    }
    change(&world, &json!({ "quotas": { "instances": 2 } })).await;
    world.waits(&third, "QuotaExceeded").await;
    world.api.delete::<InMemoryMachine>("a").await;
    world.ready(&third).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_say_that_the_cloud_is_called_too_often_and_all_come_up() {
    let world = World::start(22_600);
    let api = CloudApi {
        rate: Some(1),
        ..CloudApi::default()
    };
    limited(
        &world,
        SimulatedCloudSpec {
            api,
            ..SimulatedCloudSpec::default()
        },
    )
    .await;
    started(&world).await;
    let mut workers = Vec::new();
    for name in ["a", "b", "c"] {
        workers.push(worker(&world, name, "").await);
    }
    let told = "the cloud refused CreateInstance: more than 1 calls a second, or 1 at once";
    assert_eq!(message(&world, &workers[2], "Throttled").await, told);
    // None waits for the end of the time that was told.
    change(&world, &json!({ "api": null })).await;
    for worker in &workers {
        world.ready(worker).await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_does_not_show_before_the_lag_of_reads_is_over() {
    let world = World::start(22_700);
    started(&world).await;
    let api = CloudApi {
        read_after_write_lag: GoDuration::parse("1h").ok(),
        ..CloudApi::default()
    };
    limited(
        &world,
        SimulatedCloudSpec {
            api,
            ..SimulatedCloudSpec::default()
        },
    )
    .await;
    world
        .api
        .eventually("default", "to be ready", |object: &SimulatedCloud| {
            object.status.is_some()
        })
        .await;
    let hidden = worker(&world, "a", "").await;
    let id = World::machine_id("demo", "a");
    let told = "the cloud refused DescribeInstance: default/demo/instance/a does not show in reads until 3600s after its \
                creation";
    assert_eq!(message(&world, &hidden, "NotVisibleYet").await, told);
    world
        .until("the machine to be there", |cloud| {
            cloud.observe_machine(&id).is_some()
        })
        .await;
    change(&world, &json!({ "api": null })).await;
    world.ready(&hidden).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn large_machines_take_more_of_the_quota_of_vcpus() {
    let world = World::start(22_100);
    let quotas = Quotas {
        vcpus: Some(8),
        ..Quotas::default()
    };
    limited(
        &world,
        SimulatedCloudSpec {
            quotas,
            ..SimulatedCloudSpec::default()
        },
    )
    .await;
    started(&world).await;
    let medium = worker(&world, "medium", "medium").await;
    world.ready(&medium).await;
    let large = worker(&world, "large", "large").await;
    let told = "the cloud refused CreateInstance: quota of 8 vCPUs has no room for 8 more; delete machines, or raise \
                spec.quotas.vCPUs of SimulatedCloud default";
    assert_eq!(message(&world, &large, "QuotaExceeded").await, told);
    let small = worker(&world, "small", "small").await;
    let told = "the cloud refused CreateInstance: quota of 8 vCPUs has no room for 2 more: others that asked before \
                wait for it; delete machines, or raise spec.quotas.vCPUs of SimulatedCloud default";
    assert_eq!(message(&world, &small, "QuotaExceeded").await, told);
    world.api.delete::<InMemoryMachine>("medium").await;
    world.ready(&large).await;
    world.waits(&small, "QuotaExceeded").await;
    // Without the SimulatedCloud there are no quotas.
    world.api.delete::<SimulatedCloud>("default").await;
    world.ready(&small).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_out_of_stock_says_so_and_boots_when_there_is_one() {
    let world = World::start(22_300);
    let of_large = Stock {
        instance_type: "large".into(),
        count: 1,
        ..Stock::default()
    };
    limited(
        &world,
        SimulatedCloudSpec {
            capacity: vec![of_large],
            ..SimulatedCloudSpec::default()
        },
    )
    .await;
    started(&world).await;
    let first = worker(&world, "a", "large").await;
    world.ready(&first).await;
    let second = worker(&world, "b", "large").await;
    let told = "the cloud refused CreateInstance: stock of 1 instances of type large is used up; use another instance \
                type or failure domain, or raise spec.capacity of SimulatedCloud default";
    assert_eq!(message(&world, &second, "InsufficientCapacity").await, told);
    let small = worker(&world, "small", "small").await;
    world.ready(&small).await;
    let usage = |used: i64, waiting: i64| {
        let name = "capacity/large/*".to_owned();
        let usage = LimitUsage {
            name,
            limit: 1,
            used,
            free: 1 - used,
            waiting,
        };
        move |object: &SimulatedCloud| {
            let status = object.status.clone().unwrap_or_default();
            (status.instances, status.waiting) == (Some(2), Some(waiting)) && status.usage == [usage.clone()]
        }
    };
    world
        .api
        .eventually("default", "to say what is used", usage(1, 1))
        .await;
    // What is there counts after a restart too.
    let world = world.restart().await;
    world.waits(&second, "InsufficientCapacity").await;
    world.api.delete::<InMemoryMachine>("a").await;
    world.ready(&second).await;
    change(&world, &json!({ "capacity": [{ "count": 2 }] })).await;
    let third = worker(&world, "c", "large").await;
    world.waits(&third, "InsufficientCapacity").await;
    change(&world, &json!({ "capacity": null })).await;
    world.ready(&third).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_beyond_the_quota_of_load_balancers_waits() {
    let world = World::start(22_200);
    let quotas = Quotas {
        load_balancers: Some(1),
        ..Quotas::default()
    };
    limited(
        &world,
        SimulatedCloudSpec {
            quotas,
            ..SimulatedCloudSpec::default()
        },
    )
    .await;
    world.cluster("first").await;
    let cluster = world.api.create(&objects::cluster("second")).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    let waits = |object: &InMemoryCluster| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::LOAD_BALANCER_AVAILABLE) == Some("QuotaExceeded")
    };
    let waiting = world.api.eventually("second", "to wait", waits).await;
    let status = waiting.status.unwrap_or_default();
    let told = conditions::find(&status.conditions, types::LOAD_BALANCER_AVAILABLE).expect("a condition");
    let expected = "the cloud refused CreateLoadBalancer: quota of 1 load balancers is used up; delete clusters, or \
                    raise spec.quotas.loadBalancers of SimulatedCloud default";
    assert_eq!(told.message, expected);
    let world = world.restart().await;
    world.api.eventually("second", "to wait", waits).await;
    world.api.delete::<InMemoryCluster>("first").await;
    world.provisioned("second").await;
    world.stop().await;
}
