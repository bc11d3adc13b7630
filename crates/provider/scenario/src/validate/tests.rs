use std::path::Path;

use nephele_api::cloud::v1alpha1::Scenario;
use nephele_yaml::{Bounds, Dialect};
use serde_json::{Value, json};

use super::*;

fn read(steps: &Value) -> Valid<Script> {
    let spec: ScenarioSpec = serde_json::from_value(json!({ "steps": steps })).expect("a spec");
    let script = validate("demo", &spec)?;
    script
        .steps
        .iter()
        .try_for_each(|step| check_manifests("default", step))?;
    Ok(script)
}

fn fault(name: &str) -> Value {
    json!({ "fault": { "name": name, "spec": { "effect": { "freeze": {} } } } })
}

#[test]
fn steps_have_names_numbers_and_one_action_each() {
    let script = read(&json!([
        { "name": "up", "wait": { "cluster": "demo", "condition": "Available", "within": "3m" } },
        fault("zone"),
        { "expect": { "machines": { "cluster": "demo", "count": 3, "phase": "Running",
            "selector": { "matchLabels": { "a": "b" } } }, "within": "0" } },
        { "never": { "object": { "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "name": "cp", "field": "status.replicas", "value": "0" }, "during": "1m30s" } },
        { "heal": { "fault": "zone" } },
        { "scale": { "kind": "KubeadmControlPlane", "name": "cp", "replicas": 5 } },
        { "scale": { "kind": "Cluster", "name": "demo", "machineDeployment": "md-0", "replicas": 2 } },
        { "upgrade": { "cluster": "demo", "version": "v1.36.3" } },
        { "pause": "10s" },
        { "say": "hello" },
    ]))
    .expect("valid");
    let names: Vec<_> = script
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.after.as_slice()))
        .collect();
    assert_eq!(
        names[..3],
        [("up", [].as_slice()), ("step-2", &[0]), ("step-3", &[1])]
    );
    let actions: Vec<_> = script.steps.into_iter().map(|step| step.action).collect();
    let minutes = |number: u64| Duration::from_secs(60 * number);
    let sight = Sight::Cluster {
        name: "demo".into(),
        condition: "Available".into(),
        status: "True".into(),
    };
    assert_eq!(
        actions[0],
        Action::Expect {
            sight,
            within: minutes(3)
        }
    );
    assert!(matches!(&actions[1], Action::Fault { name, lasts: None, .. } if name == "demo-zone"));
    let Action::Expect {
        sight:
            Sight::Machines {
                selector,
                phase,
                wanted,
                ..
            },
        ..
    } = &actions[2]
    else {
        panic!("machines are expected: {:?}", actions[2]);
    };
    assert_eq!(
        (selector.to_string().as_str(), phase.as_deref(), *wanted),
        ("a=b", Some("Running"), Wanted::Exactly(3))
    );
    assert!(matches!(&actions[3], Action::Never { during, .. } if *during == Duration::from_secs(90)));
    assert_eq!(
        actions[4],
        Action::Heal {
            fault: "demo-zone".into()
        }
    );
    let kind = GroupVersionKind::gvk(CONTROL_PLANE_GROUP, "v1beta2", "KubeadmControlPlane");
    assert_eq!(
        actions[5],
        Action::Change(Change::Replicas {
            kind,
            name: "cp".into(),
            replicas: 5
        })
    );
    let part = Part::MachineDeployment("md-0".into());
    assert_eq!(
        actions[6],
        Action::Change(Change::TopologyReplicas {
            cluster: "demo".into(),
            part,
            replicas: 2
        })
    );
    assert_eq!(
        actions[8..],
        [
            Action::Pause(Duration::from_secs(10)),
            Action::Say("hello".into())
        ]
    );
}

#[test]
fn a_mistake_names_the_field_and_what_would_be_right() {
    let within = |mut sight: Value| {
        sight["within"] = "1s".into();
        json!([{ "wait": sight }])
    };
    let object = |version: &str| {
        within(
            json!({ "object": { "apiVersion": version, "kind": "Secret", "name": "a", "field": "data.a", "value": "" } }),
        )
    };
    let long = |step: Value| Value::from(vec![step; 101]);
    let cases = [
        (
            json!([]),
            "spec.steps: must be 1 to 100 steps, with those of each branch and each round, not 0",
        ),
        (
            long(json!({ "pause": "1s" })),
            "spec.steps: must be 1 to 100 steps, with those of each branch and each round, not 101",
        ),
        (
            json!([{ "say": "a" }, {}]),
            "spec.steps[1]: must have an action, such as wait or fault",
        ),
        (
            json!([{ "say": "a", "pause": "1s" }]),
            "spec.steps[0]: must have one action and not 2; make steps of them",
        ),
        (
            json!([{ "pause": "5x" }]),
            "spec.steps[0].pause: \"5x\" must be a duration such as 300ms, 20s or 1m30s",
        ),
        (
            json!([{ "wait": { "cluster": "a", "condition": "Available" } }]),
            "spec.steps[0].wait.within: \"\" must be a duration such as 300ms, 20s or 1m30s",
        ),
        (
            within(json!({})),
            "spec.steps[0].wait: must have one of cluster, machines and object",
        ),
        (
            within(json!({ "cluster": "a", "condition": "b", "machines": { "count": 1 } })),
            "spec.steps[0].wait: must have one of cluster, machines and object",
        ),
        (
            within(json!({ "cluster": "a" })),
            "spec.steps[0].wait.condition: must be a condition of the Cluster, such as Available",
        ),
        (
            within(json!({ "machines": {} })),
            "spec.steps[0].wait.machines: must have one of count, atLeast and atMost",
        ),
        (
            within(json!({ "machines": { "count": -1 } })),
            "spec.steps[0].wait.machines.count: -1 must be 0 or more",
        ),
        (
            within(json!({ "machines": { "count": 1, "phase": "running" } })),
            "spec.steps[0].wait.machines.phase: \"running\" must be one of Pending, Provisioning, Provisioned, Running, \
             Updating, Deleting, Deleted, Failed, Unknown",
        ),
        (
            json!([fault("a"), fault("a")]),
            "spec.steps[1].fault.name: \"a\" must be another name; an earlier step has a Fault of this one",
        ),
        (
            json!([{ "repeat": 2, "steps": [fault("a")] }]),
            "spec.steps[0].steps[0].fault.name: \"a\" must be another name; an earlier step has a Fault of this one; \
             $(index) in it is the number of the round",
        ),
        (
            json!([{ "parallel": [{ "steps": [fault("a")] }, { "steps": [fault("a")] }] }]),
            "spec.steps[0].parallel[1].steps[0].fault.name: \"a\" must be another name; an earlier step has a Fault of this one",
        ),
        (
            json!([{ "forEach": ["a b"], "steps": [fault("of-$(item)")] }]),
            "spec.steps[0].steps[0].fault.name: \"of-a b\" must be 1 to 63 of a-z, 0-9 and -, with no - at its ends",
        ),
        (
            json!([{ "parallel": [{ "steps": [fault("a")] }, { "steps": [{ "heal": { "fault": "a" } }] }] }]),
            "spec.steps[0].parallel[1].steps[0].heal.fault: \"a\" must be the name of a Fault of an earlier step",
        ),
        (
            json!([{ "forEach": ["1m", "soon"], "steps": [{ "pause": "$(item)" }] }]),
            "spec.steps[0].steps[0].pause: \"soon\" must be a duration such as 300ms, 20s or 1m30s",
        ),
        (
            json!([{ "clock": { "cloud": "a" } }]),
            "spec.steps[0].clock: must have one of rate, paused, step and jump",
        ),
        (
            json!([{ "clock": { "paused": true } }]),
            "spec.steps[0].clock.cloud: \"\" must be a name: 1 to 253 of a-z, 0-9, - and .",
        ),
        (
            json!([{ "clock": { "cloud": "a", "rate": "1e3" } }]),
            "spec.steps[0].clock.rate: \"1e3\" must be a decimal number from 0.01 to 1000",
        ),
        (
            json!([{ "clock": { "cloud": "a", "step": 1001 } }]),
            "spec.steps[0].clock.step: 1001 must be 1 to 1000",
        ),
        (
            json!([{ "clock": { "cloud": "a", "jump": "-1s" } }]),
            "spec.steps[0].clock.jump: \"-1s\" must not be negative",
        ),
        (
            json!([{ "heal": { "fault": "a" } }, fault("a")]),
            "spec.steps[0].heal.fault: \"a\" must be the name of a Fault of an earlier step",
        ),
        (
            json!([{ "scale": { "kind": "MachineDeployment", "name": "a", "machinePool": "b" } }]),
            "spec.steps[0].scale: must have the kind Cluster to have machineDeployment or machinePool",
        ),
        (
            json!([{ "scale": { "kind": "Deployment", "name": "a" } }]),
            "spec.steps[0].scale.kind: \"Deployment\" must be MachineDeployment, KubeadmControlPlane, MachinePool or Cluster",
        ),
    ];
    for (steps, message) in cases {
        assert_eq!(read(&steps).expect_err(message).to_string(), message);
    }
    for (kind, version, expected) in [
        (
            "Secret",
            "v1",
            "spec.steps[0].apply.manifests: document 1: \"v1\" with kind \"Secret\" must be of one of",
        ),
        (
            "Role",
            "rbac.authorization.k8s.io/v1",
            "spec.steps[0].apply.manifests: document 1: \"rbac",
        ),
        (
            "Scenario",
            "cloud.nephele.dev/v1alpha1",
            "spec.steps[0].apply.manifests: document 1: a scenario must not act on a Scenario",
        ),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n");
        let message = read(&json!([{ "apply": { "manifests": text } }]))
            .expect_err(expected)
            .to_string();
        assert!(message.starts_with(expected), "{message}");
        let step = json!([{ "delete": { "apiVersion": version, "kind": kind, "name": "a" } }]);
        let message = read(&step).expect_err(expected).to_string();
        assert!(
            message.starts_with("spec.steps[0].delete.apiVersion: "),
            "{message}"
        );
    }
    for version in [
        "v1",
        "apps/v1",
        "rbac.authorization.k8s.io/v1",
        "cluster.x-k8s.io",
    ] {
        let message = read(&object(version)).expect_err(version).to_string();
        assert!(
            message.starts_with("spec.steps[0].wait.object.apiVersion: "),
            "{message}"
        );
        assert!(
            message.contains("must be of one of the groups cluster.x-k8s.io, "),
            "{message}"
        );
    }
    let spec = serde_json::from_value(json!({ "steps": [fault("a")] })).expect("a spec");
    let message = validate(&"a".repeat(253), &spec)
        .expect_err("too long")
        .to_string();
    assert!(
        message.ends_with("which is longer than 253 characters"),
        "{message}"
    );
}

#[test]
fn as_many_brackets_as_fit_are_refused_in_words() {
    let message = read(&json!([{ "apply": { "manifests": "[".repeat(65536) } }]))
        .expect_err("no YAML")
        .to_string();
    assert!(
        message.starts_with("spec.steps[0].apply.manifests: document 1 must be YAML: "),
        "{message}"
    );
    assert!(message.len() < 600 && !message.contains('\n'), "{message}");
}

#[test]
fn a_wrong_selector_is_told() {
    for selector in [
        json!("a=b"),
        json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] }),
    ] {
        let steps =
            json!([{ "expect": { "machines": { "selector": selector, "count": 1 }, "within": "1s" } }]);
        let message = read(&steps).expect_err("wrong").to_string();
        assert!(
            message.starts_with("spec.steps[0].expect.machines.selector: "),
            "{message}"
        );
    }
}

