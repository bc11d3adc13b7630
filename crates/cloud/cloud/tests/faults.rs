//! What a fault does to machines that run, as clients of their cluster see it.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use nephele_cloud::{
    Affected, CallerMistakes, Changed, Cloud, CloudRecord, CloudSpec, ClusterSpec, Deletion, Effect, Fault,
    FaultHistory, Latency, Leaked, MachineSpec, active_effect_of,
};
use nephele_model::{
    ApiServerRequestEffect, ApiServerRequestEffectKind, BootstrapPhase, Budget, Caller, ClockSkew, FaultId,
    MachineId, Matches, OtherName, Quotas, Role, Stage, Verb, VisibleEffect,
};
use serde_json::Value;

use crate::support::{self, ECDSA, Http, World, machine};

pub(crate) fn id(name: &str) -> FaultId {
    FaultId {
        namespace: "default".into(),
        name: name.into(),
    }
}

/// A fault of the machine or cluster of this name.
pub(crate) fn put(cloud: &Cloud, name: &str, machine: &str, visible_effect: &VisibleEffect) {
    let matches = Matches {
        names: [machine.to_owned()].into(),
        ..Matches::default()
    };
    let effect = Effect::Affect(active_effect_of(visible_effect));
    cloud
        .put_fault(
            &id(name),
            Fault {
                matches,
                effect,
                budget: Budget::default(),
            },
            None,
        )
        .unwrap();
}

/// How many hours ago the heartbeat of a Node's condition Ready was, and the renewal of its Lease.
pub(crate) async fn hours(http: &mut Http, node: &str) -> (i64, i64) {
    let (_, lease) = http.get(&format!("{LEASES}/{node}")).await.unwrap();
    let (_, node) = http.get(&format!("/api/v1/nodes/{node}")).await.unwrap();
    let ago = |at: &Value| {
        let at: Timestamp = at.as_str().expect("a time").parse().expect("a time");
        (Timestamp::now().duration_since(at).as_secs_f64() / 3600.0).round() as i64
    };
    (
        ago(&node["status"]["conditions"][3]["lastHeartbeatTime"]),
        ago(&lease["spec"]["renewTime"]),
    )
}

pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn ready(node: &Value) -> (String, Vec<String>) {
    let conditions = node["status"]["conditions"].as_array().expect("a list");
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
        .expect("a condition");
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let keys = taints.filter_map(|taint| taint["key"].as_str());
    let unreachable = keys
        .filter(|key| key.starts_with("node.kubernetes.io/"))
        .map(str::to_owned);
    (
        ready["status"].as_str().unwrap_or_default().to_owned(),
        unreachable.collect(),
    )
}

/// Otherwise whoever may change Faults in one namespace could keep the reconcilers of all others busy.
#[tokio::test]
async fn a_change_of_a_fault_wakes_nothing_in_other_namespaces() {
    let world = World::start(30_900..=30_909);
    let mut changes = world.cloud.changes();
    put(&world.cloud, "f", "one", &VisibleEffect::Frozen);
    put(&world.cloud, "f", "two", &VisibleEffect::Frozen);
    world.cloud.delete_fault(&id("f")).unwrap();
    let namespace = "default".to_owned();
    assert_eq!(changes.next().await, Some(Changed::Namespace(namespace.clone())));
    while let Ok(Some(change)) = tokio::time::timeout(Duration::from_millis(50), changes.next()).await {
        assert!(
            [
                Changed::Namespace(namespace.clone()),
                Changed::Usage(namespace.clone())
            ]
            .contains(&change)
        );
    }
}

