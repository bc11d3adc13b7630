use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::*;
use crate::{drawer_html, model::tests::objects};

#[test]
fn a_machine_has_its_chain_its_faults_and_its_commands() {
    let drawer = Drawer::machine(&objects(), &Key::new("team", "a-1")).expect("it is there");
    let chain: Vec<_> = drawer
        .chain
        .iter()
        .map(|link| (link.kind.as_str(), link.is_there))
        .collect();
    assert_eq!(
        chain,
        [
            ("Cluster", true),
            ("Machine", true),
            ("InMemoryMachine", true),
            ("Instance", false),
            ("Node", false)
        ]
    );
    assert_eq!(
        drawer.faults,
        [("silent".to_owned(), "notReady".to_owned(), "affects it now")]
    );
    assert_eq!(
        drawer.copies[0].1,
        "kubectl get machine --namespace team a-1 --output yaml"
    );
    assert_eq!(
        drawer.copies[1].1,
        "nephele describe machine --namespace team a-1"
    );
}

#[test]
fn stages_have_their_plan_and_what_they_took() {
    let mut objects = objects();
    objects.in_memory_machines[0] = Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "a-0", "namespace": "team"},
            "spec": {
                "behaviour": {"vm": {"provisioning": {"startupDuration": "2s", "startupJitter": "0.5"}}},
                "instance": {"machine": "a-0", "origin": {
                    "startTime": "2026-03-04T05:06:00.000000Z",
                    "reached": {"vm": "2026-03-04T05:06:02.500000Z", "node": "2026-03-04T05:06:02.750000Z"}}},
            },
            "status": {"startTime": "2026-03-04T05:06:00.000000Z", "conditions": [
                {"type": "VMProvisioned", "status": "True", "reason": "Provisioned", "message": "",
                 "lastTransitionTime": "2026-03-04T05:06:02Z"},
                {"type": "NodeProvisioned", "status": "True", "reason": "Provisioned", "message": "",
                 "lastTransitionTime": "2026-03-04T05:06:02Z"}]},
        }))
        .expect("an InMemoryMachine"),
    );
    let drawer = Drawer::machine(&objects, &Key::new("team", "a-0")).expect("it is there");
    let stages: Vec<_> = drawer
        .stages
        .iter()
        .map(|stage| (stage.name, stage.planned.as_str(), stage.actual.as_str()))
        .collect();
    assert_eq!(
        stages,
        [
            ("vm", "2s + up to 50 %", "2.50 s"),
            ("node", "the cloud's latency", "0.25 s"),
            ("etcd", "the cloud's latency", "waiting"),
            ("api", "the cloud's latency", "waiting"),
        ]
    );
    assert_eq!((drawer.stages[0].least, drawer.stages[0].most), (2000, 3000));
}

#[test]
fn yaml_has_what_a_user_would_apply_and_no_record_of_the_provider() {
    let drawer = Drawer::cluster(&objects(), &Key::new("team", "a")).expect("it is there");
    let yaml = &drawer.copies.last().expect("YAML").1;
    assert!(
        yaml.contains("kind: Cluster") && yaml.contains("namespace: team"),
        "{yaml}"
    );
    assert!(
        !yaml.contains("status") && !yaml.contains("resourceVersion"),
        "{yaml}"
    );
}

#[test]
fn each_kind_has_a_drawer_and_what_is_gone_has_none() {
    let objects = objects();
    let cloud = Drawer::cloud(&objects, &Key::new("team", "north")).expect("it is there");
    assert_eq!(cloud.tables[0].2, [["instances", "2", "2", "1"]]);
    let fault = Drawer::fault(&objects, &Key::new("team", "silent")).expect("it is there");
    assert_eq!(fault.tables[0].2, [["a", "a-1", ""]]);
    let html = drawer_html::drawer(&fault, &drawer_html::Forms::default()).into_string();
    assert!(
        html.contains("id=\"drawer-title\" tabindex=\"-1\">silent<"),
        "{html}"
    );
    let absent = Key::new("team", "absent");
    assert!(Drawer::machine(&objects, &absent).is_none() && Drawer::cluster(&objects, &absent).is_none());
}

#[test]
fn a_fault_matches_the_instance_behind_a_machine_and_one_of_a_cluster_fault_is_not_deleted() {
    let mut objects = objects();
    let machine = Drawer::machine(&objects, &Key::new("team", "a-0")).expect("it is there");
    let Doable::Break { target, matched } = machine.doable else {
        panic!("{:?}", machine.doable)
    };
    let behind = |name: &str| {
        let mut all = objects.in_memory_machines.iter();
        all.any(|machine| machine.metadata.name.as_deref() == Some(name))
    };
    assert!(
        target == Target::ControlPlane && behind(&matched),
        "{target:?} {matched}"
    );
    let key = Key::new("team", "silent");
    let doable = |objects: &Objects| Drawer::fault(objects, &key).expect("it is there").doable;
    assert_eq!(doable(&objects), Doable::Heal);
    let mut fault = Fault::clone(&objects.faults[0]);
    fault.metadata.owner_references = Some(vec![OwnerReference {
        kind: "ClusterFault".to_owned(),
        name: "all".to_owned(),
        ..OwnerReference::default()
    }]);
    objects.faults = vec![Arc::new(fault)];
    assert_eq!(doable(&objects), Doable::Nothing);
}

#[test]
fn an_act_that_the_viewer_may_not_is_shown_greyed_with_the_missing_permission() {
    let fault = Drawer::fault(&objects(), &Key::new("team", "silent")).expect("it is there");
    let form = |lacks: Option<&str>| {
        let forms = drawer_html::Forms {
            token: "secret".to_owned(),
            path: "/fault/team/silent".to_owned(),
            lacks: lacks.map(str::to_owned),
        };
        drawer_html::drawer(&fault, &forms).into_string()
    };
    let allowed = form(None);
    assert!(
        allowed.contains("action=\"/act/fault/team/silent\"") && !allowed.contains("disabled"),
        "{allowed}"
    );
    let denied = form(Some("delete faults.cloud.nephele.dev in namespace team"));
    assert!(
        denied.contains(" disabled aria-describedby=\"act-lacks\"")
            && denied.contains("You may not delete faults.cloud.nephele.dev in namespace team."),
        "{denied}"
    );
}