/// A Fault of any branch can be healed after the branches, and each round has its own.
#[test]
fn faults_of_branches_and_rounds_are_healed_by_later_steps() {
    let heal = |name: &str| json!({ "heal": { "fault": name } });
    let script = read(&json!([
        { "parallel": [
            { "forEach": ["a", "b"], "steps": [fault("zone-$(item)"), heal("zone-$(item)")] },
            { "steps": [fault("other")] },
        ] },
        { "repeat": 2, "steps": [fault("round-$(index)")] },
        heal("other"),
        heal("round-1"),
    ]))
    .expect("valid");
    let names: Vec<_> = script.fault_names().collect();
    let expected = [
        "demo-zone-a",
        "demo-zone-b",
        "demo-other",
        "demo-round-1",
        "demo-round-2",
    ];
    assert_eq!(names, expected);
}

/// The scenarios that users start with.
#[test]
fn the_scenarios_of_the_library_are_valid_and_have_no_unknown_field() {
    let config = Path::new("../../../config");
    let library = std::fs::read_dir(config.join("scenarios")).expect("a folder");
    let files = library
        .map(|entry| entry.expect("a folder").path().join("scenario.yaml"))
        .chain([config.join("samples/scenario.yaml")]);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text");
        let bounds = Bounds {
            text: text.len(),
            memory: usize::MAX,
            depth: 64,
            dialect: Dialect::Strict,
        };
        let written = nephele_yaml::read_one(&text, &bounds).expect("YAML");
        let object: Scenario = serde_json::from_value(written.clone()).expect("a Scenario");
        let name = object.metadata.name.clone().expect("a name");
        validate(&name, &object.spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_value(&object).expect("JSON"), written, "{name}");
    }
}

