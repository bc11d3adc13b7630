use std::sync::Arc;

use nephele_api::cloud::v1alpha1::FaultSpec;
use serde_json::json;

use super::*;

fn spec() -> FaultSpec {
    serde_json::from_value(json!({ "effect": { "freeze": {} } })).expect("a spec")
}

fn cluster_fault() -> ClusterFault {
    let object =
        json!({ "metadata": { "name": "all", "generation": 3 }, "spec": { "effect": { "freeze": {} } } });
    serde_json::from_value(object).expect("a ClusterFault")
}

/// A Fault whose status describes its first generation.
fn fault(generation: i64, phase: &str, matched: i64, hits: i64) -> Arc<Fault> {
    let mut fault = Fault::new("cluster-fault-all", spec());
    fault.metadata.generation = Some(generation);
    let ready = condition(types::READY, conditions::TRUE, reasons::READY, "of the Fault");
    fault.status = Some(FaultStatus {
        phase: phase.into(),
        matched: Some(matched),
        hits: Some(hits),
        conditions: vec![Condition {
            observed_generation: Some(1),
            ..ready
        }],
        ..FaultStatus::default()
    });
    Arc::new(fault)
}

fn reported(selected: usize, standing: Vec<Arc<Fault>>, refused: &[&str]) -> ClusterFaultStatus {
    let named = |name: &&str| RefusedNamespace {
        namespace: (*name).into(),
        message: "it is full".into(),
    };
    let plan = Plan {
        selected,
        standing,
        ..Plan::default()
    };
    status(
        &cluster_fault(),
        &plan,
        None,
        refused.iter().map(named).collect(),
        Timestamp::UNIX_EPOCH,
    )
}

/// Phase, the status of `Ready`, its reason and its message.
fn told(status: &ClusterFaultStatus) -> [&str; 4] {
    let ready = &status.conditions[0];
    assert_eq!(
        (ready.type_.as_str(), ready.observed_generation),
        ("Ready", Some(3))
    );
    [&status.phase, &ready.status, &ready.reason, &ready.message]
}

#[test]
fn faults_are_added_up() {
    let status = reported(
        2,
        vec![fault(1, "Exhausted", 4, 3), fault(1, "Active", 7, 1)],
        &[],
    );
    assert_eq!(told(&status), ["Active", "True", "Ready", ""]);
    let expected = ClusterFaultStatus {
        observed_generation: Some(3),
        phase: "Active".into(),
        namespaces: Some(2),
        matched: Some(11),
        hits: Some(4),
        refused: vec![],
        conditions: status.conditions.clone(),
    };
    assert_eq!(status, expected);
}

#[test]
fn it_can_hit_while_one_of_its_faults_can() {
    for (phases, expected) in [
        (vec!["Expired", "Waiting", "Exhausted"], "Waiting"),
        (vec!["Expired", "Exhausted"], "Exhausted"),
        (vec!["Expired"], "Expired"),
        (vec![], "Waiting"),
    ] {
        let faults: Vec<_> = phases.iter().map(|phase| fault(1, phase, 1, 1)).collect();
        assert_eq!(reported(faults.len(), faults, &[]).phase, expected, "{phases:?}");
    }
}

#[test]
fn it_says_what_is_missing() {
    assert_eq!(
        told(&reported(0, vec![], &[])),
        ["Waiting", "True", "Ready", "No namespace is selected so far"]
    );
    let idle = reported(1, vec![fault(1, "Active", 0, 0)], &[]);
    assert_eq!(
        told(&idle),
        ["Active", "True", "Ready", "Nothing has matched it so far"]
    );
    // The status of one describes an earlier spec, and another one is not there yet.
    let late = reported(3, vec![fault(2, "Active", 1, 1), fault(1, "Active", 1, 1)], &[]);
    let message = "the Fault is in force in 1 of 3 namespaces";
    assert_eq!(told(&late), ["Active", "False", "NotReady", message]);
    let refused = reported(3, vec![fault(1, "Active", 1, 1)], &["b", "a"]);
    let message = "2 of 3 namespaces cannot have the Fault; the first is a: it is full";
    assert_eq!(told(&refused), ["Active", "False", "NotReady", message]);
    let names = |status: &ClusterFaultStatus| {
        status
            .refused
            .iter()
            .map(|refused| refused.namespace.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&refused), ["a", "b"]);
    let many: Vec<_> = (1000..1200).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(names(&reported(200, vec![], &many)), many[..REFUSED_MAX]);
}

#[test]
fn a_spec_that_cannot_be_used_is_invalid() {
    let invalid = reported(1, vec![fault(1, "Invalid", 0, 0)], &[]);
    assert_eq!(
        told(&invalid),
        ["Invalid", "False", "InvalidConfiguration", "of the Fault"]
    );
    let now = Timestamp::UNIX_EPOCH;
    let invalid = status(&cluster_fault(), &Plan::default(), Some("wrong"), vec![], now);
    assert_eq!(
        told(&invalid),
        ["Invalid", "False", "InvalidConfiguration", "wrong"]
    );
}
