//! The state after a restart: ports, addresses and kept objects stay with their owners, and paused objects keep
//! running.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{
        Behaviour, Component, ControlPlaneEndpoint, InMemoryCluster, InMemoryMachine, InMemoryMachineSpec,
        Provisioning, termination::TERMINATE_ANNOTATION,
    },
    labels,
};
use nephele_cloud::{Allocation, Cloud};
use nephele_model::{Fraction, GoDuration, Stage};
use nephele_testkit::{ManagementApi, objects};
use serde_json::json;

use crate::world::{Setup, World};

fn port(object: &InMemoryCluster) -> i32 {
    object
        .spec
        .control_plane_endpoint
        .as_ref()
        .map(|endpoint| endpoint.port)
        .expect("an endpoint")
}

async fn pause(api: &ManagementApi, cluster: &str, paused: bool) {
    api.patch::<Cluster>(cluster, &json!({ "spec": { "paused": paused.then_some(true) } }))
        .await;
}

/// A Cluster with an InMemoryCluster that has no status yet, and perhaps an endpoint.
async fn unprovisioned(api: &ManagementApi, name: &str, paused: bool, port: Option<i32>) -> InMemoryCluster {
    let mut cluster = objects::cluster(name);
    cluster.spec.paused = paused.then_some(true);
    let cluster = api.create(&cluster).await;
    let mut object = objects::in_memory_cluster(&cluster);
    let host = "127.0.0.1".to_owned();
    if let Some(port) = port {
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint { host, port });
        // As `clusterctl move` brings it.
        object.set_first_created((api.clock())());
    }
    api.create(&object).await
}

