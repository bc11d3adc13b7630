//! Updates of machines in place, over time and over restarts.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use nephele_cloud::{
    Changed, Cloud, Files, Latency, MachineSpec, MachineUpdate, Software, UpdateObservation,
};
use nephele_model::Role;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

use crate::{
    support,
    support::{ECDSA, Http, World, admin, client_tls, cluster, created_at, machine, on_tokio_time, reached},
};

fn files(contents: &[(&str, &str)]) -> Files {
    let contents = contents
        .iter()
        .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()));
    Files {
        digest: "d".into(),
        contents: contents.collect(),
    }
}

fn newer() -> Software {
    Software {
        version: "v1.36.4".into(),
        image: Some("newer".into()),
        etcd_image_tag: Some("3.7.0-0".into()),
        files: Some(files(&[("/etc/motd", "sha256:ab")])),
    }
}

fn update(asked_at: Timestamp, seconds: u64, software: Software) -> Option<Box<MachineUpdate>> {
    let takes = Latency::Jittered {
        base: Duration::from_secs(seconds),
        fraction: 0.5,
    };
    Some(Box::new(MachineUpdate {
        asked_at,
        takes,
        software,
        fails: false,
        is_accepted: false,
    }))
}

/// The software of a machine, and whether its last update has ended.
fn seen(cloud: &Cloud, spec: &MachineSpec) -> (Software, Option<bool>) {
    let observed = cloud.observe_machine(&spec.id).unwrap();
    (
        observed.software,
        observed.update.map(|update| update.ended.is_some()),
    )
}