#[tokio::test]
async fn a_frozen_machine_is_silent_until_it_is_healed() {
    let world = World::start(30_900..=30_909);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("frozen", authorities);
    let cloud = &world.cloud;
    for name in ["one", "two"] {
        support::provide(cloud, machine(&cluster, name, Role::ControlPlane)).unwrap();
    }
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let unreachable = vec!["node.kubernetes.io/unreachable".to_owned(); 2];
    let (_, healthy) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&healthy), ("True".to_owned(), vec![]));

    put(cloud, "f", "one", &VisibleEffect::Frozen);
    let (_, node) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&node), ("Unknown".to_owned(), unreachable));
    assert_eq!(cloud.observe_cluster(&cluster).unwrap().backends, 1);
    let (_, other) = http.get("/api/v1/nodes/two").await.unwrap();
    assert_eq!(ready(&other), ("True".to_owned(), vec![]));
    let hit = Affected {
        cluster: cluster.clone(),
        machine: Some("one".into()),
        until: None,
    };
    assert_eq!(cloud.observe_fault(&id("f")).unwrap().affected, [hit]);

    cloud.delete_fault(&id("f")).unwrap();
    assert_eq!(cloud.observe_cluster(&cluster).unwrap().backends, 2);
    let (_, node) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&node), ("True".to_owned(), vec![]));
    world.stop().await;
}

#[tokio::test]
async fn a_machine_that_vanished_leaves_no_node_and_stays_gone() {
    let world = World::start(30_910..=30_919);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("vanished", authorities);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "one", Role::ControlPlane)).unwrap();
    let worker = machine(&cluster, "worker", Role::Worker);
    let worker_id = worker.id.clone();
    support::provide(cloud, worker).unwrap();
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(http.names("/api/v1/nodes").await, ["one", "worker"]);

    put(cloud, "f", "worker", &VisibleEffect::Vanished);
    assert!(cloud.observe_machine(&worker_id).unwrap().has_vanished());
    assert_eq!(http.names("/api/v1/nodes").await, ["one"]);
    cloud.delete_fault(&id("f")).unwrap();
    assert!(cloud.observe_machine(&worker_id).unwrap().has_vanished());
    assert_eq!(http.names("/api/v1/nodes").await, ["one"]);
    world.stop().await;
}

/// The second Node is there again after a restart, and the instance does not reboot again.
#[tokio::test]
async fn an_instance_that_reboots_under_another_name_is_down_for_a_while_and_then_has_two_nodes() {
    let world = World::start(31_020..=31_029);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("renamed", authorities);
    let cloud = &world.cloud;
    for name in ["one", "two"] {
        support::provide(cloud, machine(&cluster, name, Role::ControlPlane)).unwrap();
    }
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let visible_effect = VisibleEffect::Rebooting {
        down_for: Duration::from_secs(1),
        name: OtherName::new("-2"),
    };
    put(cloud, "f", "one", &visible_effect);
    let (_, node) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&node).0, "Unknown");
    assert_eq!(cloud.observe_cluster(&cluster).unwrap().backends, 1);
    let affected = |cloud: &Cloud| cloud.observe_fault(&id("f")).unwrap().affected;
    assert!(affected(cloud)[0].until.is_some(), "it is down");
    support::eventually("it is up again", || affected(cloud)[0].until.is_none()).await;
    assert_eq!(cloud.observe_cluster(&cluster).unwrap().backends, 2);
    assert_eq!(http.names("/api/v1/nodes").await, ["one", "one-2", "two"]);
    let (_, node) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&node).0, "Unknown");
    let (_, other) = http.get("/api/v1/nodes/one-2").await.unwrap();
    assert_eq!(
        (ready(&other).0.as_str(), &other["spec"]["providerID"]),
        ("True", &node["spec"]["providerID"])
    );

    let next = World::start(31_030..=31_039);
    let (_, endpoint) = next.cluster("renamed", authorities);
    let seen = cloud.observe_fault(&id("f")).unwrap();
    let history = FaultHistory {
        began: seen.began,
        matched: seen.matched,
        hits: seen.hits,
        windows: seen.windows,
        affected: seen.affected,
        is_cut: false,
        skipped: vec![],
        leaked: vec![],
    };
    let matches = Matches {
        names: ["one".to_owned()].into(),
        ..Matches::default()
    };
    let fault = Fault {
        matches,
        effect: Effect::Affect(active_effect_of(&visible_effect)),
        budget: Budget::default(),
    };
    next.cloud.put_fault(&id("f"), fault, Some(history)).unwrap();
    for name in ["one", "two"] {
        let spec = machine(&cluster, name, Role::ControlPlane);
        let reached = support::reached(cloud, &spec.id);
        support::provide(&next.cloud, MachineSpec { reached, ..spec }).unwrap();
    }
    assert_eq!(
        next.cloud.observe_cluster(&cluster).unwrap().backends,
        2,
        "neither reboots"
    );
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let (_, again) = http.get("/api/v1/nodes/one-2").await.unwrap();
    assert_eq!(again["metadata"]["uid"], other["metadata"]["uid"]);
    next.cloud.delete_fault(&id("f")).unwrap();
    next.cloud.observe_cluster(&cluster).unwrap();
    assert_eq!(http.names("/api/v1/nodes").await, ["one", "two"]);
    let (_, node) = http.get("/api/v1/nodes/one").await.unwrap();
    assert_eq!(ready(&node), ("True".to_owned(), vec![]));
    world.stop().await;
    next.stop().await;
}

