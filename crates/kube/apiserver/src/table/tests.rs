use std::sync::Arc;

use super::*;
use crate::{
    registry::{PrinterColumn, Registry},
    store::GroupResource,
};

const NOW: &str = "2026-03-04T05:06:07Z";
const CREATED: &str = "2026-03-04T04:00:00Z";

fn kind(group: &str, plural: &str) -> Arc<ResourceType> {
    Arc::clone(
        Registry::kubernetes()
            .get(&GroupResource::new(group, plural))
            .unwrap(),
    )
}

fn table(kind: &ResourceType, mut object: Value) -> Value {
    if object["metadata"]["creationTimestamp"].is_null() {
        object["metadata"]["creationTimestamp"] = CREATED.into();
    }
    render(
        kind,
        [object].into_iter(),
        &json!({"resourceVersion": "7"}),
        IncludeObject::None,
        std::convert::identity,
        NOW.parse().unwrap(),
    )
}

/// Headings with the cells under them; those of the wide view in brackets.
fn row(group: &str, plural: &str, object: Value) -> Value {
    let table = table(&kind(group, plural), object);
    let names = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let name = column["name"].as_str().unwrap();
            if column["priority"] == 0 {
                name.to_owned()
            } else {
                format!("[{name}]")
            }
        });
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(names.len(), cells.len());
    names.zip(cells).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn node_shows_status_roles_version_and_addresses() {
    let node = json!({
        "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "a"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
                   "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                   "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Nephele", "architecture": "amd64",
                                "kernelVersion": "6.12"}}});
    assert_eq!(
        row("", "nodes", node),
        json!({"Name": "n1", "Status": "Ready,SchedulingDisabled", "Roles": "a,control-plane", "Age": "66m",
               "Version": "v1.36.3", "[Internal-IP]": "10.0.0.1", "[External-IP]": "<none>", "[OS-Image]": "Nephele",
               "[Kernel-Version]": "6.12 (amd64)", "[Container-Runtime]": "<unknown>"})
    );
    let bare = row("", "nodes", json!({"metadata": {"name": "n2"}}));
    assert_eq!(
        (&bare["Status"], &bare["Roles"]),
        (&json!("Unknown"), &json!("<none>"))
    );
}

fn pod_row(spec: &Value, status: &Value) -> [String; 3] {
    let row = row(
        "",
        "pods",
        json!({"metadata": {"name": "p"}, "spec": spec, "status": status}),
    );
    ["Ready", "Status", "Restarts"].map(|column| row[column].as_str().unwrap().to_owned())
}

#[test]
fn pod_shows_the_summary_of_its_containers() {
    let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
    let one = json!({"containers": [{"name": "a"}]});
    let pod = |status: Value| pod_row(&one, &status);
    assert_eq!(
        pod(json!({"phase": "Running", "containerStatuses": [running]})),
        ["1/1", "Running", "0"]
    );
    assert_eq!(pod(json!({"phase": "Pending"})), ["0/1", "Pending", "0"]);
    assert_eq!(
        pod(
            json!({"phase": "Running", "containerStatuses": [{"restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2026-03-04T05:05:07Z"}}}]})
        ),
        ["0/1", "CrashLoopBackOff", "3 (60s ago)"]
    );
    assert_eq!(
        pod(json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]})),
        ["0/1", "ExitCode:2", "0"]
    );
    assert_eq!(
        pod(json!({"phase": "Failed", "reason": "Evicted"})),
        ["0/1", "Evicted", "0"]
    );
    assert_eq!(
        pod_row(
            &json!({"containers": [{}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]}),
            &json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]})
        ),
        ["0/2", "Init:0/2", "0"]
    );
    assert_eq!(
        pod_row(
            &json!({"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}),
            &json!({"phase": "Running", "containerStatuses": [running],
                   "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1}]})
        ),
        ["2/2", "Running", "1"]
    );
}

#[test]
fn pod_that_is_deleted_is_terminating_and_one_that_ended_is_marked() {
    let pod = json!({"metadata": {"name": "p", "deletionTimestamp": NOW}, "status": {"phase": "Running"}});
    assert_eq!(row("", "pods", pod)["Status"], "Terminating");
    let ended = table(
        &kind("", "pods"),
        json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}),
    );
    assert_eq!(ended["rows"][0]["conditions"][0]["reason"], "Succeeded");
}

#[test]
fn service_shows_addresses_and_ports() {
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "clusterIP": "10.96.0.9",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        "selector": {"b": "2", "a": "1"}}});
    assert_eq!(
        row("", "services", service),
        json!({"Name": "web", "Type": "NodePort", "Cluster-IP": "10.96.0.9", "External-IP": "<none>",
               "Port(s)": "80:30080/TCP,53/UDP", "Age": "66m", "[Selector]": "a=1,b=2"})
    );
    let balancer = json!({"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer"}});
    assert_eq!(row("", "services", balancer)["External-IP"], "<pending>");
}

