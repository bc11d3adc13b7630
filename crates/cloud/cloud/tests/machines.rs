//! Machines over time, and over restarts.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use jiff::Timestamp;
use nephele_cloud::{
    Allocation, Changed, Cloud, CloudRecord, Deletion, Hardware, Latency, MachineError, MachineSpec,
    PreviousMachine, StageObservation,
};
use nephele_model::{ErrorClass, MachineId, Market, Role, Stage};
use serde_json::Value;
use tokio_stream::StreamExt as _;

use crate::{
    support,
    support::{ECDSA, Http, World, admin, client_tls, cluster, created_at, machine, on_tokio_time, reached},
};

#[tokio::test(start_paused = true)]
async fn stages_come_when_they_are_due_and_changes_say_so() {
    let cloud = on_tokio_time(30_200..=30_209, Duration::ZERO);
    let mut changes = cloud
        .changes()
        .filter(|changed| !matches!(changed, Changed::Usage(_) | Changed::Backends(_)));
    let spec = cluster("slow");
    let cluster_id = spec.id.clone();
    cloud.ensure_cluster(spec).unwrap();
    let mut spec = machine(&cluster_id, "cp", Role::ControlPlane);
    let start_up = |seconds| Latency::Fixed(Duration::from_secs(seconds));
    spec.start_up = BTreeMap::from([
        (Stage::Vm, start_up(30)),
        (Stage::Node, start_up(10)),
        (Stage::Etcd, start_up(0)),
        (Stage::ApiServer, start_up(5)),
    ]);
    let id = spec.id.clone();
    support::provide(&cloud, spec.clone()).unwrap();
    support::provide(&cloud, spec).unwrap();
    let after = |seconds| created_at() + Duration::from_secs(seconds);
    let stages = |cloud: &Cloud| cloud.observe_machine(&id).unwrap().stages;
    let due = |seconds| StageObservation::Waiting {
        due: Some(after(seconds)),
    };
    let at = |seconds| StageObservation::Reached { at: after(seconds) };
    use StageObservation::Blocked;
    let all = |vm, node, etcd, api_server| {
        BTreeMap::from([
            (Stage::Vm, vm),
            (Stage::Node, node),
            (Stage::Etcd, etcd),
            (Stage::ApiServer, api_server),
        ])
    };
    assert_eq!(stages(&cloud), all(due(30), Blocked, Blocked, Blocked));

    assert_eq!(changes.next().await, Some(Changed::Machine(id.clone())));
    assert_eq!(stages(&cloud), all(at(30), due(40), Blocked, Blocked));
    assert_eq!(changes.next().await, Some(Changed::Machine(id.clone())));
    assert_eq!(stages(&cloud), all(at(30), at(40), at(40), due(45)));
    assert_eq!(cloud.observe_cluster(&cluster_id).unwrap().backends, 0);
    assert_eq!(changes.next().await, Some(Changed::Cluster(cluster_id.clone())));
    assert_eq!(changes.next().await, Some(Changed::Machine(id.clone())));
    assert_eq!(stages(&cloud), all(at(30), at(40), at(40), at(45)));
    assert_eq!(cloud.observe_cluster(&cluster_id).unwrap().backends, 1);
    // The driver slept until each deadline: not a millisecond more has passed.
    assert_eq!(created_at() + Duration::from_secs(45), after(45));
    cloud.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn machine_that_boots_over_a_restart_is_up_when_it_would_have_been() {
    let mut deadlines = Vec::new();
    let mut started_at = None;
    for _ in 0..2 {
        let cloud = on_tokio_time(30_270..=30_279, Duration::ZERO);
        let spec = cluster("booting");
        let cluster_id = spec.id.clone();
        cloud.ensure_cluster(spec).unwrap();
        let mut spec = machine(&cluster_id, "w", Role::Worker);
        let thirty = Latency::Jittered {
            base: Duration::from_secs(30),
            fraction: 0.5,
        };
        spec.start_up = BTreeMap::from([(Stage::Vm, thirty)]);
        spec.started_at = started_at;
        let id = spec.id.clone();
        // Not at a whole second, and later in the second run than in the first.
        tokio::time::advance(Duration::from_millis(if started_at.is_some() {
            7_890
        } else {
            1_234
        }))
        .await;
        support::provide(&cloud, spec).unwrap();
        let seen = cloud.observe_machine(&id).unwrap();
        started_at = Some(seen.started_at);
        deadlines.push(seen.stages[&Stage::Vm].clone());
        cloud.shutdown().await;
    }
    assert_eq!(started_at, Some(created_at() + Duration::from_millis(1_234)));
    assert!(
        matches!(deadlines[0], StageObservation::Waiting { .. }),
        "{deadlines:?}"
    );
    assert_eq!(deadlines[0], deadlines[1]);
}

#[tokio::test(start_paused = true)]
async fn machine_without_delays_is_up_when_it_is_ensured() {
    let cloud = on_tokio_time(30_210..=30_219, Duration::ZERO);
    let spec = cluster("fast");
    let cluster_id = spec.id.clone();
    cloud.ensure_cluster(spec).unwrap();
    let spec = machine(&cluster_id, "cp", Role::ControlPlane);
    let id = spec.id.clone();
    support::provide(&cloud, spec).unwrap();
    let now = StageObservation::Reached { at: created_at() };
    assert_eq!(
        cloud.observe_machine(&id).unwrap().stages,
        Stage::ALL.map(|stage| (stage, now.clone())).into()
    );
    cloud.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn name_that_tls_cannot_ask_for_is_refused_for_control_planes_only() {
    let cloud = on_tokio_time(30_220..=30_229, Duration::ZERO);
    let spec = cluster("names");
    let id = spec.id.clone();
    cloud.ensure_cluster(spec).unwrap();
    let odd = "n..n";
    let error = support::provide(&cloud, machine(&id, odd, Role::ControlPlane)).unwrap_err();
    assert!(matches!(error, MachineError::Name(_)));
    assert_eq!(
        (error.class(), error.category()),
        (ErrorClass::GiveUp, "InvalidName")
    );
    support::provide(&cloud, machine(&id, odd, Role::Worker)).unwrap();
    for length in [58, 59, 63, 253] {
        support::provide(&cloud, machine(&id, &"n".repeat(length), Role::ControlPlane)).unwrap();
    }
    let mut elsewhere = machine(&id, odd, Role::Worker);
    elsewhere.zone = Some("sim-1a".into());
    assert_eq!(
        support::provide(&cloud, elsewhere).unwrap_err().category(),
        "Conflict"
    );
    cloud.shutdown().await;
}

/// All objects of the cluster, without the versions, which a restart may change.
async fn everything(endpoint: &nephele_model::Endpoint) -> BTreeMap<&'static str, Value> {
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(endpoint, &tls).await.unwrap();
    let mut all = BTreeMap::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/configmaps",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/deployments",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ] {
        let (status, mut list) = http.get(path).await.unwrap();
        assert_eq!(status, 200, "{path}");
        for item in list["items"].as_array_mut().unwrap() {
            item["metadata"]["resourceVersion"] = Value::Null;
        }
        assert_ne!(list["items"], Value::Array(vec![]), "{path}");
        all.insert(path, list["items"].clone());
    }
    all
}

