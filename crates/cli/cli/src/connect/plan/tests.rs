use serde_json::{Value, json};

use super::*;

fn id(text: &str) -> ClusterId {
    ClusterId::parse(text, "default")
}

fn backend(uid: &str, port: u16) -> Backend {
    Backend {
        uid: uid.to_owned(),
        host: "nephele-workload.nephele-system.svc".to_owned(),
        port,
    }
}

fn reachable(names: &[(&str, u16)]) -> BTreeMap<ClusterId, Observed> {
    names
        .iter()
        .map(|(name, port)| (id(name), Observed::Reachable(backend(name, *port))))
        .collect()
}

fn current(names: &[(&str, u16, &str)]) -> BTreeMap<ClusterId, Current> {
    let one = |(name, port, label): &(&str, u16, &str)| {
        (
            id(name),
            Current {
                backend: backend(name, *port),
                label: (*label).to_owned(),
            },
        )
    };
    names.iter().map(one).collect()
}

fn opening(name: &str, port: u16, label: &str) -> Opening {
    Opening {
        id: id(name),
        backend: backend(name, port),
        label: label.to_owned(),
    }
}

fn named(names: &[&str]) -> Selection {
    Selection::Named(names.iter().map(|name| id(name)).collect())
}

#[test]
fn clusters_that_come_are_opened_and_those_that_go_are_closed() {
    let observed = reachable(&[("stays", 20_000), ("team/comes", 20_001)]);
    let current = current(&[
        ("stays", 20_000, "default-stays"),
        ("goes", 20_002, "default-goes"),
    ]);
    let expected = Plan {
        close: vec![id("goes")],
        open: vec![opening("team/comes", 20_001, "team-comes")],
        waiting: BTreeMap::new(),
    };
    assert_eq!(plan(&Selection::All, &observed, &current), expected);
}

#[test]
fn new_cluster_of_the_same_name_is_opened_again() {
    let observed = BTreeMap::from([(id("demo"), Observed::Reachable(backend("other", 20_000)))]);
    let plan = plan(
        &Selection::All,
        &observed,
        &current(&[("demo", 20_000, "default-demo")]),
    );
    assert_eq!(plan.close, [id("demo")]);
    assert_eq!(plan.open.len(), 1);
    assert_eq!(plan.open[0].label, "default-demo");
}

#[test]
fn named_clusters_wait_for_what_is_missing() {
    let mut observed = reachable(&[("up", 20_000), ("unasked", 20_001)]);
    observed.insert(id("young"), Observed::Starting);
    observed.insert(id("docker"), Observed::NotOurs);
    let plan = plan(
        &named(&["up", "young", "docker", "none"]),
        &observed,
        &BTreeMap::new(),
    );
    assert_eq!(plan.open, [opening("up", 20_000, "default-up")]);
    let waiting = [
        (id("docker"), Waiting::NotOurs),
        (id("none"), Waiting::Missing),
        (id("young"), Waiting::Starting),
    ];
    assert_eq!(plan.waiting, BTreeMap::from(waiting));
}

#[test]
fn of_all_clusters_those_of_other_providers_are_not_meant() {
    let observed = BTreeMap::from([
        (id("docker"), Observed::NotOurs),
        (id("young"), Observed::Starting),
    ]);
    let plan = plan(&Selection::All, &observed, &BTreeMap::new());
    assert_eq!(plan.waiting, BTreeMap::from([(id("young"), Waiting::Starting)]));
}

#[test]
fn no_two_forwards_have_the_same_label() {
    let observed = reachable(&[("a/b-c", 1), ("a-b/c", 2)]);
    let labels = |current: &_| -> Vec<_> {
        plan(&Selection::All, &observed, current)
            .open
            .into_iter()
            .map(|opening| opening.label)
            .collect()
    };
    assert_eq!(labels(&BTreeMap::new()), ["a-b-c", "a-b_c"]);
    assert_eq!(labels(&current(&[("a-b/c", 2, "a-b-c")])), ["a_b-c"]);
}

fn observe(spec: &Value) -> Observed {
    let object = json!({"metadata": {"name": "demo", "uid": "1"}, "spec": spec});
    Observed::of(&serde_json::from_value(object).expect("a Cluster"))
}

#[test]
fn cluster_is_reachable_once_it_has_an_endpoint() {
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InMemoryCluster", "name": "demo"});
    let endpoint = json!({"host": "h", "port": 20_000});
    let expected = Backend {
        uid: "1".into(),
        host: "h".into(),
        port: 20_000,
    };
    let both = json!({"infrastructureRef": reference, "controlPlaneEndpoint": endpoint});
    assert_eq!(observe(&both), Observed::Reachable(expected));
    assert_eq!(
        observe(&json!({"infrastructureRef": reference})),
        Observed::Starting
    );
    assert_eq!(observe(&json!({})), Observed::Starting);
    let other =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster", "name": "demo"});
    assert_eq!(
        observe(&json!({"infrastructureRef": other, "controlPlaneEndpoint": endpoint})),
        Observed::NotOurs
    );
}