/// The texts of an action that become parts of paths.
fn in_paths(action: &Action) -> Vec<String> {
    let of_kind =
        |kind: &GroupVersionKind, name: &String| vec![kind.group.clone(), kind.version.clone(), name.clone()];
    match action {
        Action::Expect { sight, .. } | Action::Never { sight, .. } => match sight {
            Sight::Cluster { name, .. } => vec![name.clone()],
            Sight::Machines { .. } => vec![],
            Sight::Field { kind, name, .. } => of_kind(kind, name),
        },
        Action::Fault { name, .. } | Action::Heal { fault: name } => vec![name.clone()],
        Action::Clock(change) => vec![change.cloud.clone()],
        Action::Change(change) => match change {
            Change::Replicas { kind, name, .. } | Change::Delete { kind, name } => of_kind(kind, name),
            Change::TopologyReplicas { cluster, .. } | Change::Version { cluster, .. } => {
                vec![cluster.clone()]
            }
            Change::Apply { manifests, .. } => {
                let manifests = manifests::read(manifests, "default", readable).expect("they were checked");
                manifests
                    .iter()
                    .flat_map(|manifest| of_kind(&manifest.kind, &manifest.name))
                    .collect()
            }
        },
        Action::Pause(_) | Action::Say(_) => vec![],
    }
}