#[tokio::test]
async fn restart_gives_the_same_endpoint_certificate_and_objects_in_whatever_order_machines_return() {
    let world = World::start(30_230..=30_239);
    let (id, endpoint) = world.cluster("restarted", &ECDSA);
    let names = [
        ("cp-1", Role::ControlPlane),
        ("cp-2", Role::ControlPlane),
        ("worker", Role::Worker),
    ];
    for (name, role) in names {
        support::provide(&world.cloud, machine(&id, name, role)).unwrap();
    }
    let before = everything(&endpoint).await;
    let certificate = server_certificate(&endpoint).await;
    let machine_id = |name: &str| MachineId {
        cluster: id.clone(),
        name: name.to_owned(),
    };
    let exact: BTreeMap<_, _> = names
        .iter()
        .map(|(name, _)| (machine_id(name), reached(&world.cloud, &machine_id(name))))
        .collect();
    let published: Vec<_> = names
        .into_iter()
        .map(|(name, role)| {
            let mut spec = machine(&id, name, role);
            // Conditions have times in whole seconds.
            spec.reached = reached(&world.cloud, &spec.id);
            for at in spec.reached.values_mut() {
                *at = Timestamp::from_second(at.as_second()).unwrap();
            }
            spec.started_at = Some(world.cloud.observe_machine(&spec.id).unwrap().started_at);
            spec.allocation = world.cloud.observe_machine(&spec.id).unwrap().allocation;
            spec
        })
        .collect();
    world.stop().await;

    let world = World::start(30_230..=30_239);
    let mut spec = cluster("restarted");
    spec.endpoint = Some(endpoint.clone());
    assert_eq!(world.cloud.ensure_cluster(spec).unwrap(), endpoint);
    for spec in published.into_iter().rev() {
        let machine = spec.id.clone();
        support::provide(&world.cloud, spec).unwrap();
        assert_eq!(reached(&world.cloud, &machine), exact[&machine]);
    }
    world.cloud.set_authorities(&id, ECDSA.clone()).unwrap();
    assert_eq!(everything(&endpoint).await, before);
    assert_eq!(server_certificate(&endpoint).await, certificate);
    world.stop().await;
}