fn before() -> Software {
    Software {
        version: "v1.36.3".into(),
        ..Software::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_takes_its_time_and_tells_when_it_is_over() {
    let cloud = on_tokio_time(30_600..=30_609, Duration::ZERO);
    let spec = cluster("slow");
    let mut machine = machine(&spec.id, "cp", Role::ControlPlane);
    cloud.ensure_cluster(spec).unwrap();
    support::provide(&cloud, machine.clone()).unwrap();
    assert_eq!(seen(&cloud, &machine), (before(), None));
    let mut changes = cloud.changes();
    machine.update = update(created_at(), 100, newer());
    for _ in 0..2 {
        support::provide(&cloud, machine.clone()).unwrap();
        assert_eq!(seen(&cloud, &machine), (before(), Some(false)));
        tokio::time::advance(Duration::from_secs(40)).await;
    }
    let id = Changed::Machine(machine.id.clone());
    while changes.next().await.unwrap() != id {}
    assert_eq!(seen(&cloud, &machine), (newer(), Some(true)));
    let UpdateObservation { asked_at, ended } = cloud.observe_machine(&machine.id).unwrap().update.unwrap();
    let took = ended.unwrap().duration_since(asked_at).unsigned_abs();
    assert!((100..150).contains(&took.as_secs()), "{took:?}");

    // A caller that does not know yet that the update has ended does not undo it.
    support::provide(&cloud, machine.clone()).unwrap();
    assert_eq!(seen(&cloud, &machine), (newer(), Some(true)));
    cloud.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_takes_its_time_and_changes_nothing() {
    let cloud = on_tokio_time(30_610..=30_619, Duration::ZERO);
    let spec = cluster("failing");
    let mut machine = machine(&spec.id, "w", Role::Worker);
    cloud.ensure_cluster(spec).unwrap();
    support::provide(&cloud, machine.clone()).unwrap();
    machine.update = update(created_at(), 10, newer()).map(|update| {
        Box::new(MachineUpdate {
            fails: true,
            ..*update
        })
    });
    support::provide(&cloud, machine.clone()).unwrap();
    let mut changes = cloud
        .changes()
        .filter(|changed| !matches!(changed, Changed::Usage(_)));
    assert_eq!(seen(&cloud, &machine), (before(), Some(false)));
    changes.next().await;
    assert_eq!(seen(&cloud, &machine), (before(), Some(true)));
    // Another update succeeds.
    machine.update = update(created_at() + Duration::from_secs(60), 0, newer());
    support::provide(&cloud, machine.clone()).unwrap();
    assert_eq!(seen(&cloud, &machine), (newer(), Some(true)));
    cloud.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_continues_where_it_was() {
    let first = on_tokio_time(30_620..=30_629, Duration::ZERO);
    let mut spec = machine(&cluster("moved").id, "w", Role::Worker);
    first.ensure_cluster(cluster("moved")).unwrap();
    support::provide(&first, spec.clone()).unwrap();
    spec.update = update(created_at(), 100, newer());
    support::provide(&first, spec.clone()).unwrap();
    spec.reached = reached(&first, &spec.id);
    let mut changes = first.changes();
    while seen(&first, &spec).1 != Some(true) {
        changes.next().await;
    }
    let ended = first.observe_machine(&spec.id).unwrap().update;
    first.shutdown().await;

    let second = on_tokio_time(30_630..=30_639, Duration::from_secs(60));
    second.ensure_cluster(cluster("moved")).unwrap();
    let mut changes = second.changes();
    support::provide(&second, spec.clone()).unwrap();
    assert_eq!(seen(&second, &spec), (before(), Some(false)));
    while seen(&second, &spec).1 != Some(true) {
        changes.next().await;
    }
    assert_eq!(seen(&second, &spec), (newer(), Some(true)));
    assert_eq!(second.observe_machine(&spec.id).unwrap().update, ended);
    second.shutdown().await;
}

#[tokio::test]
async fn what_an_update_changes_shows_on_the_node_and_its_pods_and_stays_after_a_restart() {
    let world = World::start(30_640..=30_649);
    let (id, endpoint) = world.cluster("updated", &ECDSA);
    let mut spec = machine(&id, "cp", Role::ControlPlane);
    support::provide(&world.cloud, spec.clone()).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    let shown = async |http: &mut Http| {
        let node = http.get("/api/v1/nodes/cp").await.unwrap().1;
        let mut found = BTreeMap::from([
            ("kubelet", node["status"]["nodeInfo"]["kubeletVersion"].clone()),
            ("os", node["status"]["nodeInfo"]["osImage"].clone()),
            ("uid", node["metadata"]["uid"].clone()),
            (
                "files",
                node["metadata"]["annotations"]["inmemorymachine.infrastructure.cluster.x-k8s.io/files"]
                    .clone(),
            ),
        ]);
        for name in ["etcd", "kube-apiserver"] {
            let pod = http
                .get(&format!("/api/v1/namespaces/kube-system/pods/{name}-cp"))
                .await
                .unwrap()
                .1;
            found.insert(name, pod["spec"]["containers"][0]["image"].clone());
        }
        (found, http.get("/version").await.unwrap().1["gitVersion"].clone())
    };
    let (first, version) = shown(&mut http).await;
    assert_eq!(
        (&first["kubelet"], &first["files"], version),
        (&json!("v1.36.3"), &Value::Null, json!("v1.36.3"))
    );

    spec.update = update(created_at(), 0, newer());
    support::provide(&world.cloud, spec.clone()).unwrap();
    let expected = BTreeMap::from([
        ("kubelet", json!("v1.36.4")),
        ("os", json!("newer")),
        ("uid", first["uid"].clone()),
        ("files", json!(r#"{"/etc/motd":"sha256:ab"}"#)),
        ("etcd", json!("registry.k8s.io/etcd:3.7.0-0")),
        ("kube-apiserver", json!("registry.k8s.io/kube-apiserver:v1.36.4")),
    ]);
    assert_eq!(shown(&mut http).await, (expected.clone(), json!("v1.36.4")));
    spec.reached = reached(&world.cloud, &spec.id);
    world.stop().await;

    // A machine that is created with the software in its specification has it at once.
    let world = World::start(30_650..=30_659);
    let (id, endpoint) = world.cluster("updated", &ECDSA);
    assert_eq!(id, spec.id.cluster);
    let Software {
        version,
        image,
        etcd_image_tag,
        files,
    } = newer();
    let spec = MachineSpec {
        version,
        image,
        etcd_image_tag,
        files,
        update: None,
        ..spec
    };
    support::provide(&world.cloud, spec).unwrap();
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(shown(&mut http).await, (expected, json!("v1.36.4")));
    world.stop().await;
}

/// The time of a request does not influence the draw.
#[tokio::test(start_paused = true)]
async fn the_same_update_takes_the_same_time_whenever_it_is_asked_for() {
    let cloud = on_tokio_time(30_660..=30_669, Duration::ZERO);
    let spec = cluster("twice");
    let mut machine = machine(&spec.id, "w", Role::Worker);
    cloud.ensure_cluster(spec).unwrap();
    let mut ends = Vec::new();
    for micros in [0, 1] {
        support::provide(&cloud, machine.clone()).unwrap();
        let asked_at = created_at() + Duration::from_micros(micros);
        machine.update = update(asked_at, 100, newer());
        support::provide(&cloud, machine.clone()).unwrap();
        tokio::time::advance(Duration::from_secs(200)).await;
        let ended = async {
            loop {
                let observed = cloud.observe_machine(&machine.id).unwrap().update.unwrap();
                if let (true, Some(ended)) = (observed.asked_at == asked_at, observed.ended) {
                    break ended;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        ends.push(ended.await);
    }
    // The cloud counts in milliseconds, so both updates began at the same time.
    assert_eq!(ends[0], ends[1]);
    cloud.shutdown().await;
}
