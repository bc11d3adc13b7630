use std::sync::Arc;

use nephele_api::core::Cluster;
use serde_json::{Value, json};

use super::*;
use crate::model::tests::objects;

fn line(sequence: u64, kind: &str, name: &str, more: &Value) -> Arc<JournalLine> {
    let mut line = json!({
        "sequence": sequence, "time": "2026-03-04T05:06:07Z", "namespace": "team", "cluster": "a", "kind": kind, "name": name,
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        line[field] = value.clone();
    }
    Arc::new(serde_json::from_value(line).expect("a record"))
}

fn operation(operation: &str, outcome: &str) -> Value {
    json!({"operation": operation, "outcome": outcome, "caller": "machine"})
}

fn reached(stage: &str) -> Value {
    json!({"event": "StageReached", "message": stage})
}

/// A row in one line: what it is, both sides, and why they differ.
fn told(rows: &[Row]) -> Vec<String> {
    let row = |row: &Row| {
        let causes: Vec<_> = row.causes.iter().map(|cause| cause.says.as_str()).collect();
        format!(
            "{} {} | {} | {} | {}",
            row.kind,
            row.name,
            row.cloud,
            row.seen,
            causes.join("; ")
        )
    };
    rows.iter().map(row).collect()
}

fn observed(journal: Vec<Arc<JournalLine>>) -> Observed {
    let objects = Objects { journal, ..objects() };
    Observed::new(&objects, Some("team"))
}

#[test]
fn what_is_as_it_is_seen_agrees_and_what_leaked_does_not() {
    let observed = observed(vec![
        line(
            1,
            "LoadBalancer",
            "a",
            &operation("CreateLoadBalancer", "Accepted"),
        ),
        line(2, "Machine", "a-0", &operation("CreateInstance", "Accepted")),
        line(3, "Machine", "a-0", &reached("node")),
        line(4, "Machine", "a-1", &operation("CreateInstance", "Accepted")),
        line(5, "Machine", "a-2", &operation("CreateInstance", "QuotaExceeded")),
    ]);
    assert_eq!(
        told(&observed.agreeing),
        [
            "load balancer a | 1 of 1 backends in service | Cluster Available | ",
            "control plane a-0 | instance running | Machine Running | ",
            "worker a-1 | instance starting | Machine Provisioning | Fault silent: notReady",
            "worker a-2 | no instance | Machine Pending | The cloud answered CreateInstance with QuotaExceeded",
        ]
    );
    assert_eq!(
        told(&observed.differing),
        ["leak instance old | exists, a, zone north-1b | nothing | Fault leak: leak"]
    );
    assert!(observed.has_journal);
}

#[test]
fn an_instance_that_vanished_differs_until_cluster_api_sees_it() {
    let observed = observed(vec![
        line(1, "Machine", "a-0", &operation("CreateInstance", "Accepted")),
        line(2, "Machine", "a-0", &reached("node")),
        line(3, "Machine", "a-0", &json!({"event": "Deleted"})),
    ]);
    let machines: Vec<_> = told(&observed.differing)
        .into_iter()
        .filter(|row| row.contains("a-0"))
        .collect();
    assert_eq!(
        machines,
        ["control plane a-0 | no instance | Machine Running | Cluster API has not looked since"]
    );
}

#[test]
fn a_refused_deletion_says_which_fault_refuses_it() {
    let mut objects = objects();
    let machine = Arc::make_mut(&mut objects.machines[0]);
    machine.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-03-04T05:06:08Z")).expect("a time"));
    let refused =
        json!({"operation": "DeleteInstance", "outcome": "Unavailable", "faults": ["stuck"], "hit": true});
    objects.journal = vec![
        line(1, "Machine", "a-0", &reached("node")),
        line(2, "Machine", "a-0", &refused),
    ];
    let observed = Observed::new(&objects, None);
    let row = observed
        .differing
        .iter()
        .find(|row| row.name == "team/a-0")
        .expect("it differs");
    let cause = Cause {
        says: "The cloud answered DeleteInstance with Unavailable, by Fault stuck".into(),
        href: Some("/fault/team/stuck".into()),
    };
    assert_eq!((&*row.cloud, &row.causes), ("instance running", &vec![cause]));
    objects.journal.push(line(
        3,
        "Machine",
        "a-0",
        &operation("DeleteInstance", "Accepted"),
    ));
    let observed = Observed::new(&objects, None);
    let row = observed
        .agreeing
        .iter()
        .find(|row| row.name == "team/a-0")
        .expect("it agrees");
    assert_eq!((&*row.cloud, row.causes.len()), ("instance deleting", 0));
}

#[test]
fn a_load_balancer_agrees_with_a_control_plane_whose_workers_wait() {
    let mut objects = objects();
    let mut cluster = Cluster::clone(&objects.clusters[0]);
    let conditions = json!([
        {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "workers wait",
         "lastTransitionTime": "2026-03-04T05:06:07Z"},
        {"type": "ControlPlaneAvailable", "status": "True", "reason": "Available", "message": "",
         "lastTransitionTime": "2026-03-04T05:06:07Z"},
    ]);
    cluster.status.get_or_insert_default().conditions =
        serde_json::from_value(conditions).expect("conditions");
    objects.clusters[0] = Arc::new(cluster);
    let observed = Observed::new(&objects, None);
    let seen = observed.agreeing.iter().find(|row| row.kind == BALANCER);
    assert_eq!(seen.map(|row| row.seen.as_str()), Some("Control plane Available"));
}

#[test]
fn other_namespaces_are_not_shown_and_rows_are_counted() {
    let objects = objects();
    assert_eq!(Observed::new(&objects, Some("other")), Observed::default());
    let mut many = objects.clone();
    many.machines = (0..400)
        .map(|number| {
            let mut machine = Machine::clone(&objects.machines[0]);
            machine.metadata.name = Some(format!("m-{number}"));
            Arc::new(machine)
        })
        .collect();
    let observed = Observed::new(&many, None);
    let shown = observed.differing.len() + observed.agreeing.len();
    let all = shown + observed.differing_left_out + observed.agreeing_left_out;
    // The load balancer, the leak, and two InMemoryMachines without a Machine.
    assert_eq!((all, observed.agreeing.len() <= ROWS_MAX), (404, true));
}