/// Otherwise a request without a time limit that a Fault has held would wait for hours after the Fault.
#[tokio::test]
async fn a_request_that_waits_is_answered_when_its_fault_goes() {
    let world = World::start(31_050..=31_059);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("late", authorities);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "one", Role::ControlPlane)).unwrap();
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let late = ApiServerRequestEffectKind::Latency {
        base: Duration::from_secs(3600),
        jitter_per_million: 0,
    };
    let fails = ApiServerRequestEffectKind::Error {
        code: 503,
        per_million: 1_000_000,
    };
    for (name, kind) in [("f", late), ("g", fails)] {
        let visible_effect = VisibleEffect::ApiServer(ApiServerRequestEffect {
            verbs: vec!["list".into()],
            resources: vec![],
            kind,
        });
        put(cloud, name, "late", &visible_effect);
    }
    cloud.observe_cluster(&cluster).unwrap();
    let mut listed = Box::pin(http.names("/api/v1/nodes"));
    assert!(
        tokio::time::timeout(Duration::from_millis(200), &mut listed)
            .await
            .is_err(),
        "it waits"
    );
    // What is healed while it waits does not fail it.
    for name in ["g", "f"] {
        cloud.delete_fault(&id(name)).unwrap();
    }
    cloud.observe_cluster(&cluster).unwrap();
    let listed = tokio::time::timeout(Duration::from_secs(60), listed).await;
    assert_eq!(listed.expect("the fault is gone"), ["one"]);
    world.stop().await;
}

