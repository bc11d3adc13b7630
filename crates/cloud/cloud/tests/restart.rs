//! The objects of clusters after the process was killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use jiff::Timestamp;
use nephele_cloud::{
    Changed, Cloud, CloudConfig, ClusterError, ClusterSpec, InProcess, MachineSpec, Network,
};
use nephele_model::{ClockSkew, ClusterId, MachineId, Role, VisibleEffect};
use nephele_state::MemoryDisk;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

use crate::{
    faults::{LEASES, hours, put},
    support,
    support::{ECDSA, Http, World, admin, client_tls, cluster, created_at, machine, reached},
};

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nephele-cloud-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A copy of the files that a process leaves if it is killed now.
    fn copy(&self, name: &str) -> Self {
        let copy = Self::new(name);
        for file in fs::read_dir(&self.0).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.0.join(file.file_name())).unwrap();
        }
        copy
    }
}

impl AsRef<Path> for Directory {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A cluster with its authorities, and an administrator's client.
async fn enter(world: &World, spec: ClusterSpec, machines: &[MachineSpec]) -> Http {
    let id = spec.id.clone();
    let endpoint = world.cloud.ensure_cluster(spec).unwrap();
    world.cloud.set_authorities(&id, ECDSA.clone()).unwrap();
    for machine in machines {
        support::provide(&world.cloud, machine.clone()).unwrap();
    }
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    Http::connect(&endpoint, &tls).await.unwrap()
}

fn machines(id: &ClusterId) -> [MachineSpec; 2] {
    [
        machine(id, "cp", Role::ControlPlane),
        machine(id, "worker", Role::Worker),
    ]
}

/// The specifications of the machines as a manager knows them after a restart.
fn known(world: &World, machines: &[MachineSpec]) -> Vec<MachineSpec> {
    let known = |machine: &MachineSpec| {
        let started_at = world
            .cloud
            .observe_machine(&machine.id)
            .map(|seen| seen.started_at);
        MachineSpec {
            started_at,
            reached: reached(&world.cloud, &machine.id),
            ..machine.clone()
        }
    };
    machines.iter().map(known).collect()
}

async fn create(http: &mut Http, path: &str, body: Value) -> Value {
    let (status, created) = http.write("POST", path, &body).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    created
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/g.io/v1/namespaces/team/things";
const DNS: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
const PROXY: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";

const COLLECTIONS: [&str; 13] = [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/serviceaccounts",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/g.io/v1/things",
];

/// All objects of the cluster by collection, and the newest version that was seen.
async fn content(http: &mut Http) -> (BTreeMap<&'static str, Value>, u64) {
    let mut content = BTreeMap::new();
    let mut newest = 0;
    for path in COLLECTIONS {
        let (status, list) = http.get(path).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {list}");
        newest = newest.max(
            list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap(),
        );
        content.insert(path, list["items"].clone());
    }
    (content, newest)
}

/// Waits until the addons have the right number of Nodes. After that, nothing changes by itself.
async fn quiet(http: &mut Http, nodes: u64) {
    let waiting = async {
        while http.get(PROXY).await.unwrap().1["status"]["numberReady"] != nodes {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .expect("kube-proxy on all Nodes");
}

#[tokio::test]
async fn what_clients_wrote_is_there_after_a_kill_as_they_left_it() {
    let directory = Directory::new("kill");
    let world = World::start_kept(30_500..=30_509, directory.as_ref());
    let spec = cluster("kill");
    let machines = machines(&spec.id);
    let mut http = enter(&world, spec.clone(), &machines).await;
    quiet(&mut http, 2).await;

    let definition = json!({
        "metadata": {"name": "things.g.io"},
        "spec": {
            "group": "g.io", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    create(
        &mut http,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    create(
        &mut http,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "team"}}),
    )
    .await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["g.io/held"]}, "spec": {"size": 3}});
    create(&mut http, THINGS, held).await;
    assert_eq!(
        http.write("DELETE", &format!("{THINGS}/held"), &json!({}))
            .await
            .0,
        StatusCode::OK
    );
    create(&mut http, THINGS, json!({"metadata": {"name": "plain"}})).await;
    create(
        &mut http,
        MAPS,
        json!({"metadata": {"name": "mine"}, "data": {"k": "v"}}),
    )
    .await;
    create(&mut http, MAPS, json!({"metadata": {"name": "gone"}})).await;
    assert_eq!(
        http.write("DELETE", &format!("{MAPS}/gone"), &json!({})).await.0,
        StatusCode::OK
    );
    // Clients may change the objects of the projection as well.
    let label = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"taints": null}});
    assert_eq!(
        http.write("PATCH", "/api/v1/nodes/worker", &label).await.0,
        StatusCode::OK
    );
    assert_eq!(http.write("DELETE", DNS, &json!({})).await.0, StatusCode::OK);
    let (before, newest) = content(&mut http).await;

    let left = directory.copy("killed");
    let after_restart = known(&world, &machines);
    let again = World::start_kept(30_510..=30_519, left.as_ref());
    assert_eq!(again.cloud.clusters(), std::slice::from_ref(&spec.id));
    let names = ["cp", "worker"].map(|name| ("default".to_owned(), name.to_owned()));
    again.cloud.retain_machines(names.into());
    let mut http_again = enter(&again, spec.clone(), &after_restart).await;
    quiet(&mut http_again, 2).await;
    let (after, newest_after) = content(&mut http_again).await;
    assert_eq!(after, before);
    assert_eq!(http_again.get(DNS).await.unwrap().0, StatusCode::NOT_FOUND);
    // Clients with a watch have to list again, and no version is used twice.
    assert!(newest_after > newest, "{newest_after} after {newest}");
    let watch = format!("/api/v1/configmaps?watch=true&resourceVersion={newest}");
    let (_, answer) = http_again.get(&watch).await.unwrap();
    assert_eq!(
        (&answer["type"], &answer["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "{answer}"
    );
    let created = create(&mut http_again, MAPS, json!({"metadata": {"name": "new"}})).await;
    let version: u64 = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(version > newest);
    // The object that waited for its finalizer is deleted with the finalizer.
    let release = json!({"metadata": {"finalizers": null}});
    let (status, _) = http_again
        .write("PATCH", &format!("{THINGS}/held"), &release)
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(http_again.names(THINGS).await, ["plain"]);
    drop((http, http_again));
    world.stop().await;
    again.stop().await;
}

#[tokio::test]
async fn machine_that_was_changed_or_made_again_meanwhile_has_no_stale_node() {
    let directory = Directory::new("machines");
    let world = World::start_kept(30_520..=30_529, directory.as_ref());
    let spec = cluster("machines");
    let mut all = machines(&spec.id).to_vec();
    all.push(machine(&spec.id, "changed", Role::Worker));
    all.push(machine(&spec.id, "gone", Role::Worker));
    all.push(machine(&spec.id, "deleted", Role::Worker));
    let mut http = enter(&world, spec.clone(), &all).await;
    for node in ["worker", "changed", "gone", "deleted"] {
        let label = json!({"metadata": {"labels": {"team": "blue"}}});
        assert_eq!(
            http.write("PATCH", &format!("/api/v1/nodes/{node}"), &label)
                .await
                .0,
            StatusCode::OK
        );
    }
    drop(http);
    let mut known = known(&world, &all);
    world.stop().await;

    let again = World::start_kept(30_520..=30_529, directory.as_ref());
    known.retain(|machine| !["gone", "deleted"].contains(&machine.id.name.as_str()));
    for machine in &mut known {
        match machine.id.name.as_str() {
            // Another machine of the same name, which has not booted yet.
            "worker" => (machine.started_at, machine.reached) = (None, BTreeMap::new()),
            "changed" => machine.version = "v1.37.0".into(),
            _ => {}
        }
    }
    // The object of `gone` is missing and `deleted` is deleted before the cluster returns.
    let names = ["cp", "worker", "changed", "deleted"].map(|name| ("default".to_owned(), name.to_owned()));
    again.cloud.retain_machines(names.into());
    let deleted = MachineId {
        cluster: spec.id.clone(),
        name: "deleted".into(),
    };
    let _ = again.cloud.delete_machine(&deleted);
    let mut http = enter(&again, spec.clone(), &known).await;
    let (_, nodes) = http.get("/api/v1/nodes").await.unwrap();
    let seen: Vec<_> = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (
                &node["metadata"]["name"],
                &node["metadata"]["labels"]["team"],
                &node["status"]["nodeInfo"]["kubeletVersion"],
            )
        })
        .collect();
    let null = Value::Null;
    let blue = json!("blue");
    let old = json!("v1.36.3");
    let new = json!("v1.37.0");
    let changed = json!("changed");
    let cp = json!("cp");
    let worker = json!("worker");
    assert_eq!(
        seen,
        [
            (&changed, &blue, &new),
            (&cp, &null, &old),
            (&worker, &null, &old)
        ]
    );
    assert_eq!(http.names(LEASES).await, ["changed", "cp", "worker"]);
    // The machines are listed while their cluster exists.
    again.cloud.retain_machines(BTreeSet::new());
    assert_eq!(
        http.names("/api/v1/nodes").await,
        ["changed", "cp", "worker"],
        "they are known to the cloud"
    );
    drop(http);
    again.stop().await;

    let third = World::start_kept(30_520..=30_529, directory.as_ref());
    let mut http = enter(&third, spec, &known[..1]).await;
    assert_eq!(http.names("/api/v1/nodes").await, ["changed", "cp", "worker"]);
    third
        .cloud
        .retain_machines([("default".to_owned(), "worker".to_owned())].into());
    assert_eq!(http.names("/api/v1/nodes").await, ["cp", "worker"]);
    drop(http);
    third.stop().await;
}