/// A step of each action that reads or changes an object.
fn acting() -> Value {
    let object = json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m" });
    let mut seen = object.clone();
    seen["field"] = "spec.version".into();
    seen["value"] = "v1.36.3".into();
    json!([
        fault("zone"),
        { "wait": { "cluster": "demo", "condition": "Available", "status": "True", "within": "3m" } },
        { "expect": { "object": seen, "within": "0" } },
        { "never": { "machines": { "cluster": "demo", "count": 3, "phase": "Running",
            "selector": { "matchLabels": { "a": "b" } } }, "during": "1s" } },
        { "clock": { "cloud": "default", "rate": "2" } },
        { "scale": { "kind": "KubeadmControlPlane", "name": "cp", "replicas": 5 } },
        { "scale": { "kind": "Cluster", "name": "demo", "machinePool": "mp-0", "replicas": 2 } },
        { "upgrade": { "cluster": "demo", "version": "v1.36.3" } },
        { "apply": { "manifests": "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: NAME}\n" } },
        { "delete": object },
        { "heal": { "fault": "zone" } },
    ])
}

/// Each text of each step in turn is hostile: written as it is, or as the value of a round.
#[test]
fn no_text_of_a_step_is_a_part_of_a_path_unless_it_is_a_name() {
    let steps = acting();
    let mut refused = 0;
    for place in nephele_testkit::texts_of(&steps) {
        for text in nephele_testkit::hostile_texts() {
            let inner = |text: &str| match place.ends_with("/manifests") {
                true => steps
                    .pointer(&place)
                    .and_then(Value::as_str)
                    .expect("a text")
                    .replace("NAME", &format!("{text:?}")),
                false => text.to_owned(),
            };
            let plain = nephele_testkit::with_text(&steps, &place, &inner(&text));
            let variable = nephele_testkit::with_text(&steps, &place, &inner("$(item)"));
            let rounds = json!([{ "forEach": [text], "steps": variable }]);
            for steps in [plain, rounds] {
                match read(&steps) {
                    Err(mistake) => {
                        refused += 1;
                        let message = mistake.to_string();
                        assert!(message.len() < 1024, "{place}: {} bytes", message.len());
                    }
                    Ok(script) => {
                        for part in script.steps.iter().flat_map(|step| in_paths(&step.action)) {
                            assert!(is_dns_subdomain(&part), "{place}: {part:?} of {steps}");
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 500, "only {refused} were refused");
}