#[tokio::test]
async fn a_leaked_instance_is_gone_from_its_cluster_and_keeps_its_room_and_address() {
    let world = World::start(30_950..=30_959);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("leaky", authorities);
    let cloud = &world.cloud;
    cloud
        .put_cloud("default", "north", CloudSpec::default(), CloudRecord::default())
        .unwrap();
    for name in ["one", "two"] {
        let spec = machine(&cluster, name, Role::ControlPlane);
        support::provide(
            cloud,
            MachineSpec {
                cloud_spec: "north".into(),
                ..spec
            },
        )
        .unwrap();
    }
    let two = MachineId {
        cluster: cluster.clone(),
        name: "two".into(),
    };
    let address = |cloud: &Cloud| {
        cloud.observe_machine(&two).unwrap().allocation.addresses[0]
            .address
            .clone()
    };
    let before = address(cloud);
    let leak = Fault {
        matches: Matches::default(),
        effect: Effect::Leak,
        budget: Budget::default(),
    };
    cloud.put_fault(&id("f"), leak, None).unwrap();
    assert_eq!(cloud.delete_machine(&two).unwrap(), Deletion::Gone);

    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(http.names("/api/v1/nodes").await, ["one"]);
    let observed = cloud.observe_cluster(&cluster).unwrap();
    assert_eq!(
        (observed.backends, observed.etcd_members),
        (1, vec!["one".to_owned()])
    );
    assert_eq!(
        (
            cloud.observe_cloud("default", "north").machines,
            world.gauge("nephele_machines")
        ),
        (2, 1.0)
    );
    assert_eq!(world.gauge("nephele_leaked_instances"), 1.0);
    assert_eq!(
        (world.gauge("nephele_faults"), world.gauge("nephele_fault_hits")),
        (1.0, 1.0)
    );
    let leaked = cloud.observe_cloud("default", "north").record.leaked;
    let [
        Leaked {
            id: named,
            fault,
            addresses,
            ..
        },
    ] = &leaked[..]
    else {
        panic!("{leaked:?}")
    };
    assert_eq!(
        (named, fault.as_str(), addresses),
        (&two.resource(), "f", &vec![before.clone()])
    );

    // A new machine of its name gets another address, here and after a restart.
    let again = || MachineSpec {
        cloud_spec: "north".into(),
        ..machine(&cluster, "two", Role::Worker)
    };
    support::provide(cloud, again()).unwrap();
    assert_ne!(address(cloud), before);
    let next = World::start(30_960..=30_969);
    next.cluster("leaky", authorities);
    let previous = CloudRecord {
        leaked: leaked.clone(),
        ..CloudRecord::default()
    };
    next.cloud
        .put_cloud("default", "north", CloudSpec::default(), previous)
        .unwrap();
    support::provide(&next.cloud, again()).unwrap();
    assert_ne!(address(&next.cloud), before);
    assert_eq!(next.cloud.observe_cloud("default", "north").record.leaked, leaked);
    assert_eq!(next.cloud.observe_cloud("default", "north").machines, 2);

    next.cloud.delete_leaked("default", "north").unwrap();
    assert_eq!(next.cloud.observe_cloud("default", "north").record.leaked, []);
    assert_eq!(next.cloud.observe_cloud("default", "north").machines, 1);
    world.stop().await;
    next.stop().await;
}