async fn server_certificate(endpoint: &nephele_model::Endpoint) -> Vec<u8> {
    let stream = support::connect(endpoint, &client_tls(&ECDSA.cluster, None, &[]))
        .await
        .unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn upgrade_in_place_shows_on_the_node_and_its_pods() {
    let world = World::start(30_240..=30_249);
    let (id, endpoint) = world.cluster("upgraded", &ECDSA);
    let mut spec = machine(&id, "cp", Role::ControlPlane);
    spec.version = "v1.35.9".into();
    support::provide(&world.cloud, spec.clone()).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    for version in ["v1.35.9", "v1.36.3"] {
        spec.version = version.into();
        support::provide(&world.cloud, spec.clone()).unwrap();
        let node = http.get("/api/v1/nodes/cp").await.unwrap().1;
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], version);
        let pod = http
            .get("/api/v1/namespaces/kube-system/pods/kube-apiserver-cp")
            .await
            .unwrap()
            .1;
        assert_eq!(
            pod["spec"]["containers"][0]["image"],
            format!("registry.k8s.io/kube-apiserver:{version}")
        );
        assert_eq!(http.get("/version").await.unwrap().1["gitVersion"], version);
    }
    world.stop().await;
}

#[tokio::test]
async fn deleted_machine_takes_its_node_pods_and_lease_along() {
    let world = World::start(30_250..=30_259);
    let (id, endpoint) = world.cluster("deleted", &ECDSA);
    for name in ["cp-1", "cp-2"] {
        support::provide(&world.cloud, machine(&id, name, Role::ControlPlane)).unwrap();
    }
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["h2"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    assert_eq!(http.names("/api/v1/pods").await.len(), 8);
    let machine = MachineId {
        cluster: id,
        name: "cp-1".into(),
    };
    assert_eq!(
        world.cloud.delete_machine(&machine).unwrap(),
        nephele_cloud::Deletion::Gone
    );
    assert_eq!(
        world.cloud.delete_machine(&machine).unwrap(),
        nephele_cloud::Deletion::Gone
    );
    assert_eq!(world.cloud.observe_machine(&machine), None);
    assert_eq!(http.names("/api/v1/nodes").await, ["cp-2"]);
    assert_eq!(http.names("/apis/coordination.k8s.io/v1/leases").await, ["cp-2"]);
    let components = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ];
    assert_eq!(
        http.names("/api/v1/pods").await,
        components.map(|component| format!("{component}-cp-2"))
    );
    let proxy = http
        .get("/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy")
        .await
        .unwrap()
        .1;
    assert_eq!(proxy["status"]["numberReady"], 1);
    world.stop().await;
}