#[tokio::test]
async fn clocks_are_right_after_a_restart_without_the_fault_that_skewed_them() {
    let directory = Directory::new("clocks");
    let world = World::start_kept(30_580..=30_589, directory.as_ref());
    let spec = cluster("clocks");
    let machines = machines(&spec.id);
    let mut http = enter(&world, spec.clone(), &machines).await;
    let three_hours = Duration::from_secs(3 * 3600);
    put(
        &world.cloud,
        "ahead",
        "cp",
        &VisibleEffect::ClockSkew(ClockSkew::Ahead(three_hours)),
    );
    put(
        &world.cloud,
        "behind",
        "worker",
        &VisibleEffect::ClockSkew(ClockSkew::Behind(three_hours)),
    );
    assert_eq!(hours(&mut http, "cp").await, (-3, -3));
    assert_eq!(hours(&mut http, "worker").await, (3, 3));
    drop(http);
    let known = known(&world, &machines);
    world.stop().await;

    let again = World::start_kept(30_580..=30_589, directory.as_ref());
    let mut http = enter(&again, spec, &known).await;
    assert_eq!(hours(&mut http, "cp").await, (0, 0));
    assert_eq!(hours(&mut http, "worker").await, (0, 0));
    drop(http);
    again.stop().await;
}

#[tokio::test]
async fn cluster_that_was_deleted_or_made_again_begins_afresh() {
    let directory = Directory::new("afresh");
    let start = || World::start_kept(30_530..=30_539, directory.as_ref());
    let specs = ["moved", "again", "deleted", "stays"].map(cluster);
    let world = start();
    for spec in &specs {
        let mut http = enter(&world, spec.clone(), &machines(&spec.id)).await;
        create(&mut http, MAPS, json!({"metadata": {"name": "mine"}})).await;
    }
    // Deleted and created again in one process.
    world.cloud.delete_cluster(&specs[2].id);
    let mut http = enter(&world, specs[2].clone(), &machines(&specs[2].id)).await;
    assert_eq!(http.names(MAPS).await, [""; 0]);
    create(&mut http, MAPS, json!({"metadata": {"name": "second"}})).await;
    drop(http);
    world.stop().await;

    let world = start();
    let ids = |names: &[&str]| names.iter().map(|name| cluster(name).id).collect::<Vec<_>>();
    assert_eq!(
        world.cloud.clusters(),
        ids(&["again", "deleted", "moved", "stays"])
    );
    world.cloud.delete_cluster(&specs[0].id);
    assert_eq!(world.cloud.clusters(), ids(&["again", "deleted", "stays"]));
    let later = Timestamp::from_second(created_at().as_second() + 60).unwrap();
    let found = async |spec: &ClusterSpec| {
        let mut http = enter(&world, spec.clone(), &machines(&spec.id)).await;
        http.names(MAPS).await
    };
    assert_eq!(found(&specs[0]).await, [""; 0]);
    assert_eq!(
        found(&ClusterSpec {
            created_at: later,
            ..specs[1].clone()
        })
        .await,
        [""; 0]
    );
    assert_eq!(found(&specs[2]).await, ["second"]);
    assert_eq!(found(&specs[3]).await, ["mine"]);
    // Deleted before it was created again after a restart.
    world.stop().await;
    let world = start();
    world.cloud.delete_cluster(&specs[3].id);
    let mut http = enter(&world, specs[3].clone(), &machines(&specs[3].id)).await;
    assert_eq!(http.names(MAPS).await, [""; 0]);
    drop(http);
    world.stop().await;
}

