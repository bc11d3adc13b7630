//! The controller of Scenarios on a management API in this process. The tests play the cloud and Cluster API.

mod stage;
mod work;

use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    conditions,
    core::{Cluster, Machine},
};
use nephele_testkit::objects;
use serde_json::{Value, json};
use stage::{Stage, fault, phases, scenario, status};

#[tokio::test(start_paused = true)]
async fn a_fault_is_in_force_until_it_is_healed_and_machines_are_counted() {
    let stage = Stage::start();
    stage.machine("demo", "a", "Running").await;
    stage.machine("demo", "b", "Provisioning").await;
    stage
        .scenario(&json!([
            { "name": "up", "wait": { "machines": { "cluster": "demo", "phase": "Running", "atLeast": 1 }, "within": "5s" } },
            fault("zone"),
            { "expect": { "machines": { "selector": { "matchLabels": { "cluster.x-k8s.io/cluster-name": "demo" } },
                "phase": "Running", "count": 2 }, "within": "1m" } },
            { "heal": { "fault": "zone" } },
            { "say": "Both machines are up." },
        ]))
        .await;
    let waits = |scenario: &Scenario| {
        status(scenario)
            .steps
            .get(2)
            .is_some_and(|step| step.message == "1 of 2 machines are Running, not 2; b is Provisioning")
    };
    let scenario = stage.api.eventually::<Scenario>("s", "to wait", waits).await;
    assert_eq!(
        scenario.metadata.finalizers,
        Some(vec!["scenario.cloud.nephele.dev".to_owned()])
    );
    let message = &status(&scenario).conditions[0].message;
    assert_eq!(
        message,
        "step-3: 1 of 2 machines are Running, not 2; b is Provisioning"
    );
    let fault = stage.api.get::<Fault>("s-zone").await;
    let owner = &fault.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!(
        (owner.kind.as_str(), Some(&owner.uid)),
        ("Scenario", scenario.metadata.uid.as_ref())
    );
    stage
        .api
        .patch_status::<Machine>("b", &json!({ "phase": "Running" }))
        .await;
    let scenario = stage.phase("Passed").await;
    assert_eq!(phases(&scenario), ["Passed"; 5]);
    assert!(conditions::is_true(&status(&scenario).conditions, "Passed"));
    stage.api.eventually_gone::<Fault>("s-zone").await;
    let free = |scenario: &Scenario| scenario.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    stage.api.eventually::<Scenario>("s", "to be let go", free).await;
    let told = |reason: &'static str| ["Normal".to_owned(), reason.to_owned()];
    stage.eventually_told(&[told("Said"), told("Passed")]).await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_step_says_what_was_seen_and_its_faults_are_healed() {
    let stage = Stage::start();
    let scenario = json!([
        fault("zone"),
        { "expect": { "cluster": "demo", "condition": "Available", "within": "0" } },
        { "say": "never said" },
    ]);
    stage.api.create(&objects::cluster("demo")).await;
    let condition = json!({
        "type": "Available", "status": "False", "reason": "NotAvailable", "message": "no control plane",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    stage
        .api
        .patch_status::<Cluster>("demo", &json!({ "conditions": [condition] }))
        .await;
    stage.scenario(&scenario).await;
    let scenario = stage.phase("Failed").await;
    assert_eq!(phases(&scenario), ["Passed", "Failed", "Skipped"]);
    let why = "Available of Cluster demo is False (NotAvailable: no control plane)";
    assert_eq!(status(&scenario).steps[1].message, why);
    let condition = &status(&scenario).conditions[0];
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("StepFailed", &*format!("step-2: {why}"))
    );
    stage.api.eventually_gone::<Fault>("s-zone").await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_must_never_be_seen_fails_as_soon_as_it_is_seen() {
    let stage = Stage::start();
    stage.machine("demo", "a", "Running").await;
    let failed = json!({ "machines": { "phase": "Failed", "atLeast": 1 }, "during": "1h" });
    stage.scenario(&json!([{ "never": failed }])).await;
    let looks = |scenario: &Scenario| status(scenario).steps.iter().any(|step| !step.message.is_empty());
    stage.api.eventually::<Scenario>("s", "to look", looks).await;
    stage
        .api
        .patch_status::<Machine>("a", &json!({ "phase": "Failed" }))
        .await;
    let scenario = stage.phase("Failed").await;
    assert_eq!(status(&scenario).steps[0].message, "1 of 1 machines are Failed");
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_and_versions_are_set() {
    let stage = Stage::start();
    stage
        .create(
            "cluster.x-k8s.io",
            "MachineDeployment",
            "md",
            &json!({ "replicas": 1 }),
        )
        .await;
    stage
        .create(
            "controlplane.cluster.x-k8s.io",
            "KubeadmControlPlane",
            "cp",
            &json!({ "replicas": 1 }),
        )
        .await;
    let topology = json!({
        "version": "v1.35.0", "classRef": { "name": "c" }, "controlPlane": { "replicas": 1 },
        "workers": { "machineDeployments": [{ "name": "md-0", "class": "c", "replicas": 1 }] },
    });
    stage
        .create(
            "cluster.x-k8s.io",
            "Cluster",
            "demo",
            &json!({ "topology": topology }),
        )
        .await;
    let field = |kind: &str, name: &str, group: &str| {
        json!({ "expect": { "within": "5s", "object": {
            "apiVersion": format!("{group}/v1beta2"), "kind": kind, "name": name, "field": "spec.replicas", "value": "3",
        } } })
    };
    stage
        .scenario(&json!([
            { "scale": { "kind": "MachineDeployment", "name": "md", "replicas": 3 } },
            { "scale": { "kind": "KubeadmControlPlane", "name": "cp", "replicas": 3 } },
            { "scale": { "kind": "Cluster", "name": "demo", "replicas": 5 } },
            { "scale": { "kind": "Cluster", "name": "demo", "machineDeployment": "md-0", "replicas": 0 } },
            { "upgrade": { "cluster": "demo", "version": "v1.36.3" } },
            { "pause": "100ms" },
            field("MachineDeployment", "md", "cluster.x-k8s.io"),
            field("KubeadmControlPlane", "cp", "controlplane.cluster.x-k8s.io"),
            { "scale": { "kind": "Cluster", "name": "demo", "machinePool": "none", "replicas": 1 } },
        ]))
        .await;
    let scenario = stage.phase("Failed").await;
    assert_eq!(phases(&scenario)[..8], ["Passed"; 8]);
    assert_eq!(
        status(&scenario).steps[8].message,
        "Cluster demo has no MachinePool none in spec.topology"
    );
    let cluster = stage.read("cluster.x-k8s.io", "Cluster", "demo").await;
    let expected = json!({
        "version": "v1.36.3", "classRef": { "name": "c" }, "controlPlane": { "replicas": 5 },
        "workers": { "machineDeployments": [{ "name": "md-0", "class": "c", "replicas": 0 }] },
    });
    assert_eq!(cluster.data["spec"]["topology"], expected);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_changed_and_deleted() {
    let stage = Stage::start();
    let manifest = |labels: &str, paused: bool| {
        let head = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n";
        json!(format!(
            "{head}metadata: {{name: new, labels: {labels}}}\nspec: {{paused: {paused}}}\n"
        ))
    };
    stage
        .scenario(&json!([
            { "apply": { "manifests": manifest("{a: b}", true) } },
            { "apply": { "manifests": manifest("{c: d}", false) } },
            { "pause": "1h" },
        ]))
        .await;
    let scenario = stage.steps(&["Passed", "Passed", "Running"]).await;
    assert_eq!(status(&scenario).steps[0].message, "applied Cluster new");
    let cluster = stage.api.get::<Cluster>("new").await;
    let labels: Vec<_> = cluster
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(
        (labels, cluster.spec.paused),
        (vec![("a", "b"), ("c", "d")], Some(false))
    );
    let delete = json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "new" });
    stage
        .change(&json!([{ "delete": delete }, { "delete": delete }]))
        .await;
    let scenario = stage.phase("Passed").await;
    let messages: Vec<_> = status(&scenario)
        .steps
        .into_iter()
        .map(|step| step.message)
        .collect();
    assert_eq!(messages, ["Cluster new is deleted", "there is no Cluster new"]);
    stage.api.eventually_gone::<Cluster>("new").await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clocks_are_changed_and_count_on() {
    let stage = Stage::start();
    let cloud = json!({
        "metadata": { "name": "default", "namespace": "default" },
        "spec": { "seed": "kept", "clock": { "rate": "2", "steps": 4 } },
    });
    stage
        .api
        .create(&serde_json::from_value::<SimulatedCloud>(cloud).expect("a SimulatedCloud"))
        .await;
    let clock = |change: &str| {
        let mut change: serde_json::Value = serde_json::from_str(change).expect("JSON");
        change["cloud"] = "default".into();
        json!({ "clock": change })
    };
    stage
        .scenario(&json!([
            clock(r#"{"paused": true}"#),
            { "repeat": 2, "steps": [clock(r#"{"step": 3, "jump": "30s"}"#)] },
            { "parallel": [
                { "steps": [clock(r#"{"jump": "1m"}"#)] },
                { "steps": [clock(r#"{"jump": "1h", "rate": "60"}"#)] },
            ] },
        ]))
        .await;
    let scenario = stage.phase("Passed").await;
    let message = "the clock of SimulatedCloud default: steps 10, ahead 60s";
    assert_eq!(status(&scenario).steps[2].message, message);
    let cloud = stage.api.get::<SimulatedCloud>("default").await;
    let expected = json!({ "rate": "60", "paused": true, "steps": 10, "ahead": "3720s" });
    assert_eq!(serde_json::to_value(&cloud.spec.clock).expect("JSON"), expected);
    assert_eq!(cloud.spec.seed, "kept");
    // A clock that was never changed.
    let fresh = json!({ "metadata": { "name": "fresh", "namespace": "default" }, "spec": {} });
    stage
        .api
        .create(&serde_json::from_value::<SimulatedCloud>(fresh).expect("a SimulatedCloud"))
        .await;
    let fresh = json!([{ "clock": { "cloud": "fresh", "paused": false } }, { "clock": { "cloud": "fresh", "step": 1 } }]);
    stage.change(&fresh).await;
    let of_second = |scenario: &Scenario| status(scenario).phase == "Passed" && phases(scenario).len() == 2;
    let scenario = stage
        .api
        .eventually::<Scenario>("s", "to pass again", of_second)
        .await;
    assert_eq!(
        status(&scenario).steps[1].message,
        "the clock of SimulatedCloud fresh: steps 1"
    );
    stage
        .change(&json!([{ "clock": { "cloud": "none", "step": 1 } }]))
        .await;
    let scenario = stage.phase("Failed").await;
    assert_eq!(
        status(&scenario).steps[0].message,
        "there is no SimulatedCloud none"
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_controller_continues_all_branches_and_rounds() {
    let stage = Stage::start();
    stage.machine("demo", "a", "Running").await;
    let machines =
        |count: usize| json!({ "machines": { "phase": "Running", "count": count }, "within": "1m" });
    stage
        .scenario(&json!([
            { "name": "both", "parallel": [
                { "name": "zones", "forEach": ["a", "b"], "steps": [fault("zone-$(item)"), { "expect": machines(2) }] },
                { "steps": [fault("other"), { "expect": machines(2) }, { "heal": { "fault": "other" } }] },
            ] },
            { "heal": { "fault": "zone-a" } },
        ]))
        .await;
    let running = [
        "Passed", "Running", "Pending", "Pending", "Passed", "Running", "Pending", "Pending",
    ];
    stage.steps(&running).await;
    let message = "both/zones/a/step-2: 1 of 1 machines are Running, not 2; 1 more run";
    let looks = |scenario: &Scenario| status(scenario).conditions[0].message == message;
    let before = stage
        .api
        .eventually::<Scenario>("s", "to look in both branches", looks)
        .await;
    let stage = stage.kill_and_restart().await;
    stage.machine("demo", "b", "Running").await;
    let after = stage.phase("Passed").await;
    let started = |scenario: &Scenario, index: usize| status(scenario).steps[index].started.clone();
    for index in [0, 1, 4, 5] {
        assert_eq!(started(&after, index), started(&before, index));
    }
    for name in ["s-zone-a", "s-zone-b", "s-other"] {
        stage.api.eventually_gone::<Fault>(name).await;
    }
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named() {
    let stage = Stage::forbidding(|method, path| method == "POST" && path.ends_with("/faults"));
    stage.scenario(&json!([fault("zone")])).await;
    let message = status(&stage.phase("Failed").await).steps[0].message.clone();
    assert!(
        message.contains("the manager may not create faults.cloud.nephele.dev"),
        "{message}"
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_scenario_may_not_read_it_does_not_show() {
    let stage = Stage::start();
    stage
        .scenario(&json!([{ "expect": { "within": "0", "object": {
        "apiVersion": "v1", "kind": "Secret", "name": "demo-ca", "field": "data", "value": "",
    } } }]))
        .await;
    let scenario = stage.phase("Failed").await;
    let condition = &status(&scenario).conditions[0];
    assert_eq!(condition.reason, "InvalidConfiguration");
    assert!(
        condition
            .message
            .starts_with("spec.steps[0].expect.object.apiVersion: \"v1\""),
        "{condition:?}"
    );
    // A kind of a right group that has no namespace.
    stage.change(&json!([{ "expect": { "within": "0", "object": {
        "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "CloudExtensionConfig", "name": "a", "field": "spec", "value": "",
    } } }])).await;
    let of_second = |scenario: &Scenario| status(scenario).steps.iter().any(|step| step.phase == "Failed");
    let scenario = stage
        .api
        .eventually::<Scenario>("s", "to fail again", of_second)
        .await;
    let message = &status(&scenario).steps[0].message;
    assert!(
        message.contains("has no namespace; a scenario acts in its own namespace only"),
        "{message}"
    );
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_scenario_heals_its_faults() {
    let stage = Stage::start();
    stage.api.create(&serde_json::from_value::<Fault>(json!({
        "metadata": { "name": "other", "namespace": "default" }, "spec": { "effect": { "freeze": {} } },
    })).expect("a Fault")).await;
    stage.scenario(&json!([fault("zone"), { "pause": "1h" }])).await;
    stage.steps(&["Passed", "Running"]).await;
    stage.api.delete::<Scenario>("s").await;
    stage.api.eventually_gone::<Scenario>("s").await;
    stage.api.eventually_gone::<Fault>("s-zone").await;
    stage.api.get::<Fault>("other").await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_scenario_begins_again_and_a_finished_one_does_not() {
    let stage = Stage::start();
    stage.scenario(&json!([fault("zone"), { "pause": "1h" }])).await;
    stage.steps(&["Passed", "Running"]).await;
    stage.change(&json!([{ "say": "something else" }])).await;
    let scenario = stage.phase("Passed").await;
    assert_eq!(
        (phases(&scenario), status(&scenario).observed_generation),
        (vec!["Passed".to_owned()], Some(2))
    );
    stage.api.eventually_gone::<Fault>("s-zone").await;
    let free = |scenario: &Scenario| scenario.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let before = stage.api.eventually::<Scenario>("s", "to be let go", free).await;
    let stage = stage.restart().await;
    drop(stage.api.take_writes());
    // Something that runs after the new controller has seen the finished one.
    stage.scenario_called("later", &json!([{ "pause": "1ms" }])).await;
    let passed = |scenario: &Scenario| status(scenario).phase == "Passed";
    stage.api.eventually::<Scenario>("later", "to pass", passed).await;
    assert!(stage.api.take_writes().iter().all(|write| write.name != "s"));
    assert_eq!(stage.api.get::<Scenario>("s").await, before);
    stage.stop().await;
}

/// The request of an earlier process may arrive as late as this.
#[tokio::test(start_paused = true)]
async fn a_fault_that_comes_after_its_scenario_is_over_is_deleted() {
    let stage = Stage::start();
    stage.scenario(&json!([{ "say": "nothing more" }])).await;
    stage.phase("Passed").await;
    let free = |scenario: &Scenario| scenario.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let over = stage.api.eventually::<Scenario>("s", "to be let go", free).await;
    let fault = |name: &str, uid: Option<&String>| {
        let owner = json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "Scenario", "name": "s", "uid": uid, "controller": true,
        });
        let metadata = json!({ "name": name, "namespace": "default", "ownerReferences": [owner] });
        let spec = json!({ "effect": { "notReady": {} } });
        let fault = json!({ "metadata": metadata, "spec": spec });
        serde_json::from_value::<Fault>(fault).expect("a Fault")
    };
    stage.api.create(&fault("late", over.metadata.uid.as_ref())).await;
    stage.api.eventually_gone::<Fault>("late").await;
    assert_eq!(stage.api.get::<Scenario>("s").await.status, over.status);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_controller_continues_where_the_old_one_was_killed() {
    let stage = Stage::start();
    stage.machine("demo", "a", "Running").await;
    stage
        .scenario(&json!([
            fault("zone"),
            { "expect": { "machines": { "phase": "Running", "count": 2 }, "within": "1m" } },
            { "heal": { "fault": "zone" } },
        ]))
        .await;
    let before = stage.steps(&["Passed", "Running", "Pending"]).await;
    let stage = stage.kill_and_restart().await;
    stage.machine("demo", "b", "Running").await;
    let after = stage.phase("Passed").await;
    let started = |scenario: &Scenario| {
        status(scenario)
            .steps
            .iter()
            .take(2)
            .map(|step| step.started.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(started(&after), started(&before));
    stage.api.eventually_gone::<Fault>("s-zone").await;
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_scenario_waits() {
    let stage = Stage::start();
    let mut scenario = stage::scenario("s", &json!([{ "say": "hello" }]));
    objects::annotate(&mut scenario, "cluster.x-k8s.io/paused", "");
    stage.api.create(&scenario).await;
    // Something that runs after the paused one was seen.
    stage.scenario_called("later", &json!([{ "pause": "1ms" }])).await;
    let passed = |scenario: &Scenario| status(scenario).phase == "Passed";
    stage.api.eventually::<Scenario>("later", "to pass", passed).await;
    let said = status(&stage.api.get::<Scenario>("s").await);
    let conditions: Vec<_> = said
        .conditions
        .iter()
        .map(|said| (&*said.type_, &*said.status))
        .collect();
    assert_eq!((conditions, said.steps.len()), (vec![("Paused", "True")], 0));
    let unpaused = json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": null } } });
    stage.api.patch::<Scenario>("s", &unpaused).await;
    stage.phase("Passed").await;
    stage.stop().await;
}

/// No step continues, and a Fault whose time is over ends, also after a restart.
#[tokio::test(start_paused = true)]
async fn a_fault_of_a_paused_scenario_ends_on_time() {
    let stage = Stage::start();
    let mut brief = fault("zone");
    brief["fault"]["for"] = json!("10m");
    stage
        .scenario(&json!([brief, { "pause": "1m" }, fault("later")]))
        .await;
    stage.steps(&["Passed", "Running", "Pending"]).await;
    let annotations =
        |value: Value| json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": value } } });
    stage.api.patch::<Scenario>("s", &annotations(json!(""))).await;
    let is_paused = |scenario: &Scenario| {
        status(scenario)
            .conditions
            .iter()
            .any(|said| said.type_ == "Paused")
    };
    let before = stage
        .api
        .eventually::<Scenario>("s", "to be paused", is_paused)
        .await;
    let stage = stage.kill_and_restart().await;
    tokio::time::sleep(std::time::Duration::from_secs(500)).await;
    stage.api.get::<Fault>("s-zone").await;
    tokio::time::sleep(std::time::Duration::from_secs(150)).await;
    stage.api.eventually_gone::<Fault>("s-zone").await;
    assert_eq!(
        status(&stage.api.get::<Scenario>("s").await),
        status(&before),
        "nothing was written"
    );
    stage.api.patch::<Scenario>("s", &annotations(Value::Null)).await;
    let passed = stage.phase("Passed").await;
    let conditions = status(&passed).conditions;
    let paused = conditions
        .iter()
        .find(|said| said.type_ == "Paused")
        .map(|said| said.status.clone());
    assert_eq!(paused.as_deref(), Some("False"));
    stage.stop().await;
}

/// A manager with a watch filter does not see a Fault without its label.
#[tokio::test(start_paused = true)]
async fn a_fault_belongs_to_the_manager_of_its_scenario() {
    let stage = Stage::start();
    let mut scenario = stage::scenario("s", &json!([fault("zone"), { "pause": "1h" }]));
    objects::label(&mut scenario, "cluster.x-k8s.io/watch-filter", "second");
    stage.api.create(&scenario).await;
    stage.steps(&["Passed", "Running"]).await;
    let labels = stage
        .api
        .get::<Fault>("s-zone")
        .await
        .metadata
        .labels
        .unwrap_or_default();
    assert_eq!(
        labels.get("cluster.x-k8s.io/watch-filter").map(String::as_str),
        Some("second")
    );
    stage.stop().await;
}

/// Those that run are the same ones after a restart.
#[tokio::test(start_paused = true)]
async fn twenty_scenarios_of_a_namespace_run_and_the_others_wait_for_their_end() {
    let stage = Stage::start();
    let name = |number: usize| format!("s{number:02}");
    for number in 0..23 {
        stage
            .scenario_called(&name(number), &json!([{ "pause": "1h" }]))
            .await;
    }
    let is_at = |phase: &'static str| move |scenario: &Scenario| status(scenario).phase == phase;
    for number in 0..20 {
        stage
            .api
            .eventually::<Scenario>(&name(number), "to run", is_at("Running"))
            .await;
    }
    let stage = stage.kill_and_restart().await;
    for number in 20..23 {
        let waiting = stage
            .api
            .eventually::<Scenario>(&name(number), "to wait", is_at("Pending"))
            .await;
        let condition = &status(&waiting).conditions[0];
        assert_eq!(
            (condition.reason.as_str(), condition.status.as_str()),
            ("TooManyRun", "Unknown")
        );
        assert_eq!(
            condition.message,
            "20 scenarios of the namespace run, which is the most at once"
        );
    }
    // One is over, one is deleted.
    let now = json!({ "spec": { "steps": [{ "say": "enough" }] } });
    stage.api.patch::<Scenario>(&name(3), &now).await;
    stage
        .api
        .eventually::<Scenario>(&name(3), "to pass", is_at("Passed"))
        .await;
    stage
        .api
        .eventually::<Scenario>(&name(20), "to run", is_at("Running"))
        .await;
    stage.api.delete::<Scenario>(&name(4)).await;
    stage
        .api
        .eventually::<Scenario>(&name(21), "to run", is_at("Running"))
        .await;
    assert_eq!(
        status(&stage.api.get::<Scenario>(&name(22)).await).phase,
        "Pending"
    );
    stage.stop().await;
}

/// A look that was not made is a gap, whatever the reason.
#[tokio::test(start_paused = true)]
async fn a_pause_is_a_gap_between_looks() {
    let stage = Stage::start();
    stage.machine("demo", "a", "Running").await;
    let failed = json!({ "machines": { "phase": "Failed", "atLeast": 1 }, "during": "1m" });
    stage.scenario(&json!([{ "never": failed }])).await;
    let looks = |scenario: &Scenario| status(scenario).steps.iter().any(|step| step.looked.is_some());
    stage.api.eventually::<Scenario>("s", "to look", looks).await;
    let paused = |value: serde_json::Value| json!({ "metadata": { "annotations": { "cluster.x-k8s.io/paused": value } } });
    stage.api.patch::<Scenario>("s", &paused(json!(""))).await;
    tokio::time::sleep(std::time::Duration::from_secs(90)).await;
    stage.api.patch::<Scenario>("s", &paused(json!(null))).await;
    let message = status(&stage.phase("Failed").await).steps[0].message.clone();
    assert!(
        message.starts_with("not looked at from ") && message.ends_with("; a is Running"),
        "{message}"
    );
    stage.stop().await;
}

/// Waits until a scenario says that it is invalid. Returns why.
async fn invalid(stage: &Stage, name: &str) -> String {
    stage
        .api
        .eventually_says::<Scenario>(name, "Passed", "InvalidConfiguration")
        .await
}

#[tokio::test(start_paused = true)]
async fn a_scenario_that_cannot_be_read_has_failed_and_hides_no_other() {
    let stage = Stage::start();
    let wrong = json!({ "steps": [{ "say": "hello" }, { "say": 3 }] });
    stage.api.create_shapeless::<Scenario>("watched", &wrong).await;
    stage
        .api
        .create_shapeless::<Fault>("watched", &json!({ "effect": "fail" }))
        .await;
    stage.scenario(&json!([{ "say": "all is well" }])).await;
    stage.phase("Passed").await;
    // A step is read with what all steps have, so its own fields have no path.
    let said = "spec.steps[1]: invalid type: integer `3`, expected a string";
    assert_eq!(invalid(&stage, "watched").await, said);
    let api = stage.stop().await;
    api.create_shapeless::<Scenario>("listed", &wrong).await;
    let client = api.client();
    let stage = Stage::over(api, client);
    stage
        .scenario_called("other", &json!([{ "say": "all is well" }]))
        .await;
    let passed = |scenario: &Scenario| status(scenario).phase == "Passed";
    stage.api.eventually::<Scenario>("other", "to pass", passed).await;
    assert_eq!(invalid(&stage, "listed").await, said);
    stage.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_scenario_that_needs_cluster_api_itself_says_so_beside_a_stand_in() {
    let stage = Stage::start();
    let mut scenario = scenario("s", &json!([{ "say": "hello" }]));
    let needs = (
        "cloud.nephele.dev/needs-cluster-api".to_owned(),
        "hooks before an upgrade".to_owned(),
    );
    scenario.metadata.annotations = Some([needs].into());
    stage.api.create(&scenario).await;
    let said = "the scenario needs hooks before an upgrade, which the stand-in for Cluster API does not have";
    assert_eq!(invalid(&stage, "s").await, said);
    stage.stop().await;
}
