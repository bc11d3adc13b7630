use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{elements::Elements, html};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("an object"))
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-03-04T05:06:07Z"})
}

fn metadata(name: &str, role: &str) -> Value {
    json!({"name": name, "namespace": "team", "resourceVersion": "7", "labels": {role: ""}})
}

/// A cluster with a control plane machine that runs, a spot worker that starts, and one that waits for room.
pub(crate) fn objects() -> Objects {
    let machine = |name: &str, role: &str, phase: &str| {
        read(json!({
            "metadata": metadata(name, role),
            "spec": {"clusterName": "a", "version": "v1.36.3", "failureDomain": "north-1a",
                     "infrastructureRef": {"kind": "InMemoryMachine", "name": name}},
            "status": {"phase": phase},
        }))
    };
    let behind = |name: &str, market: &str, conditions: &[Value]| {
        read(
            json!({"metadata": metadata(name, ""), "spec": {"market": market}, "status": {"conditions": conditions}}),
        )
    };
    let up = [
        "VMProvisioned",
        "NodeProvisioned",
        "EtcdProvisioned",
        "APIServerProvisioned",
    ]
    .map(|kind| condition(kind, "True", "Provisioned", ""));
    let starting = [
        condition("VMProvisioned", "True", "Provisioned", ""),
        condition("NodeProvisioned", "False", "WaitingForStartupTimeout", ""),
    ];
    let refused = [condition(
        "VMProvisioned",
        "False",
        "QuotaExceeded",
        "quota of 2 instances is used up",
    )];
    Objects {
        clusters: vec![read(json!({
            "metadata": metadata("a", ""),
            "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 20000},
                     "infrastructureRef": {"kind": "InMemoryCluster", "name": "a"}},
            "status": {"phase": "Provisioned", "conditions": [condition("Available", "True", "Available", "")]},
        }))],
        in_memory_clusters: vec![read(json!({
            "metadata": metadata("a", ""), "spec": {},
            "status": {"failureDomains": [{"name": "north-1a"}, {"name": "north-1b"}],
                       "loadBalancer": {"backends": [{"name": "a-0", "inService": true}]}},
        }))],
        machines: vec![
            machine("a-0", "cluster.x-k8s.io/control-plane", "Running"),
            machine("a-1", "", "Provisioning"),
            machine("a-2", "", "Pending"),
        ],
        in_memory_machines: vec![
            behind("a-0", "", &up),
            behind("a-1", "Spot", &starting),
            behind("a-2", "", &refused),
        ],
        clouds: vec![read(json!({
            "metadata": metadata("north", ""), "spec": {},
            "status": {"waiting": 1, "leaked": 1, "clock": {"rate": "60"},
                       "usage": [{"name": "instances", "limit": 2, "used": 2, "free": 0, "waiting": 1}],
                       "cost": {"total": "1.5", "perHour": "0.2", "time": "2026-03-04T05:06:07.000000Z"},
                       "leakedInstances": [{"name": "old", "cluster": "a", "zone": "north-1b", "fault": "leak",
                                            "since": "2026-03-04T05:06:07.000000Z"}]},
        }))],
        faults: vec![read(json!({
            "metadata": metadata("silent", ""), "spec": {"effect": {"notReady": {}}},
            "status": {"phase": "Active", "hits": 1, "affected": [{"cluster": "a", "machine": "a-1"}]},
        }))],
        journal: Vec::new(),
    }
}

#[test]
fn a_machine_is_seen_with_its_role_stages_market_and_faults() {
    let model = Model::new(&objects(), None);
    let labels: Vec<_> = model.machines.values().map(MachineView::label).collect();
    assert_eq!(
        labels,
        [
            "control plane a-0, zone north-1a, running",
            "worker a-1, zone north-1a, starting: node, spot, Fault silent",
            "worker a-2, zone north-1a, waiting",
        ]
    );
    assert_eq!(model.zones, ["north-1a", "north-1b", ""]);
}