/// The Node of a machine stays until its deletion is over, also over a restart, and then goes with it.
#[tokio::test(start_paused = true)]
async fn deletion_that_takes_time_ends_when_it_would_have_ended_without_a_restart() {
    let minute = nephele_cloud::Latency::Fixed(Duration::from_secs(60));
    let latencies = nephele_cloud::Latencies {
        deletion: Some(minute),
        ..Default::default()
    };
    let cloud_spec = || nephele_cloud::CloudSpec {
        latencies: latencies.clone(),
        ..Default::default()
    };
    let mut began = None;
    let mut previous: Option<MachineSpec> = None;
    for run in 0..2 {
        let cloud = on_tokio_time(30_280..=30_289, Duration::ZERO);
        let spec = cluster("slow");
        let cluster_id = spec.id.clone();
        let mut spec_of_machine = previous
            .take()
            .unwrap_or_else(|| machine(&cluster_id, "w", Role::Worker));
        spec_of_machine.cloud_spec = "north".into();
        let id = spec_of_machine.id.clone();
        cloud
            .put_cloud(
                &cluster_id.namespace,
                "north",
                cloud_spec(),
                CloudRecord::default(),
            )
            .unwrap();
        cloud.reserve_machines(began.is_some().then(|| PreviousMachine {
            id: id.clone(),
            has_begun: true,
            zone: None,
            cloud_spec: "north".into(),
            instance_type: None,
            market: Market::OnDemand,
            hardware: Hardware::default(),
            allocation: spec_of_machine.allocation.clone(),
        }));
        cloud.ensure_cluster(spec).unwrap();
        // Each run begins at the same time. The deletion begins after 20 s, and is resumed after 30 s.
        tokio::time::advance(Duration::from_secs(if run == 0 { 20 } else { 30 })).await;
        let began = match began {
            None => {
                support::provide(&cloud, spec_of_machine.clone()).unwrap();
                let seen = cloud.observe_machine(&id).unwrap();
                spec_of_machine.started_at = Some(seen.started_at);
                spec_of_machine.allocation = seen.allocation;
                spec_of_machine.reached = [Stage::Vm, Stage::Node]
                    .map(|stage| (stage, seen.started_at))
                    .into();
                let Deletion::InProgress { since } = cloud.delete_machine(&id).unwrap() else {
                    panic!("it takes a minute")
                };
                *began.insert(since)
            }
            Some(since) => {
                cloud
                    .restore_deleting(spec_of_machine.clone(), Some(since))
                    .unwrap();
                since
            }
        };
        assert_eq!(
            cloud.delete_machine(&id).unwrap(),
            Deletion::InProgress { since: began }
        );
        assert!(cloud.observe_machine(&id).is_some_and(|seen| seen.deleting));
        tokio::time::advance(Duration::from_millis(49_999)).await;
        assert_eq!(
            cloud.delete_machine(&id).unwrap(),
            Deletion::InProgress { since: began }
        );
        if run == 1 {
            tokio::time::advance(Duration::from_millis(2)).await;
            assert_eq!(cloud.delete_machine(&id).unwrap(), Deletion::Gone);
            // What is over is not resumed.
            cloud
                .restore_deleting(spec_of_machine.clone(), Some(began))
                .unwrap();
            assert_eq!(cloud.observe_machine(&id), None);
        }
        previous = Some(spec_of_machine);
        cloud.shutdown().await;
    }
}