/// No other cluster gets its port: neither a new cluster, nor one that was published with it, here and after a restart.
#[tokio::test]
async fn a_leaked_load_balancer_keeps_its_room_and_its_port() {
    let world = World::start(31_040..=31_049);
    let cloud = &world.cloud;
    cloud
        .put_cloud("default", "north", CloudSpec::default(), CloudRecord::default())
        .unwrap();
    let of_cloud = |name: &str| ClusterSpec {
        cloud_spec: "north".into(),
        ..support::cluster(name)
    };
    let endpoint = cloud.ensure_cluster(of_cloud("gone")).unwrap();
    let matches = Matches {
        operations: [Verb::DeleteLoadBalancer].into(),
        ..Matches::default()
    };
    let leak = Fault {
        matches,
        effect: Effect::Leak,
        budget: Budget::default(),
    };
    cloud.put_fault(&id("f"), leak, None).unwrap();
    let gone = of_cloud("gone").id;
    assert_eq!(cloud.delete_load_balancer(&gone).unwrap(), Deletion::Gone);
    cloud.delete_cluster(&gone);
    let leaked = cloud.observe_cloud("default", "north").record.leaked;
    let [
        Leaked {
            id: named,
            fault,
            endpoint: kept,
            ..
        },
    ] = &leaked[..]
    else {
        panic!("{leaked:?}")
    };
    assert_eq!(
        (named, fault.as_str(), kept.as_ref()),
        (&gone.load_balancer(), "f", Some(&endpoint))
    );
    let shown =
        || ["nephele_leaked_load_balancers", "nephele_leaked_instances"].map(|name| world.gauge(name));
    assert_eq!(shown(), [1.0, 0.0]);
    let ports = || ["nephele_workload_ports", "nephele_workload_ports_free"].map(|name| world.gauge(name));
    assert_eq!(ports(), [10.0, 9.0]);

    let next = World::start(31_040..=31_049);
    let quotas = Quotas {
        load_balancers: Some(3),
        ..Quotas::default()
    };
    let cloud_spec = CloudSpec {
        quotas,
        ..CloudSpec::default()
    };
    let previous = CloudRecord {
        leaked: leaked.clone(),
        ..CloudRecord::default()
    };
    next.cloud
        .put_cloud("default", "north", cloud_spec, previous)
        .unwrap();
    for (cloud, name) in [(cloud, "new"), (&next.cloud, "newer")] {
        let given = cloud.ensure_cluster(of_cloud(name)).unwrap();
        assert_ne!(given.port, endpoint.port);
        let published = ClusterSpec {
            endpoint: Some(endpoint.clone()),
            ..of_cloud("published")
        };
        let refused = cloud.ensure_cluster(published).unwrap_err();
        let message =
            "failed to listen on port 31040: it belongs to the leaked load balancer of cluster default/gone";
        assert_eq!(
            (refused.to_string().as_str(), refused.category()),
            (message, "PortInUse")
        );
    }
    assert_eq!(next.cloud.observe_cloud("default", "north").record.leaked, leaked);
    let used = |cloud: &Cloud| cloud.observe_cloud("default", "north").limits[0].taken;
    assert_eq!(used(&next.cloud), 2);

    next.cloud.delete_leaked("default", "north").unwrap();
    assert_eq!(
        (
            next.cloud.observe_cloud("default", "north").record.leaked,
            used(&next.cloud)
        ),
        (vec![], 1)
    );
    // Its listener is closed afterwards.
    world.stop().await;
    let published = ClusterSpec {
        endpoint: Some(endpoint.clone()),
        ..of_cloud("published")
    };
    assert_eq!(next.cloud.ensure_cluster(published).unwrap(), endpoint);
    next.stop().await;
}

/// The stages that a machine has reached.
fn stages(cloud: &Cloud, machine: &MachineId) -> Vec<Stage> {
    let observed = cloud.observe_machine(machine).unwrap();
    Stage::ALL
        .into_iter()
        .filter(|stage| observed.reached(*stage).is_some())
        .collect()
}

#[tokio::test]
async fn a_machine_gets_as_far_as_kubeadm_does_until_the_fault_is_deleted() {
    let world = World::start(31_970..=31_979);
    let (cluster, _) = world.cluster("bootstrap", &ECDSA);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "first", Role::ControlPlane)).unwrap();
    let all = Stage::ALL.to_vec();
    for (phase, reached) in BootstrapPhase::ALL.into_iter().zip([1, 1, 2, 3]) {
        let name = phase.as_str();
        put(cloud, "f", name, &VisibleEffect::BootstrapFailed(phase));
        put(cloud, "g", "first", &VisibleEffect::BootstrapFailed(phase));
        let spec = machine(&cluster, name, Role::ControlPlane);
        let id = spec.id.clone();
        support::provide(cloud, spec).unwrap();
        assert_eq!(stages(cloud, &id), all[..reached], "{name}");
        let first = MachineId {
            cluster: cluster.clone(),
            name: "first".into(),
        };
        assert_eq!(stages(cloud, &first), all, "it is past {name}");
        assert_eq!(cloud.observe_fault(&self::id("g")).unwrap().hits, 0);
        cloud.delete_fault(&self::id("f")).unwrap();
        cloud.delete_fault(&self::id("g")).unwrap();
        assert_eq!(stages(cloud, &id), all, "kubeadm has succeeded");
    }
    world.stop().await;
}