/// Else a tenant could take the ports of all others with objects that cost nothing.
#[tokio::test(start_paused = true)]
async fn a_port_that_was_not_published_is_not_reserved() {
    let api = ManagementApi::start();
    for port in 19_900..=19_999 {
        let mut object = objects::in_memory_cluster(&objects::cluster(&format!("c{port}")));
        let host = "127.0.0.1".to_owned();
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint { host, port });
        if port % 2 == 0 {
            object.metadata.owner_references = None;
            object.set_first_created((api.clock())());
        }
        api.create(&object).await;
    }
    let world = World::over(api, Setup::at(19_900));
    assert_eq!(port(&world.cluster("own").await), 19_900);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_runs_after_a_restart_at_its_port_and_is_not_written_to() {
    let world = World::start(10_000);
    let cluster = world.cluster("demo").await;
    world.authorities("demo").await;
    let machine = world.machine(&objects::control_plane("demo", "cp")).await;
    world.bootstrap("cp").await;
    world.ready(&machine).await;
    pause(&world.api, "demo", true).await;
    let message = "Cluster spec.paused is set to true";
    let machine = world.paused("cp", message).await;
    let paused = world.paused_cluster("demo", message).await;
    let allocation = |world: &World| {
        world
            .cloud
            .observe_machine(&World::machine_id("demo", "cp"))
            .map(|seen| seen.allocation)
    };
    let before = allocation(&world);

    // A new cluster exists before the manager starts.
    let api = world.stop().await;
    unprovisioned(&api, "a-new-one", false, None).await;
    let _ = api.take_writes();
    let world = World::over(api, Setup::at(10_000));
    let new = world.provisioned("a-new-one").await;
    assert_ne!(port(&new), port(&cluster));
    world
        .until("the paused cluster is up", |cloud| {
            cloud
                .observe_cluster(&World::id("demo"))
                .is_some_and(|seen| seen.backends == 1)
        })
        .await;
    let seen = world.cloud.observe_cluster(&World::id("demo")).expect("it runs");
    assert_eq!(i32::from(seen.endpoint.port), port(&cluster));
    assert_eq!(allocation(&world), before);
    assert_eq!(world.api.get::<InMemoryCluster>("demo").await, paused);
    assert_eq!(world.api.get::<InMemoryMachine>("cp").await, machine);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_that_never_ran_here_keeps_the_port_it_was_published_with() {
    let api = ManagementApi::start();
    unprovisioned(&api, "moved-in", true, Some(10_100)).await;
    let world = World::over(api, Setup::at(10_100));
    assert_eq!(port(&world.cluster("first").await), 10_101);
    // A cluster that arrives while the manager runs.
    let late = unprovisioned(&world.api, "late", true, Some(10_102)).await;
    world
        .paused_cluster(&late.name_any(), "Cluster spec.paused is set to true")
        .await;
    assert_eq!(port(&world.cluster("second").await), 10_103);
    for name in ["moved-in", "late"] {
        pause(&world.api, name, false).await;
        world.provisioned(name).await;
    }
    world.stop().await;
}

/// As when `clusterctl move` joins two management clusters that gave out the same port.
#[tokio::test(start_paused = true)]
async fn a_cluster_whose_port_another_one_has_says_so_and_gets_it_when_that_goes() {
    let world = World::start(10_200);
    let first = world.cluster("first").await;
    let moved = unprovisioned(&world.api, "moved-in", false, Some(port(&first))).await;
    let message = format!(
        "failed to listen on port {}: it belongs to cluster default/first",
        port(&first)
    );
    let told = world
        .api
        .eventually::<InMemoryCluster>("moved-in", &message, |object| {
            let status = object.status.clone().unwrap_or_default();
            let balancer = conditions::find(&status.conditions, types::LOAD_BALANCER_AVAILABLE);
            balancer
                .is_some_and(|balancer| balancer.message == message && balancer.reason == "PortUnavailable")
        })
        .await;
    assert_eq!(
        told.spec.control_plane_endpoint,
        moved.spec.control_plane_endpoint
    );
    // After a restart the older cluster still has the port.
    let world = world.restart().await;
    world
        .until("the first is back", |cloud| {
            cloud.observe_cluster(&World::id("first")).is_some()
        })
        .await;
    assert!(world.cloud.observe_cluster(&World::id("moved-in")).is_none());
    world.api.delete::<InMemoryCluster>("first").await;
    world.api.eventually_gone::<InMemoryCluster>("first").await;
    let up = world.provisioned("moved-in").await;
    assert_eq!(up.spec.control_plane_endpoint, moved.spec.control_plane_endpoint);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_with_a_filter_leaves_the_ports_of_others_that_share_its_host() {
    let api = ManagementApi::start();
    let mut theirs = objects::cluster("theirs");
    theirs.spec.control_plane_endpoint = Some(nephele_api::core::Endpoint {
        host: "127.0.0.1".into(),
        port: 10_400,
    });
    let theirs = api.create(&theirs).await;
    api.create(&objects::in_memory_cluster(&theirs)).await;
    let world = World::over(
        api,
        Setup {
            watch_filter: Some("mine".into()),
            ..Setup::at(10_400)
        },
    );
    let cluster = world.api.create(&objects::cluster("ours")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    objects::label(&mut object, nephele_controller::WATCH_FILTER_LABEL, "mine");
    world.api.create(&object).await;
    assert_eq!(port(&world.provisioned("ours").await), 10_401);
    world.stop().await;
}

/// A temporary directory, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nephele-infra-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_narrower_filter_and_an_empty_management_cluster_forget_nothing_that_is_kept() {
    let directory = Directory::new("kept");
    let setup = Setup {
        state_directory: Some(directory.0.clone()),
        ..Setup::at(10_500)
    };
    let world = World::start_with(setup.clone());
    world.cluster("kept").await;
    let kept = |world: &World| world.cloud.clusters().contains(&World::id("kept"));

    let filtered = Setup {
        watch_filter: Some("mine".into()),
        ..setup.clone()
    };
    let world = world.restart_with(filtered).await;
    let cluster = world.api.create(&objects::cluster("mine")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    objects::label(&mut object, nephele_controller::WATCH_FILTER_LABEL, "mine");
    world.api.create(&object).await;
    world.provisioned("mine").await;
    assert!(kept(&world));

    // As in a management cluster that is restored from a backup.
    world.stop().await;
    let world = World::over(ManagementApi::start(), setup.clone());
    world.cluster("first").await;
    assert!(kept(&world));

    // A cluster that is gone is forgotten while other clusters exist.
    let world = world.restart().await;
    let forgotten = async {
        while kept(&world) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), forgotten)
        .await
        .expect("it is forgotten");
    world.stop().await;
}

/// A disk that takes no changes before a crash has the Node of a machine that was terminated since.
#[tokio::test(start_paused = true)]
async fn a_terminated_machine_has_no_node_even_if_the_disk_still_has_it() {
    let kept = Directory::new("terminated");
    let earlier = Directory::new("terminated-earlier");
    let file = |directory: &Directory| directory.0.join("nephele.redb");
    let world = World::start_with(Setup {
        state_directory: Some(kept.0.clone()),
        ..Setup::at(19_400)
    });
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let worker = world.machine(&objects::worker("demo", "w")).await;
    world.bootstrap("w").await;
    world.ready(&worker).await;
    let copied = async {
        std::fs::copy(file(&kept), file(&earlier)).expect("a copy");
    };
    let world = world.restart_after(copied).await;
    let has_node = |cloud: &Cloud| {
        let objects = cloud.cluster_objects(&World::id("demo"));
        objects.is_some_and(|objects| String::from_utf8_lossy(&objects).contains(r#""kind":"Node""#))
    };
    world.until("the Node is there", has_node).await;
    let terminate = json!({ "metadata": { "annotations": { (TERMINATE_ANNOTATION): "" } } });
    world.api.patch::<InMemoryMachine>("w", &terminate).await;
    world.waits(&worker, "InstanceTerminated").await;
    assert!(!has_node(&world.cloud));
    let lost = async {
        std::fs::copy(file(&earlier), file(&kept)).expect("a copy");
    };
    let world = world.restart_after(lost).await;
    world
        .until("the cluster is back", |cloud| {
            cloud.cluster_objects(&World::id("demo")).is_some()
        })
        .await;
    world.until("the Node is gone", |cloud| !has_node(cloud)).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_keep_their_pod_networks_and_numbers_over_a_restart() {
    const COUNT: usize = 8;
    let world = World::start(10_600);
    // There are as many pod networks as machines, so that each choice depends on all others.
    let mut cluster = objects::cluster("demo");
    cluster.spec.cluster_network.as_mut().expect("a network").pods = Some(nephele_api::core::NetworkRanges {
        cidr_blocks: vec!["192.168.0.0/21".into()],
    });
    let cluster = world.api.create(&cluster).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    world.provisioned("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let name = |index: usize| format!("w{index}");
    for index in (0..COUNT).rev() {
        let mut machine = objects::worker("demo", &name(index));
        objects::label(&mut machine, labels::DEPLOYMENT_NAME, "md");
        let machine = world.api.create(&machine).await;
        let object = world.api.create(&objects::in_memory_machine(&machine)).await;
        world.ready(&object).await;
    }
    let allocations = |world: &World| -> BTreeMap<String, Option<Allocation>> {
        let seen = |index| {
            let seen = world
                .cloud
                .observe_machine(&World::machine_id("demo", &name(index)));
            (name(index), seen.map(|seen| seen.allocation))
        };
        (0..COUNT).map(seen).collect()
    };
    let before = allocations(&world);
    let numbers: Vec<_> = before
        .values()
        .rev()
        .map(|held| held.as_ref().and_then(|held| held.ordinal))
        .collect();
    assert_eq!(numbers, (0..8).map(Some).collect::<Vec<_>>());

    let world = world.restart().await;
    let all = |cloud: &nephele_cloud::Cloud| {
        cloud
            .observe_cluster(&World::id("demo"))
            .is_some_and(|seen| seen.machines == COUNT)
    };
    world.until("all machines are back", all).await;
    assert_eq!(allocations(&world), before);
    world.stop().await;
}

/// How long the stages of the machines of a MachineDeployment took, in order.
async fn durations(first_port: u16, names: [&str; 3]) -> Vec<[i64; 2]> {
    let world = World::start(first_port);
    world.cluster("demo").await;
    world
        .api
        .patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;
    let component = || {
        let startup_duration = GoDuration::parse("40ms").ok();
        let startup_jitter = Fraction::parse("1.0").ok();
        Some(Component {
            provisioning: Provisioning {
                startup_duration,
                startup_jitter,
            },
        })
    };
    let behaviour = Behaviour {
        vm: component(),
        node: component(),
        ..Behaviour::default()
    };
    let mut durations = Vec::new();
    for name in names {
        let mut machine: Machine = objects::worker("demo", name);
        objects::label(&mut machine, labels::DEPLOYMENT_NAME, "md");
        let machine = world.api.create(&machine).await;
        let mut object = objects::in_memory_machine(&machine);
        object.spec = InMemoryMachineSpec {
            behaviour: Some(behaviour.clone()),
            ..object.spec
        };
        let object = world.api.create(&object).await;
        world.ready(&object).await;
        let seen = world
            .cloud
            .observe_machine(&World::machine_id("demo", name))
            .expect("it is there");
        let at = |stage| seen.reached(stage).expect("reached").as_millisecond();
        let vm = at(Stage::Vm);
        durations.push([vm - seen.started_at.as_millisecond(), at(Stage::Node) - vm]);
    }
    world.stop().await;
    durations.sort_unstable();
    durations
}

#[tokio::test(start_paused = true)]
async fn machines_of_a_set_take_as_long_in_every_run_whatever_their_random_names() {
    let one = durations(10_700, ["md-abcde-x1x1x", "md-abcde-y2y2y", "md-abcde-z3z3z"]).await;
    let other = durations(10_800, ["md-vwxyz-k7k7k", "md-vwxyz-b8b8b", "md-vwxyz-q9q9q"]).await;
    assert_eq!(one, other);
    // Not all alike.
    assert_ne!(one.first(), one.last());
}