#[tokio::test]
async fn cloud_does_not_start_on_a_file_that_is_not_its_own() {
    let directory = Directory::new("foreign");
    fs::write(directory.0.join("nephele.redb"), "something else").unwrap();
    let config = CloudConfig {
        state_directory: Some(directory.0.clone()),
        ..support::config(30_540..=30_549)
    };
    let Err(error) = Cloud::start(config, &Registry::new()) else {
        panic!("it started")
    };
    assert_eq!(error.to_string(), "failed to use the state directory");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    let path = directory.0.join("nephele.redb");
    assert!(
        cause.starts_with(&format!("failed to read the state file {}: ", path.display())),
        "{cause}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_objects_cannot_be_read_does_not_trigger_its_next_attempt() {
    let disk = MemoryDisk::default();
    let start = || {
        let config = CloudConfig {
            state_directory: Some("in memory".into()),
            clock: Arc::new(created_at),
            ..support::config(30_560..=30_569)
        };
        let network = Network::InProcess(InProcess::keeping_on(disk.clone()));
        let (cloud, driver) = Cloud::start_on(network, config, &Registry::new()).unwrap();
        tokio::spawn(driver);
        cloud.reserve_endpoints([]);
        cloud
    };
    let demo = cluster("demo");
    let other = cluster("other");
    let cloud = start();
    cloud.ensure_cluster(demo.clone()).unwrap();
    cloud.shutdown().await;

    let cloud = start();
    disk.set_full(true);
    // Its objects cannot be written, and from then on the file cannot be opened either.
    cloud.ensure_cluster(other).unwrap();
    let mut changes = cloud
        .changes()
        .filter(|changed| *changed == Changed::Cluster(demo.id.clone()));
    let error = cloud.ensure_cluster(demo.clone()).unwrap_err();
    assert!(matches!(error, ClusterError::State(_)), "{error:?}");
    let told = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
    assert!(told.is_err(), "{told:?}");
    cloud.shutdown().await;
}