#[test]
fn a_machine_whose_node_is_silent_does_not_count_as_running() {
    let seen = |ready: &str| {
        let mut objects = objects();
        let machine = std::sync::Arc::make_mut(&mut objects.machines[0]);
        let status = machine.status.as_mut().expect("it has a status");
        status.conditions = vec![nephele_api::conditions::condition("NodeReady", ready, "R", "")];
        let model = Model::new(&objects, None);
        (model.machines[&Key::new("team", "a-0")].label(), model.running())
    };
    let running = ("control plane a-0, zone north-1a, running".to_owned(), 1);
    let silent = ("control plane a-0, zone north-1a, not ready".to_owned(), 0);
    assert_eq!(
        ["True", "False", "Unknown"].map(seen),
        [running, silent.clone(), silent]
    );
}

#[test]
fn a_cluster_is_seen_with_its_load_balancer_and_its_machines() {
    let model = Model::new(&objects(), None);
    let cluster = &model.clusters[&Key::new("team", "a")];
    assert_eq!(
        (
            cluster.state(),
            cluster.version.as_str(),
            cluster.endpoint.as_str()
        ),
        ("Available", "v1.36.3", "127.0.0.1:20000")
    );
    assert_eq!((cluster.in_service, cluster.backends), (1, 1));
    assert_eq!((cluster.running, cluster.machines, model.running()), (1, 3, 1));
}

#[test]
fn what_waits_what_leaked_and_what_is_full_stands_beside_the_grid() {
    let model = Model::new(&objects(), None);
    let waits: Vec<_> = model
        .waits
        .values()
        .map(|wait| (wait.what_for, wait.message.as_str()))
        .collect();
    assert_eq!(waits, [("quota", "quota of 2 instances is used up")]);
    let leaks: Vec<_> = model.leaks.values().collect();
    assert_eq!(
        leaks,
        [&Leak {
            what: "instance old".into(),
            place: "a, zone north-1b".into(),
            fault: "leak".into()
        }]
    );
    let cloud = &model.clouds[&Key::new("team", "north")];
    assert_eq!(
        (cloud.clock(), cloud.per_hour.as_str(), cloud.limits[0].used),
        ("× 60".into(), "0.2", 2)
    );
    assert_eq!(
        model.faults[&Key::new("team", "silent")].doings(),
        "1 hit, 1 affected"
    );
}

#[test]
fn another_namespace_sees_nothing() {
    let model = Model::new(&objects(), Some("other"));
    assert_eq!(
        model,
        Model {
            zones: vec![String::new()],
            ..Model::default()
        }
    );
}

#[test]
fn text_of_objects_never_becomes_html() {
    let hostile = "<img src=x onerror=alert(1)>\"'&";
    let mut objects = objects();
    let machine = |status: &str| -> Arc<_> {
        read(json!({
            "metadata": {"name": hostile, "namespace": hostile},
            "spec": {"clusterName": hostile, "failureDomain": hostile, "version": hostile},
            "status": {"phase": status},
        }))
    };
    objects.machines.push(machine(hostile));
    objects.clusters.push(read(json!({
        "metadata": {"name": hostile, "namespace": hostile},
        "spec": {"controlPlaneEndpoint": {"host": hostile, "port": 1}}, "status": {"phase": hostile},
    })));
    objects.faults.push(read(json!({
        "metadata": {"name": hostile, "namespace": hostile}, "spec": {},
        "status": {"phase": hostile, "affected": [{"cluster": hostile}]},
    })));
    let elements = Elements::new(&Model::new(&objects, None));
    let text = html::document(&elements, &html::Frame::default(), None).into_string();
    assert!(text.contains("&lt;img") && !text.contains("<img"), "{text}");
    let inside: Vec<_> = text.match_indices("onerror").collect();
    let escaped = text.matches("&lt;img src=x onerror=alert(1)&gt;&quot;").count();
    let in_paths = text.matches("%3Cimg%20src%3Dx%20onerror%3D").count();
    assert_eq!(inside.len(), escaped + in_paths);
}
