//! The shapes of objects in both versions.

use serde_json::{Value, json};

use super::super::convert;

const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const NEW: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const DATA: &str = "cluster.x-k8s.io/conversion-data";
const KINDS: [&str; 6] = [
    "InMemoryCluster",
    "InMemoryClusterTemplate",
    "InMemoryMachine",
    "InMemoryMachineTemplate",
    "InMemoryMachinePool",
    "InMemoryMachinePoolTemplate",
];

fn object(kind: &str, version: &str, spec: impl Into<Value>, status: impl Into<Value>) -> Value {
    let (spec, status): (Value, Value) = (spec.into(), status.into());
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": "c", "namespace": "n", "uid": "1" }, "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status;
    }
    object
}

fn cluster(version: &str, spec: Value, status: Value) -> Value {
    object("InMemoryCluster", version, spec, status)
}

fn converted(object: &Value, version: &str) -> Value {
    convert(object.clone(), version).expect("convertible")
}

/// The content of an object's annotation.
fn data(object: &Value) -> Option<Value> {
    let text = object["metadata"]["annotations"][DATA].as_str()?;
    Some(serde_json::from_str(text).expect("JSON"))
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "so",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn with(mut condition: Value, severity: &str) -> Value {
    condition["severity"] = json!(severity);
    condition
}

#[test]
fn a_cluster_has_the_shape_of_either_contract_and_no_annotation() {
    let ready = condition("Ready", "True", "Ready");
    let paused = condition("Paused", "False", "NotPaused");
    let rows = [
        (json!({}), json!({}), Value::Null, Value::Null),
        (json!({}), json!({}), json!({}), json!({})),
        (
            json!({ "controlPlaneEndpoint": { "host": "10.0.0.1", "port": 20000 } }),
            json!({ "controlPlaneEndpoint": { "host": "10.0.0.1", "port": 20000 } }),
            json!({ "initialization": { "provisioned": false } }),
            json!({ "ready": false }),
        ),
        (
            json!({ "controlPlaneEndpoint": { "host": "lb" } }),
            json!({ "controlPlaneEndpoint": { "host": "lb", "port": 0 } }),
            json!({ "initialization": { "provisioned": true } }),
            json!({ "ready": true }),
        ),
        (
            json!({ "controlPlaneEndpoint": { "port": 6443 } }),
            json!({ "controlPlaneEndpoint": { "host": "", "port": 6443 } }),
            json!({ "conditions": [ready, paused] }),
            json!({ "conditions": [ready], "v1beta2": { "conditions": [ready, paused] } }),
        ),
        (
            json!({ "failureDomains": [
                { "name": "a", "controlPlane": true, "attributes": { "region": "r" } },
                { "name": "b", "controlPlane": false },
                { "name": "c" },
            ] }),
            json!({ "failureDomains": {
                "a": { "controlPlane": true, "attributes": { "region": "r" } },
                "b": { "controlPlane": false },
                "c": {},
            } }),
            json!({ "failureDomains": [{ "name": "a", "controlPlane": true }, { "name": "b" }] }),
            json!({ "failureDomains": { "a": { "controlPlane": true }, "b": {} } }),
        ),
        (
            json!({ "network": { "controlPlaneAddressFromPool": { "apiGroup": "g", "kind": "k", "name": "n" } } }),
            json!({ "network": { "controlPlaneAddressFromPool": { "apiGroup": "g", "kind": "k", "name": "n" } } }),
            json!({ "network": { "controlPlaneAddress": { "address": "10.0.0.9", "prefix": 24 } } }),
            json!({ "network": { "controlPlaneAddress": { "address": "10.0.0.9", "prefix": 24 } } }),
        ),
    ];
    for (new_spec, old_spec, new_status, old_status) in rows {
        let new = cluster(NEW, new_spec.clone(), new_status);
        let old = cluster(OLD, old_spec.clone(), old_status);
        assert_eq!(converted(&new, OLD), old);
        assert_eq!(converted(&old, NEW), new);
        let template =
            |spec: Value| json!({ "template": { "metadata": { "labels": { "a": "b" } }, "spec": spec } });
        let new = object("InMemoryClusterTemplate", NEW, template(new_spec), Value::Null);
        let old = object("InMemoryClusterTemplate", OLD, template(old_spec), Value::Null);
        assert_eq!(converted(&new, OLD), old);
        assert_eq!(converted(&old, NEW), new);
    }
}

#[test]
fn a_machine_has_the_shape_of_either_contract_and_no_annotation() {
    let spec = json!({
        "providerID": "in-memory://m",
        "instanceType": "large",
        "network": { "addressesFromPools": [{ "apiGroup": "g", "kind": "k", "name": "n" }] },
        "behaviour": {
            "vm": { "provisioning": { "startupDuration": "10s", "startupJitter": "0.2" } }, "etcd": {},
        },
        "instance": {
            "machine": "m",
            "origin": {
                "startTime": "2026-01-01T00:00:00.123000Z", "podCIDRs": ["192.168.7.0/24"],
                "drawKey": { "set": "control-plane", "ordinal": 0 },
            },
        },
    });
    let status = json!({
        "startTime": "2026-01-01T00:00:00.123000Z",
        "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
        "network": { "addresses": [{ "address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254" }] },
        "failureDomain": "a",
    });
    let mut new = status.clone();
    let mut old = status;
    new["initialization"] = json!({ "provisioned": true });
    old["ready"] = json!(true);
    let ready = condition("Ready", "False", "NotReady");
    let node = condition("NodeProvisioned", "False", "WaitingForStartupTimeout");
    new["conditions"] = json!([ready, node]);
    old["conditions"] = json!([with(ready.clone(), "Info"), with(node.clone(), "Info")]);
    old["v1beta2"] = json!({ "conditions": [ready, node] });
    let new = object("InMemoryMachine", NEW, spec.clone(), new);
    let old = object("InMemoryMachine", OLD, spec, old);
    assert_eq!(converted(&new, OLD), old);
    assert_eq!(converted(&old, NEW), new);
}

#[test]
fn a_template_of_machines_differs_by_its_version_only() {
    let template = |version: &str| {
        object(
            "InMemoryMachineTemplate",
            version,
            json!({ "template": {
                "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
                "spec": { "behaviour": { "vm": { "provisioning": { "startupDuration": "10s" } } } },
            } }),
            json!({ "capacity": { "cpu": "4", "memory": "8Gi" }, "nodeInfo": { "architecture": "arm64" } }),
        )
    };
    assert_eq!(converted(&template(NEW), OLD), template(OLD));
    assert_eq!(converted(&template(OLD), NEW), template(NEW));
}

#[test]
fn an_old_condition_is_as_bad_as_its_reason_and_the_summary_as_the_worst() {
    let rows = [
        ("WaitingForBootstrapData", "Info", "Info"),
        ("Deleting", "Info", "Info"),
        ("PoolExhausted", "Warning", "Warning"),
        ("InternalError", "Warning", "Warning"),
        ("UnknownFailureDomain", "Error", "Error"),
    ];
    for (reason, severity, summary) in rows {
        let ready = condition("Ready", "False", "NotReady");
        let vm = condition("VMProvisioned", "False", reason);
        let node = condition("NodeProvisioned", "False", "WaitingForVMProvisioned");
        let etcd = condition("EtcdProvisioned", "Unknown", "InternalError");
        // What is usually False is no bad news.
        let [deleting, paused, updating, interruption] = ["Deleting", "Paused", "Updating", "Interruption"]
            .map(|kind| condition(kind, "False", "InternalError"));
        let status =
            json!({ "conditions": [ready, vm, node, etcd, deleting, paused, updating, interruption] });
        let old = converted(&object("InMemoryMachine", NEW, json!({}), status), OLD);
        assert_eq!(
            old["status"]["conditions"],
            json!([with(ready, summary), with(vm, severity), with(node, "Info"), etcd]),
            "{reason}"
        );
    }
    let alone = condition("Ready", "False", "NotReady");
    let old = converted(&cluster(NEW, json!({}), json!({ "conditions": [alone] })), OLD);
    assert_eq!(old["status"]["conditions"], json!([with(alone, "Warning")]));
}

#[test]
fn what_only_the_old_version_can_say_is_read_back_and_is_in_the_annotation() {
    let bare = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let rows = [
        (
            json!({ "controlPlaneEndpoint": { "host": "", "port": 0 } }),
            Value::Null,
        ),
        (
            json!({}),
            json!({ "failureReason": "UpdateError", "failureMessage": "" }),
        ),
        (json!({}), json!({ "conditions": [bare] })),
        (json!({}), json!({ "v1beta2": {} })),
        (
            json!({}),
            json!({ "conditions": [bare], "v1beta2": { "conditions": [condition("Ready", "False", "No")] } }),
        ),
    ];
    for (spec, status) in rows {
        let written = cluster(OLD, spec.clone(), status.clone());
        let stored = converted(&written, NEW);
        assert_eq!(converted(&stored, OLD), written);
        let mut expected = json!({ "apiVersion": OLD, "kind": "InMemoryCluster" });
        let (name, part) = if status.is_null() {
            ("spec", spec)
        } else {
            ("status", status)
        };
        expected[name] = part;
        assert_eq!(data(&stored), Some(expected));
    }
}

#[test]
fn what_only_the_new_version_can_say_is_read_back_and_is_in_the_annotation() {
    let unsorted = json!({ "failureDomains": [{ "name": "b" }, { "name": "a", "controlPlane": true }] });
    let new = cluster(
        NEW,
        unsorted.clone(),
        json!({ "initialization": { "provisioned": true } }),
    );
    let old = converted(&new, OLD);
    assert_eq!(
        old["spec"],
        json!({ "failureDomains": { "a": { "controlPlane": true }, "b": {} } })
    );
    assert_eq!(
        data(&old),
        Some(json!({ "apiVersion": NEW, "kind": "InMemoryCluster", "spec": unsorted }))
    );
    assert_eq!(converted(&old, NEW), new);
}

#[test]
fn a_condition_without_a_reason_has_the_one_that_cluster_api_gives_it() {
    let bare = json!({ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let stored = converted(&cluster(OLD, json!({}), json!({ "conditions": [bare] })), NEW);
    assert_eq!(
        stored["status"]["conditions"],
        json!([{
            "type": "Ready", "status": "False", "reason": "NoReasonReported", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    );
}

/// Cluster API's topology controller of the old contract applies an empty endpoint; the provider's endpoint replaces
/// it.
#[test]
fn a_change_through_the_new_version_is_seen_through_the_old_one() {
    let spec = json!({ "controlPlaneEndpoint": { "host": "", "port": 0 }, "failureDomains": { "a": {} } });
    let status = json!({ "ready": false, "failureReason": "UpdateError" });
    let mut stored = converted(&cluster(OLD, spec, status), NEW);
    stored["spec"]["controlPlaneEndpoint"] = json!({ "host": "lb", "port": 20000 });
    stored["status"]["initialization"]["provisioned"] = json!(true);
    let expected = cluster(
        OLD,
        json!({ "controlPlaneEndpoint": { "host": "lb", "port": 20000 }, "failureDomains": { "a": {} } }),
        json!({ "ready": true, "failureReason": "UpdateError" }),
    );
    assert_eq!(converted(&stored, OLD), expected);
}

#[test]
fn a_change_through_the_old_version_leaves_the_rest_as_it_was_in_the_new_one() {
    let conditions = json!([condition("Ready", "True", "Ready")]);
    let new = cluster(
        NEW,
        json!({ "failureDomains": [{ "name": "b" }, { "name": "a" }] }),
        json!({ "failureDomains": [{ "name": "b" }, { "name": "a" }], "conditions": conditions }),
    );
    let mut old = converted(&new, OLD);
    old["spec"]["controlPlaneEndpoint"] = json!({ "host": "lb", "port": 1 });
    old["status"]["ready"] = json!(true);
    let mut expected = new;
    expected["spec"]["controlPlaneEndpoint"] = json!({ "host": "lb", "port": 1 });
    expected["status"]["initialization"] = json!({ "provisioned": true });
    assert_eq!(converted(&old, NEW), expected);
}

#[test]
fn an_annotation_that_makes_no_sense_is_dropped() {
    for (version, other) in [(OLD, NEW), (NEW, OLD)] {
        for text in [
            String::new(),
            "{".to_owned(),
            "null".to_owned(),
            r#"{"spec":7}"#.to_owned(),
            json!({ "apiVersion": other, "kind": "InMemoryCluster", "spec": 7 }).to_string(),
            json!({ "apiVersion": version, "kind": "InMemoryCluster", "spec": {} }).to_string(),
            json!({ "apiVersion": other, "kind": "InMemoryMachine", "spec": {} }).to_string(),
        ] {
            let mut annotated = cluster(version, json!({}), Value::Null);
            annotated["metadata"]["annotations"] = json!({ DATA: text, "other": "kept" });
            let mut expected = cluster(other, json!({}), Value::Null);
            expected["metadata"]["annotations"] = json!({ "other": "kept" });
            assert_eq!(converted(&annotated, other), expected, "{text}");
        }
    }
}

#[test]
fn only_our_kinds_and_their_versions_are_converted() {
    for (kind, from, to) in [
        ("InMemoryDisk", NEW, OLD),
        ("InMemoryCluster", "infrastructure.cluster.x-k8s.io/v1", NEW),
        ("InMemoryCluster", NEW, "v1beta1"),
        ("InMemoryMachine", OLD, "infrastructure.cluster.x-k8s.io/v1alpha4"),
        ("InMemoryMachine", "", OLD),
        ("", NEW, NEW),
    ] {
        let error = convert(object(kind, from, json!({}), Value::Null), to).expect_err(kind);
        let text = format!("failed to convert {kind:?} of {from:?} to {to:?}: no such conversion");
        assert_eq!((error.to_string(), error.category()), (text, "UnknownVersion"));
    }
    for kind in KINDS {
        let same = object(kind, NEW, json!({ "unknown": true }), Value::Null);
        assert_eq!(converted(&same, NEW), same);
    }
}

#[test]
fn what_has_fields_of_other_types_is_refused() {
    for (from, to) in [(OLD, NEW), (NEW, OLD)] {
        for (kind, spec, status) in [
            ("InMemoryCluster", json!(7), Value::Null),
            ("InMemoryClusterTemplate", json!(7), Value::Null),
            ("InMemoryMachine", json!({}), json!(7)),
            ("InMemoryMachinePool", json!({}), json!(7)),
        ] {
            let error = convert(object(kind, from, spec, status), to).expect_err(kind);
            assert_eq!(error.category(), "Unreadable", "{kind}");
        }
    }
}

/// A conversion that fails hides all objects of the kind in a list.
#[test]
fn a_machine_whose_texts_got_past_the_schema_keeps_them() {
    let behaviour = json!({ "vm": { "provisioning": { "startupDuration": "soon", "startupJitter": 2 } } });
    let machine = json!({ "behaviour": behaviour });
    let template = json!({ "template": { "spec": machine } });
    for (from, to) in [(OLD, NEW), (NEW, OLD)] {
        for (kind, spec) in [
            ("InMemoryMachine", &machine),
            ("InMemoryMachineTemplate", &template),
            ("InMemoryMachinePool", &json!({ "template": machine })),
            ("InMemoryMachinePoolTemplate", &template),
        ] {
            let of = |version| object(kind, version, spec.clone(), Value::Null);
            assert_eq!(converted(&of(from), to), of(to), "{kind}");
        }
    }
}
