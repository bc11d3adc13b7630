//! The controller of ClusterFaults against a management API in this process.

mod stage;

use kube::{ResourceExt as _, api::DeleteParams};
use nephele_api::cloud::{
    CLUSTER_FAULT_LABEL,
    v1alpha1::{ClusterFaultStatus, Fault},
};
use nephele_model::FaultEffect;
use serde_json::json;

use crate::stage::{Stage, everywhere};

const FAULT: &str = "cluster-fault-all";

fn of_workshop() -> serde_json::Value {
    json!({ "matchLabels": { "workshop": "true" } })
}

fn has(namespaces: i64) -> impl Fn(&ClusterFaultStatus) -> bool {
    move |status| status.namespaces == Some(namespaces)
}

#[tokio::test(start_paused = true)]
async fn selected_namespaces_have_the_fault_and_others_do_not() {
    let stage = Stage::start();
    for (name, label) in [("a", "true"), ("b", "true"), ("c", "false")] {
        stage.namespace(name, &json!({ "workshop": label })).await;
    }
    stage.cluster_fault("all", &of_workshop(), "Throttled").await;
    stage.until("two namespaces to have it", has(2)).await;
    assert_eq!(stage.namespaces_with(FAULT).await, ["a", "b"]);
    let fault = stage.fault("a", FAULT).await.expect("it is there");
    assert_eq!(reason(&fault), "Throttled");
    assert_eq!(fault.metadata.labels.expect("labels")[CLUSTER_FAULT_LABEL], "all");

    // A namespace gets the label, one loses it, and one is new.
    stage.label("c", "true").await;
    stage.label("a", "false").await;
    stage.namespace("d", &json!({ "workshop": "true" })).await;
    stage.until_namespaces_with(FAULT, &["b", "c", "d"]).await;

    // Another spec reaches all of them.
    stage.cluster_fault("all", &of_workshop(), "Timeout").await;
    for namespace in ["b", "c", "d"] {
        stage
            .until_fault(namespace, FAULT, |fault| reason(fault) == "Timeout")
            .await;
    }
    stage
        .until("the Faults in force", |status| {
            status.phase == "Active" && status.hits == Some(3)
        })
        .await;
    stage.delete("all").await;
    stage.until_namespaces_with(FAULT, &[]).await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_does_to_the_fault_is_reverted() {
    let stage = Stage::start();
    stage.namespace("a", &json!({ "workshop": "true" })).await;
    stage.cluster_fault("all", &of_workshop(), "Throttled").await;
    let made = stage.until_fault("a", FAULT, |_| true).await;
    let edit = json!({
        "metadata": { "labels": { CLUSTER_FAULT_LABEL: null, "mine": "" } },
        "spec": { "effect": { "fail": { "reason": "Timeout" } } },
    });
    stage.edit("a", FAULT, &edit).await;
    let restored = stage
        .until_fault("a", FAULT, |fault| {
            reason(fault) == "Throttled" && fault.labels().contains_key(CLUSTER_FAULT_LABEL)
        })
        .await;
    assert_eq!(
        (restored.uid(), restored.labels().contains_key("mine")),
        (made.uid(), true)
    );
    stage
        .faults("a")
        .delete(FAULT, &DeleteParams::default())
        .await
        .expect("it is there");
    stage
        .until_fault("a", FAULT, |fault| fault.uid() != made.uid())
        .await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_another_owner_is_left_alone_and_named() {
    let stage = Stage::start();
    for name in ["a", "b"] {
        stage.namespace(name, &json!({ "workshop": "true" })).await;
    }
    let foreign = stage.own_fault("a", FAULT).await;
    stage.cluster_fault("all", &of_workshop(), "Throttled").await;
    let status = stage
        .until("the name to be taken", |status| status.refused.len() == 1)
        .await;
    assert_eq!(status.refused[0].namespace, "a");
    assert_eq!(
        stage.fault("a", FAULT).await.map(|fault| fault.spec),
        Some(foreign.spec)
    );
    stage
        .faults("a")
        .delete(FAULT, &DeleteParams::default())
        .await
        .expect("it is there");
    let status = stage.until("two namespaces to have it", has(2)).await;
    assert_eq!(status.refused, []);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_refuses_the_fault_is_named() {
    let stage =
        Stage::forbidding(|method, path| method == "POST" && path.ends_with("/namespaces/full/faults"));
    for name in ["full", "other"] {
        stage.namespace(name, &json!({ "workshop": "true" })).await;
    }
    stage.cluster_fault("all", &of_workshop(), "Throttled").await;
    let status = stage
        .until("a refusal", |status| {
            status.refused.len() == 1 && status.namespaces == Some(1)
        })
        .await;
    assert_eq!(status.refused[0].namespace, "full");
    assert_eq!(stage.namespaces_with(FAULT).await, ["other"]);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn faults_that_another_provider_carries_out_are_left_to_it() {
    let stage = Stage::start();
    stage.namespace("a", &json!({})).await;
    let effect = json!({ "addresses": { "exhausted": {} } });
    stage.put("addresses", &json!({ "effect": effect })).await;
    stage.cluster_fault("all", &everywhere(), "Throttled").await;
    stage.until_fault("a", FAULT, |_| true).await;
    assert_eq!(stage.namespaces_with("cluster-fault-addresses").await, [""; 0]);
    stage.stop().await;
}

fn reason(fault: &Fault) -> String {
    match &fault.spec.effect {
        Some(FaultEffect::Fail(fail)) => fail.reason.as_str().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Its Faults are objects of their own, and stay.
#[tokio::test(start_paused = true)]
async fn a_paused_cluster_fault_makes_and_changes_no_fault() {
    let stage = Stage::start();
    stage.namespace("a", &json!({ "workshop": "true" })).await;
    stage.cluster_fault("all", &of_workshop(), "Throttled").await;
    let before = stage
        .until("the Fault in force", |status| status.hits == Some(1))
        .await;
    stage.pause("all", true).await;
    let says = |value: &'static str| {
        move |status: &ClusterFaultStatus| {
            let conditions = &status.conditions;
            conditions
                .iter()
                .any(|said| said.type_ == "Paused" && said.status == value)
        }
    };
    let paused = stage.until("the pause", says("True")).await;
    stage.cluster_fault("all", &of_workshop(), "Timeout").await;
    stage.namespace("b", &json!({ "workshop": "true" })).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(stage.namespaces_with(FAULT).await, ["a"]);
    assert_eq!(
        reason(&stage.fault("a", FAULT).await.expect("it is there")),
        "Throttled"
    );
    assert_eq!(stage.until("the same", |_| true).await, paused);
    let conditions = paused
        .conditions
        .iter()
        .filter(|said| said.type_ != "Paused")
        .cloned()
        .collect();
    assert_eq!(
        ClusterFaultStatus { conditions, ..paused },
        before,
        "only the pause was written"
    );

    stage.pause("all", false).await;
    stage.until_namespaces_with(FAULT, &["a", "b"]).await;
    stage.until("the end of the pause", says("False")).await;
    stage.stop().await;
}
