use std::sync::Arc;

use nephele_cloud::JournalLine;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::{feed::Shown, html};

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
        scenarios: vec![read(json!({
            "metadata": metadata("story", ""), "spec": {"steps": [{"say": "it begins"}, {"pause": "1m"}]},
            "status": {"phase": "Running", "steps": [
                {"name": "step-1", "phase": "Passed", "message": "it begins"}, {"name": "step-2", "phase": "Running"}]},
        }))],
        ..Objects::default()
    }
}

fn seen(objects: &Objects, namespace: Option<&str>) -> Model {
    Model::after(&Model::default(), objects, namespace)
}

#[test]
fn a_machine_is_seen_with_its_role_stages_market_and_faults() {
    let model = seen(&objects(), None);
    let labels: Vec<_> = (model.machines.values()).map(|machine| machine.label()).collect();
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
        let model = seen(&objects, None);
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
    let model = seen(&objects(), None);
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
    let model = seen(&objects(), None);
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
    let model = seen(&objects(), Some("other"));
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
    let elements = Shown::default().after(Arc::new(objects), None).elements;
    let text = html::document(&elements, &html::Frame::default(), None).into_string();
    assert!(text.contains("&lt;img") && !text.contains("<img"), "{text}");
    let inside: Vec<_> = text.match_indices("onerror").collect();
    let escaped = text.matches("&lt;img src=x onerror=alert(1)&gt;&quot;").count();
    let in_paths = text.matches("%3Cimg%20src%3Dx%20onerror%3D").count();
    assert_eq!(inside.len(), escaped + in_paths);
}

/// What happens to an object of the first, second or third machine.
#[derive(Clone, Debug)]
enum Step {
    Machine {
        number: usize,
        phase: &'static str,
        is_control_plane: bool,
    },
    Behind {
        number: usize,
        zone: &'static str,
        is_spot: bool,
    },
    /// The Fault affects this machine from now on.
    Hit(usize),
    Record(usize),
    /// The objects of a machine are deleted.
    Gone(usize),
    /// The first cluster has these zones from now on.
    Zones(&'static [&'static str]),
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..3_usize;
    let phases = select(vec!["Running", "Pending", "Provisioned"]);
    let zones = select(vec!["", "north-1a", "north-1c"]);
    prop_oneof![
        (number.clone(), phases, any::<bool>()).prop_map(|(number, phase, is_control_plane)| Step::Machine {
            number,
            phase,
            is_control_plane
        }),
        (number.clone(), zones, any::<bool>()).prop_map(|(number, zone, is_spot)| Step::Behind {
            number,
            zone,
            is_spot
        }),
        number.clone().prop_map(Step::Hit),
        number.clone().prop_map(Step::Record),
        number.prop_map(Step::Gone),
        select(vec![&["north-1a"][..], &["north-1a", "north-1b"]]).prop_map(Step::Zones),
    ]
}

impl Step {
    /// Does it, as an API server does: a changed object gets a new version.
    fn apply(&self, version: usize, objects: &mut Objects) {
        let version = Some(format!("{version}"));
        match *self {
            Self::Machine {
                number,
                phase,
                is_control_plane,
            } => {
                let Some(machine) = objects.machines.get_mut(number).map(Arc::make_mut) else {
                    return;
                };
                machine.metadata.resource_version = version;
                machine.status.get_or_insert_default().phase = phase.to_owned();
                let labels = machine.metadata.labels.get_or_insert_default();
                labels.clear();
                if is_control_plane {
                    labels.insert("cluster.x-k8s.io/control-plane".to_owned(), String::new());
                }
            }
            Self::Behind {
                number,
                zone,
                is_spot,
            } => {
                let Some(behind) = objects.in_memory_machines.get_mut(number).map(Arc::make_mut) else {
                    return;
                };
                behind.metadata.resource_version = version;
                behind.spec.market = if is_spot { "Spot" } else { "" }.to_owned();
                behind.status.get_or_insert_default().failure_domain = zone.to_owned();
            }
            Self::Hit(number) => {
                let fault = Arc::make_mut(&mut objects.faults[0]);
                fault.metadata.resource_version = version;
                let hits = &mut fault.status.get_or_insert_default().affected;
                hits[0].machine = format!("a-{number}");
            }
            Self::Record(number) => objects.journal.push(Arc::new(JournalLine {
                sequence: objects.journal.len() as u64 + 1,
                namespace: "team".to_owned(),
                cluster: "a".to_owned(),
                name: format!("a-{number}"),
                ..JournalLine::default()
            })),
            Self::Gone(number) => {
                if number < objects.machines.len() {
                    objects.machines.remove(number);
                    objects.in_memory_machines.remove(number);
                }
            }
            Self::Zones(zones) => {
                let behind = Arc::make_mut(&mut objects.in_memory_clusters[0]);
                behind.metadata.resource_version = version;
                let zone = |name: &&str| json!({"name": name});
                let zones: Vec<_> = zones.iter().map(zone).collect();
                let status = behind.status.get_or_insert_default();
                status.failure_domains = serde_json::from_value(zones.into()).expect("zones");
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_shared_with_what_was_shown_before_is_what_would_be_made(steps in vec(step(), 1..12)) {
        let mut objects = objects();
        let mut shown = Shown::default().after(Arc::new(objects.clone()), None);
        for (number, step) in steps.into_iter().enumerate() {
            step.apply(1000 + number, &mut objects);
            shown = shown.after(Arc::new(objects.clone()), None);
            let fresh = Shown::default().after(Arc::new(objects.clone()), None);
            prop_assert_eq!(&shown.model, &fresh.model);
            prop_assert_eq!(&shown.elements, &fresh.elements);
        }
    }
}

#[test]
fn a_machine_that_has_not_changed_is_not_made_again() {
    let mut objects = objects();
    let before = Shown::default().after(Arc::new(objects.clone()), None);
    Step::Record(1).apply(1000, &mut objects);
    let now = before.after(Arc::new(objects), None);
    let shared = |number: usize| {
        let key = Key::new("team", &format!("a-{number}"));
        let id = crate::elements::machine_id(&key);
        (
            Arc::ptr_eq(&before.model.machines[&key], &now.model.machines[&key]),
            Arc::ptr_eq(&before.elements.all[&id], &now.elements.all[&id]),
        )
    };
    assert_eq!(
        [0, 1, 2].map(shared),
        [(true, true), (false, false), (true, true)]
    );
}