#[tokio::test]
async fn heartbeats_and_lease_of_a_machine_have_the_time_of_its_clock() {
    let world = World::start(31_930..=31_939);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("late", authorities);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "one", Role::ControlPlane)).unwrap();
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let two_hours = Duration::from_secs(7_200);
    assert_eq!(hours(&mut http, "one").await, (0, 0));
    put(
        cloud,
        "f",
        "one",
        &VisibleEffect::ClockSkew(ClockSkew::Behind(two_hours)),
    );
    assert_eq!(hours(&mut http, "one").await, (2, 2));
    put(
        cloud,
        "f",
        "one",
        &VisibleEffect::ClockSkew(ClockSkew::Ahead(two_hours)),
    );
    assert_eq!(hours(&mut http, "one").await, (-2, -2));
    cloud.delete_fault(&id("f")).unwrap();
    assert_eq!(hours(&mut http, "one").await, (0, 0));
    world.stop().await;
}

#[tokio::test]
async fn reads_are_of_the_past_and_writes_of_the_present_until_the_fault_is_deleted() {
    let world = World::start(31_940..=31_949);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("stale", authorities);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "one", Role::ControlPlane)).unwrap();
    let mut before = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(before.names("/api/v1/nodes").await, ["one"]);
    let resources = vec!["nodes".to_owned()];
    let verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
    let request_effect = ApiServerRequestEffect {
        verbs,
        resources,
        kind: ApiServerRequestEffectKind::Stale,
    };
    put(cloud, "f", "stale", &VisibleEffect::ApiServer(request_effect));
    support::provide(cloud, machine(&cluster, "two", Role::Worker)).unwrap();
    assert!(
        before.get("/api/v1/nodes").await.is_err(),
        "open connections ended"
    );
    let mut during = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(during.names("/api/v1/nodes").await, ["one"]);
    assert_eq!(during.get("/api/v1/nodes/two").await.unwrap().0.as_u16(), 404);
    assert_eq!(
        during.names(LEASES).await,
        ["one", "two"],
        "the fault affects nodes only"
    );
    cloud.delete_fault(&id("f")).unwrap();
    assert!(
        during.get("/api/v1/nodes").await.is_err(),
        "open connections ended"
    );
    let mut after = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(after.names("/api/v1/nodes").await, ["one", "two"]);
    world.stop().await;
}