#[tokio::test]
async fn addon_that_a_client_changed_is_reported_as_rolled_out() {
    let world = World::start(30_260..=30_269);
    let (id, endpoint) = world.cluster("addons", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let tls = client_tls(&ECDSA.cluster, Some(&admin(&ECDSA.cluster)), &["http/1.1"]);
    let mut http = Http::connect(&endpoint, &tls).await.unwrap();
    for path in ["daemonsets/kube-proxy", "deployments/coredns"] {
        let path = format!("/apis/apps/v1/namespaces/kube-system/{path}");
        let request = http::Request::patch(&path)
            .header("host", "127.0.0.1")
            .header("content-type", "application/merge-patch+json")
            .body(r#"{"spec":{"revisionHistoryLimit":3}}"#.into())
            .unwrap();
        assert_eq!(http.send(request).await.unwrap().status(), 200);
        let rolled_out = async {
            loop {
                let object = http.get(&path).await.unwrap().1;
                if object["status"]["observedGeneration"] == 2 {
                    return object;
                }
            }
        };
        let object = tokio::time::timeout(Duration::from_secs(20), rolled_out)
            .await
            .unwrap();
        assert_eq!(object["metadata"]["generation"], 2);
    }
    world.stop().await;
}

#[test]
fn timestamps_of_the_tests_are_what_they_say() {
    assert_eq!(created_at(), "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
}

#[tokio::test]
async fn a_new_machine_takes_no_place_of_one_from_before_a_restart() {
    let world = World::start_within(30_340..=30_349, 2);
    let (id, _) = world.cluster("demo", &ECDSA);
    let worker = |name: &str| machine(&id, name, Role::Worker);
    let previous = |name: &str, has_begun| PreviousMachine {
        id: worker(name).id,
        has_begun,
        zone: None,
        cloud_spec: String::new(),
        instance_type: None,
        market: Market::OnDemand,
        hardware: Hardware::default(),
        allocation: Allocation::default(),
    };
    // The creation of c had not begun, so c has to wait like new machines.
    world
        .cloud
        .reserve_machines([previous("a", true), previous("b", true), previous("c", false)]);
    let create = |name: &str| support::provide(&world.cloud, worker(name)).map_err(|error| error.to_string());
    let refused = Err("the cloud refused CreateInstance".to_owned());
    assert_eq!([create("new"), create("c")], [refused.clone(), refused.clone()]);
    assert_eq!([create("a"), create("new")], [Ok(()), refused]);
    // The object of b is gone, and no reconcile had looked at it.
    world
        .cloud
        .retain_machines([("default".to_owned(), "a".to_owned())].into());
    assert_eq!(create("new"), Ok(()));
    world.stop().await;
}

#[tokio::test]
async fn a_client_that_writes_back_what_it_read_changes_nothing() {
    let world = World::start(30_290..=30_299);
    let (id, endpoint) = world.cluster("same", &ECDSA);
    support::provide(&world.cloud, machine(&id, "cp", Role::ControlPlane)).unwrap();
    let mut http = Http::of_admin(&endpoint, &ECDSA.cluster).await.unwrap();
    let mut written = 0;
    for collection in [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/serviceaccounts",
        "/api/v1/services",
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/deployments",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ] {
        let (_, list) = http.get(collection).await.unwrap();
        for object in list["items"].as_array().unwrap() {
            let text = |field: &str| object["metadata"][field].as_str();
            let (root, plural) = collection.rsplit_once('/').unwrap();
            let place = text("namespace")
                .map(|namespace| format!("/namespaces/{namespace}"))
                .unwrap_or_default();
            let path = format!("{root}{place}/{plural}/{}", text("name").unwrap());
            assert_eq!(
                http.write("PUT", &path, object).await,
                (StatusCode::OK, object.clone()),
                "{path}"
            );
            written += 1;
        }
    }
    assert!(written > 20, "{written}");
    world.stop().await;
}