#[test]
fn workloads_show_counts_containers_and_selectors() {
    let spec = json!({"selector": {"matchLabels": {"k8s-app": "x"},
                                   "matchExpressions": [{"key": "e", "operator": "In", "values": ["b", "a"]}]},
                      "template": {"spec": {"nodeSelector": {"os": "linux"},
                                            "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}]}}});
    let object = |status: Value| json!({"metadata": {"name": "w"}, "spec": spec, "status": status});
    assert_eq!(
        row(
            "apps",
            "deployments",
            object(json!({"readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}))
        ),
        json!({"Name": "w", "Ready": "1/1", "Up-to-date": 1, "Available": 1, "Age": "66m", "[Containers]": "a,b",
               "[Images]": "i:1,i:2", "[Selector]": "e in (a,b),k8s-app=x"})
    );
    assert_eq!(
        row(
            "apps",
            "daemonsets",
            object(json!({"desiredNumberScheduled": 3, "numberReady": 2}))
        ),
        json!({"Name": "w", "Desired": 3, "Current": 0, "Ready": 2, "Up-to-date": 0, "Available": 0,
               "Node Selector": "os=linux", "Age": "66m", "[Containers]": "a,b", "[Images]": "i:1,i:2",
               "[Selector]": "e in (a,b),k8s-app=x"})
    );
}

#[test]
fn event_begins_with_when_it_was_seen() {
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Machine", "name": "m"}, "reason": "Up",
                       "type": "Normal", "message": " is up\n", "eventTime": "2026-03-04T05:06:00.000000Z",
                       "reportingComponent": "nephele", "reportingInstance": "n-0"});
    let shown = row("", "events", event);
    assert_eq!(
        shown,
        json!({"Last Seen": "7s", "Type": "Normal", "Reason": "Up", "Object": "machine/m", "[Subobject]": "",
               "[Source]": "nephele, n-0", "Message": "is up", "[First Seen]": "7s", "[Count]": 1, "[Name]": "e"})
    );
    let renamed = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Machine", "name": "m"}, "reason": "Up",
                         "type": "Normal", "note": " is up\n", "eventTime": "2026-03-04T05:06:00.000000Z",
                         "reportingController": "nephele", "reportingInstance": "n-0"});
    assert_eq!(row("events.k8s.io", "events", renamed), shown);
}

#[test]
fn configuration_and_leases_show_what_they_hold() {
    let named = |object: Value| {
        let mut object = object;
        object["metadata"] = json!({"name": "x"});
        object
    };
    assert_eq!(
        row(
            "",
            "configmaps",
            named(json!({"data": {"a": ""}, "binaryData": {"b": ""}}))
        ),
        json!({"Name": "x", "Data": 2, "Age": "66m"})
    );
    assert_eq!(
        row(
            "",
            "secrets",
            named(json!({"type": "t", "data": {"a": "", "b": ""}}))
        ),
        json!({"Name": "x", "Type": "t", "Data": 2, "Age": "66m"})
    );
    assert_eq!(
        row(
            "coordination.k8s.io",
            "leases",
            named(json!({"spec": {"holderIdentity": "h"}}))
        ),
        json!({"Name": "x", "Holder": "h", "Age": "66m"})
    );
    assert_eq!(
        row("", "serviceaccounts", named(json!({}))),
        json!({"Name": "x", "Age": "66m"})
    );
    assert_eq!(
        row("", "namespaces", named(json!({"status": {"phase": "Active"}}))),
        json!({"Name": "x", "Status": "Active", "Age": "66m"})
    );
    // Roles have no printer of their own on a real server either.
    assert_eq!(
        row("rbac.authorization.k8s.io", "roles", named(json!({}))),
        json!({"Name": "x", "Created At": CREATED})
    );
}

#[test]
fn every_kind_shows_any_object_without_panic() {
    for kind in Registry::kubernetes().types() {
        for object in [
            json!({"metadata": {"name": "x"}}),
            json!({"metadata": {"name": "x"}, "spec": 1, "status": []}),
        ] {
            let table = table(kind, object);
            let columns = &table["columnDefinitions"];
            let cells = &table["rows"][0]["cells"];
            assert_eq!(
                columns.as_array().unwrap().len(),
                cells.as_array().unwrap().len(),
                "{}",
                kind.kind
            );
        }
    }
}

fn custom(columns: &[(&str, &str, &str)]) -> ResourceType {
    let columns = columns.iter().map(|(name, kind, path)| PrinterColumn {
        name: (*name).to_owned(),
        kind: (*kind).to_owned(),
        json_path: (*path).to_owned(),
        ..PrinterColumn::default()
    });
    ResourceType {
        columns: columns.collect(),
        custom: true,
        ..(*kind("", "configmaps")).clone()
    }
}

#[test]
fn custom_kind_shows_the_columns_of_its_definition() {
    let machines = custom(&[
        (
            "Ready",
            "string",
            r#".status.conditions[?(@.type=="Ready")].status"#,
        ),
        ("Replicas", "integer", ".spec.replicas"),
        ("Paused", "boolean", ".spec.paused"),
        ("Load", "number", ".spec.load"),
        ("Labels", "string", ".metadata.labels"),
        ("Port", "string", ".spec.port"),
        ("Since", "date", ".metadata.creationTimestamp"),
        ("Gone", "date", ".metadata.deletionTimestamp"),
    ]);
    let object = json!({"metadata": {"name": "m", "labels": {"a": "b"}},
        "spec": {"replicas": 3, "paused": "yes", "load": 1, "port": 6443},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(
        table(&machines, object)["rows"][0]["cells"],
        json!(["m", "True", 3, null, 1.0, "{\"a\":\"b\"}", "6443", "66m", null])
    );
}

#[test]
fn custom_kind_without_columns_shows_its_age() {
    let table = table(&custom(&[]), json!({"metadata": {"name": "m"}}));
    assert_eq!(table["rows"], json!([{"cells": ["m", "66m"]}]));
    assert_eq!(table["columnDefinitions"][1]["name"], "Age");
}

#[test]
fn row_carries_as_much_of_the_object_as_was_asked_for() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}});
    let carried = |include| {
        let table = render(
            &kind("", "configmaps"),
            std::iter::once(object.clone()),
            &json!({}),
            include,
            std::convert::identity,
            NOW.parse().unwrap(),
        );
        table["rows"][0].get("object").cloned()
    };
    assert_eq!(carried(IncludeObject::parse(Some("None"))), None);
    assert_eq!(
        carried(IncludeObject::parse(Some("Object"))),
        Some(object.clone())
    );
    let metadata =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "c"}});
    assert_eq!(carried(IncludeObject::parse(None)), Some(metadata));
}