#[tokio::test]
async fn a_machine_that_is_created_twice_has_one_node_and_the_other_instance_has_no_owner() {
    let world = World::start(31_000..=31_009);
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("twice", authorities);
    let cloud = &world.cloud;
    cloud
        .put_cloud("default", "north", CloudSpec::default(), CloudRecord::default())
        .unwrap();
    let of_cloud = |name, role| MachineSpec {
        cloud_spec: "north".into(),
        ..machine(&cluster, name, role)
    };
    support::provide(cloud, of_cloud("one", Role::ControlPlane)).unwrap();
    let effect = Effect::Duplicate {
        retry_after: Duration::from_secs(5),
    };
    let fault = Fault {
        matches: Matches::default(),
        effect,
        budget: Budget::default(),
    };
    cloud.put_fault(&id("f"), fault, None).unwrap();
    let two = of_cloud("two", Role::ControlPlane);
    let refused = cloud.ensure_machine(two.clone()).unwrap_err();
    assert_eq!(refused.category(), "Timeout");
    // The first instance is up, although its creator does not know.
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let first = cloud.observe_machine(&two.id).unwrap();
    assert_eq!(http.names("/api/v1/nodes").await, ["one", "two"]);
    let version = |(_, node): (_, Value)| node["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let before = version(http.get("/api/v1/nodes/two").await.unwrap());

    support::provide(cloud, two.clone()).unwrap();
    let second = cloud.observe_machine(&two.id).unwrap();
    assert_eq!(
        (second.provider_id, &second.allocation),
        (first.provider_id, &first.allocation)
    );
    assert_eq!(http.names("/api/v1/nodes").await, ["one", "two"]);
    let after = version(http.get("/api/v1/nodes/two").await.unwrap());
    assert_ne!(after, before, "it is the Node of the second one");
    let observed = cloud.observe_cluster(&cluster).unwrap();
    assert_eq!(
        (observed.machines, observed.backends, observed.etcd_members.len()),
        (2, 2, 2)
    );
    let leaked = cloud.observe_cloud("default", "north").record.leaked;
    let [
        Leaked {
            id: named,
            fault,
            addresses,
            ..
        },
    ] = &leaked[..]
    else {
        panic!("{leaked:?}")
    };
    assert_eq!(
        (named, fault.as_str(), addresses.len()),
        (&two.id.resource(), "f", 0)
    );
    assert_eq!(cloud.observe_cloud("default", "north").machines, 3);
    let found = CallerMistakes {
        double_creates: 1,
        missed_reads: 0,
    };
    assert_eq!(
        cloud.observe_cloud("default", "north").record.caller_mistakes,
        [("machine".to_owned(), found)].into()
    );
    assert_eq!(world.counter("nephele_double_creates_total"), 1.0);
    support::provide(cloud, two).unwrap();
    assert_eq!(
        cloud.observe_cloud("default", "north").record.leaked,
        leaked,
        "who knows the machine asks no more"
    );
    world.stop().await;
}

#[tokio::test]
async fn requests_fail_and_connections_end_until_the_fault_is_deleted() {
    let world = World::start_with(30_920..=30_929, Duration::from_millis(200));
    let authorities = &ECDSA;
    let (cluster, endpoint) = world.cluster("troubled", authorities);
    let cloud = &world.cloud;
    support::provide(cloud, machine(&cluster, "one", Role::ControlPlane)).unwrap();
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    let request_effect = |kind, resources: &[&str]| {
        let resources = resources.iter().map(|&resource| resource.to_owned()).collect();
        VisibleEffect::ApiServer(ApiServerRequestEffect {
            verbs: vec![],
            resources,
            kind,
        })
    };
    let error = ApiServerRequestEffectKind::Error {
        code: 429,
        per_million: 1_000_000,
    };
    put(cloud, "f", "troubled", &request_effect(error, &["nodes"]));
    let (code, status) = http.get("/api/v1/nodes").await.unwrap();
    assert_eq!(
        (code.as_u16(), &status["reason"]),
        (429, &Value::from("TooManyRequests"))
    );
    assert_eq!(
        status["message"],
        "the API server has a simulated failure (Fault f)"
    );
    assert_eq!(http.get("/api/v1/pods").await.unwrap().0, 200);
    let hit = Affected {
        cluster: cluster.clone(),
        machine: None,
        until: None,
    };
    assert_eq!(cloud.observe_fault(&id("f")).unwrap().affected, [hit]);
    cloud.delete_fault(&id("f")).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    assert_eq!(http.get("/api/v1/nodes").await.unwrap().0, 200);

    put(
        cloud,
        "down",
        "troubled",
        &request_effect(ApiServerRequestEffectKind::Down, &[]),
    );
    cloud.observe_cluster(&cluster).unwrap();
    // The connection ends, and a new one gets no answer.
    assert!(http.get("/version").await.is_err());
    assert!(Http::of_admin(&endpoint, &authorities.cluster).await.is_err());
    cloud.delete_fault(&id("down")).unwrap();
    cloud.observe_cluster(&cluster).unwrap();
    let mut http = Http::of_admin(&endpoint, &authorities.cluster).await.unwrap();
    assert_eq!(http.get("/version").await.unwrap().0, 200);
    world.stop().await;
}

#[tokio::test]
async fn a_machine_without_an_object_is_deleted_although_a_fault_refuses_deletions() {
    let world = World::start(30_970..=30_979);
    let (cluster, _) = world.cluster("swept", &ECDSA);
    let cloud = &world.cloud;
    let worker = machine(&cluster, "worker", Role::Worker);
    let swept = worker.id.clone();
    support::provide(cloud, worker).unwrap();
    let reason = nephele_model::FailureReason::InternalError;
    let retry_after = Duration::from_secs(5);
    let effect = Effect::Fail {
        reason,
        message: String::new(),
        retry_after,
    };
    let fault = Fault {
        matches: Matches::default(),
        effect,
        budget: Budget::default(),
    };
    cloud.put_fault(&id("f"), fault, None).unwrap();
    assert!(cloud.delete_machine(&swept).is_err());
    assert_eq!(cloud.sweep_machine(&swept).unwrap(), Deletion::Gone);
    assert!(cloud.observe_machine(&swept).is_none());
    world.stop().await;
}

#[tokio::test]
async fn each_call_is_of_the_controller_that_makes_it() {
    let world = World::start(30_970..=30_979);
    let (cluster, _) = world.cluster("called", &ECDSA);
    let cloud = &world.cloud;
    let of_pool = MachineSpec {
        caller: Caller::MachinePool,
        ..machine(&cluster, "pooled", Role::Worker)
    };
    let pooled = of_pool.id.clone();
    let of_machine = machine(&cluster, "single", Role::ControlPlane);
    let single = of_machine.id.clone();
    for (name, caller) in ["a", "b", "c"].into_iter().zip(Caller::ALL) {
        let matches = Matches {
            operations: Verb::ALL.into(),
            callers: [caller].into(),
            ..Matches::default()
        };
        let effect = Effect::Delay(Latency::ZERO);
        cloud
            .put_fault(
                &id(name),
                Fault {
                    matches,
                    effect,
                    budget: Budget::default(),
                },
                None,
            )
            .unwrap();
    }
    // Each call is delayed until now, and passes when it is repeated.
    let twice = |mut call: Box<dyn FnMut() -> bool + '_>| assert_eq!((call(), call()), (false, true));
    twice(Box::new(|| cloud.ensure_machine(of_pool.clone()).is_ok()));
    twice(Box::new(|| cloud.ensure_machine(of_machine.clone()).is_ok()));
    twice(Box::new(|| cloud.register_backend(&single).is_ok()));
    twice(Box::new(|| cloud.describe_machine(&pooled).is_ok()));
    twice(Box::new(|| cloud.deregister_backend(&single).is_ok()));
    twice(Box::new(|| cloud.delete_machine(&pooled).is_ok()));
    twice(Box::new(|| cloud.describe_load_balancer(&cluster).is_ok()));
    let hit = |name| {
        let hits = cloud.observe_fault(&id(name)).unwrap().last_hits;
        hits.into_iter()
            .rev()
            .filter_map(|hit| hit.operation)
            .collect::<Vec<_>>()
    };
    assert_eq!(hit("a"), ["DescribeLoadBalancer"]);
    assert_eq!(
        hit("b"),
        ["CreateInstance", "RegisterBackend", "DeregisterBackend"]
    );
    assert_eq!(hit("c"), ["CreateInstance", "DescribeInstance", "DeleteInstance"]);
    world.stop().await;
}

#[tokio::test]
async fn the_metrics_of_a_cloud_go_with_it() {
    let world = World::start(31_010..=31_019);
    let quotas = Quotas {
        instances: Some(3),
        ..Quotas::default()
    };
    let cloud_spec = CloudSpec {
        quotas,
        ..CloudSpec::default()
    };
    world
        .cloud
        .put_cloud("default", "north", cloud_spec, CloudRecord::default())
        .unwrap();
    let shown = || ["nephele_quota", "nephele_clock_rate"].map(|name| world.gauge(name));
    assert_eq!(shown(), [3.0, 1.0]);
    world.cloud.delete_cloud("default", "north").unwrap();
    assert_eq!(shown(), [0.0, 0.0]);
    world.stop().await;
}
