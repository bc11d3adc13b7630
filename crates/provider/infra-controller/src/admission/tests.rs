use serde_json::json;

use super::*;

/// A template with this `spec.template.spec` and these annotations.
fn template(spec: &Value, annotations: &Value) -> Value {
    json!({"metadata": {"name": "workers", "annotations": annotations}, "spec": {"template": {"spec": spec}}})
}

fn update(old: Value, new: Value) -> AdmissionRequest<Value> {
    AdmissionRequest {
        name: "workers".to_owned(),
        namespace: Some("default".to_owned()),
        user: "alice".to_owned(),
        dry_run: false,
        change: Change::Update { old, new },
    }
}

/// The code and the message of the denial, if it is one.
fn told(request: &AdmissionRequest<Value>) -> Option<(i32, String)> {
    let decision = decide(TemplateKind::Machine, request);
    decision
        .err()
        .map(|denial| (denial.code(), denial.message().to_owned()))
}

#[test]
fn a_changed_spec_is_refused_with_the_field_and_what_to_do() {
    let spec = |seconds: &str| json!({"behaviour": {"vm": {"provisioning": {"startupDuration": seconds}}}});
    let asked = update(
        template(&spec("1s"), &json!({})),
        template(&spec("2s"), &json!({})),
    );
    let message = "InMemoryMachineTemplate.infrastructure.cluster.x-k8s.io \"workers\" is invalid: \
                   spec.template.spec.behaviour.vm.provisioning.startupDuration: is immutable: \
                   make a template of another name with the change, and refer to that";
    assert_eq!(told(&asked), Some((422, message.to_owned())));
}

/// Cluster API, util/topology/topology_test.go: both the dry run and the annotation of the new object are needed.
#[test]
fn only_a_dry_run_of_the_topology_controller_may_change_a_spec() {
    let marked = json!({"topology.cluster.x-k8s.io/dry-run": ""});
    for (dry_run, old_annotations, new_annotations, allowed) in [
        (false, json!({}), json!({}), false),
        (true, json!({}), json!({}), false),
        (false, json!({}), marked.clone(), false),
        (true, json!({}), marked.clone(), true),
        (true, marked, json!({}), false),
    ] {
        for kind in TemplateKind::ALL {
            let old = template(&json!({"a": 1}), &old_annotations);
            let new = template(&json!({"a": 2}), &new_annotations);
            let request = AdmissionRequest {
                dry_run,
                ..update(old, new)
            };
            assert_eq!(
                decide(kind, &request).is_ok(),
                allowed,
                "{kind:?} {dry_run} {request:?}"
            );
        }
    }
}

#[test]
fn what_is_not_the_spec_may_change_and_templates_come_and_go() {
    let spec = json!({"a": 1});
    let mut new = template(&spec, &json!({"other": "x"}));
    new["metadata"]["ownerReferences"] = json!([{"kind": "Cluster", "name": "c"}]);
    new["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
    let old = template(&spec, &json!({}));
    assert_eq!(told(&update(old.clone(), new)), None);
    for change in [Change::Create(old.clone()), Change::Delete(old.clone())] {
        assert_eq!(
            told(&AdmissionRequest {
                change,
                ..update(Value::Null, Value::Null)
            }),
            None
        );
    }
}

#[test]
fn a_denial_names_a_few_fields_and_no_more() {
    let spec = |value: u8| -> Value {
        (0..100)
            .map(|index| (format!("f{index:02}"), json!(value)))
            .collect()
    };
    let (_, message) = told(&update(
        template(&spec(1), &json!({})),
        template(&spec(2), &json!({})),
    ))
    .expect("refused");
    assert_eq!(message.matches("is immutable").count(), FIELDS_MAX, "{message}");
}
