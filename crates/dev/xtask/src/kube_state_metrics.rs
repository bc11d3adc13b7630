//! The configuration of kube-state-metrics for our kinds, and the role it needs; generated from the definitions.
//!
//! The names are the same as for Cluster API's own kinds (`core/config/metrics`), so that its dashboards also show our
//! kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Paths in the repository. A release has these files too.
pub(crate) const FILES: [&str; 2] = [
    "config/metrics/crd-metrics-config.yaml",
    "config/metrics/crd-clusterrole.yaml",
];

/// Paths within the repository and their content. `header` opens each file.
pub(crate) fn generated(header: &str) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let [configuration_file, role_file] = FILES;
    let files = [(configuration_file, configuration()), (role_file, role())];
    let written = files.into_iter().map(|(path, value)| {
        let text = serde_yaml_ng::to_string(&value).with_context(|| format!("failed to write {path}"))?;
        Ok((path.into(), format!("{header}{text}")))
    });
    written.collect()
}

/// The configuration: all kinds with a status, which templates do not have.
fn configuration() -> Value {
    let resources: Vec<Value> = shown().iter().map(resource).collect();
    json!({ "kind": "CustomResourceStateMetrics", "spec": { "resources": resources } })
}

/// The role that kube-state-metrics needs for our kinds. Its own role aggregates roles with this label.
fn role() -> Value {
    let mut plurals: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for definition in shown() {
        plurals
            .entry(definition.spec.group)
            .or_default()
            .insert(definition.spec.names.plural);
    }
    let rules: Vec<Value> = plurals
        .into_iter()
        .map(|(group, resources)| {
            json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"] })
        })
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "nephele-kube-state-metrics",
            "labels": { "kube-state-metrics/aggregate-to-manager": "true" },
        },
        "rules": rules,
    })
}

fn shown() -> Vec<CustomResourceDefinition> {
    let all = nephele_api::crds().into_iter();
    all.filter(|definition| !definition.spec.names.kind.ends_with("Template"))
        .collect()
}

fn resource(definition: &CustomResourceDefinition) -> Value {
    let kind = &definition.spec.names.kind;
    let version = definition.spec.versions.iter().find(|version| version.storage);
    let version = &version.expect("a version is stored").name;
    let mut labels = json!({ "name": ["metadata", "name"], "uid": ["metadata", "uid"] });
    if definition.spec.scope == "Namespaced" {
        labels["namespace"] = json!(["metadata", "namespace"]);
        labels["cluster_name"] = json!(["metadata", "labels", "cluster.x-k8s.io/cluster-name"]);
    }
    let metrics: Vec<Value> = common(kind).into_iter().chain(of_kind(kind)).collect();
    json!({
        "groupVersionKind": { "group": definition.spec.group, "version": version, "kind": kind },
        "metricNamePrefix": format!("capi_{}", kind.to_lowercase()),
        "labelsFromPath": labels,
        "metrics": metrics,
    })
}

/// The metrics of every kind.
fn common(kind: &str) -> Vec<Value> {
    let paused = ["metadata", "annotations", "cluster.x-k8s.io/paused"];
    let condition_labels = json!({ "type": ["type"], "status": ["status"] });
    vec![
        gauge(
            "created",
            "The creation time, in seconds since 1970.",
            &["metadata", "creationTimestamp"],
        ),
        list(
            "annotation_paused",
            &format!("Whether an annotation pauses this {kind}."),
            &paused,
            &[("paused_value", &[])],
        ),
        list(
            "owner",
            "The owners of the object.",
            &["metadata", "ownerReferences"],
            &[
                ("owner_is_controller", &["controller"]),
                ("owner_kind", &["kind"]),
                ("owner_name", &["name"]),
                ("owner_uid", &["uid"]),
            ],
        ),
        json!({
            "name": "status_condition",
            "help": format!("The conditions of this {kind}."),
            "each": { "type": "StateSet", "stateSet": {
                "path": ["status", "conditions"],
                "labelsFromPath": { "type": ["type"] },
                "labelName": "status",
                "list": ["True", "False", "Unknown"],
                "valueFrom": ["status"],
            } },
        }),
        json!({
            "name": "status_condition_last_transition_time",
            "help": format!("The last transition times of the conditions of this {kind}, in seconds since 1970."),
            "each": { "type": "Gauge", "gauge": {
                "path": ["status", "conditions"],
                "labelsFromPath": condition_labels,
                "valueFrom": ["lastTransitionTime"],
            } },
        }),
    ]
}

/// The metrics of one kind only.
fn of_kind(kind: &str) -> Vec<Value> {
    match kind {
        "InMemoryCluster" => of_cluster(),
        "InMemoryMachine" => of_machine(),
        "InMemoryMachinePool" => of_machine_pool(),
        "CloudExtensionConfig" => vec![info(&[
            ("service_name", &["spec", "clientConfig", "service", "name"]),
            (
                "service_namespace",
                &["spec", "clientConfig", "service", "namespace"],
            ),
            ("url", &["spec", "clientConfig", "url"]),
        ])],
        "Fault" => of_fault(),
        "ClusterFault" => of_cluster_fault(),
        "Scenario" => vec![json!({
            "name": "status_phase",
            "help": "Whether the scenario runs, and how it ended.",
            "each": { "type": "StateSet", "stateSet": {
                "path": ["status", "phase"],
                "labelName": "phase",
                "list": ["Pending", "Running", "Passed", "Failed"],
            } },
        })],
        "SimulatedCloud" => vec![gauge(
            "status_zones",
            "The number of zones.",
            &["status", "zones"],
        )],
        _ => of_pool(),
    }
}

fn of_cluster() -> Vec<Value> {
    vec![
        info(&[
            ("cloud", &["spec", "cloudRef", "name"]),
            (
                "control_plane_endpoint_host",
                &["spec", "controlPlaneEndpoint", "host"],
            ),
            (
                "control_plane_endpoint_port",
                &["spec", "controlPlaneEndpoint", "port"],
            ),
        ]),
        provisioned(),
        list(
            "status_failure_domain",
            "Its failure domains.",
            &["status", "failureDomains"],
            &[
                ("failure_domain", &["name"]),
                ("control_plane", &["controlPlane"]),
            ],
        ),
    ]
}

fn of_machine() -> Vec<Value> {
    vec![
        info(&[
            ("failure_domain", &["status", "failureDomain"]),
            ("image", &["spec", "image"]),
            ("instance_type", &["spec", "instanceType"]),
            ("provider_id", &["spec", "providerID"]),
        ]),
        provisioned(),
        list(
            "addresses",
            "Its addresses.",
            &["status", "addresses"],
            &[("type", &["type"]), ("address", &["address"])],
        ),
    ]
}

fn of_machine_pool() -> Vec<Value> {
    vec![
        info(&[
            ("image", &["spec", "template", "image"]),
            ("instance_type", &["spec", "template", "instanceType"]),
        ]),
        provisioned(),
        gauge(
            "status_replicas",
            "The number of machines.",
            &["status", "replicas"],
        ),
    ]
}

fn of_fault() -> Vec<Value> {
    vec![
        fault_phase("Whether the fault can still hit."),
        gauge(
            "status_matched",
            "How many operations it has matched.",
            &["status", "matched"],
        ),
        gauge(
            "status_hits",
            "How many operations it has hit.",
            &["status", "hits"],
        ),
    ]
}

fn of_cluster_fault() -> Vec<Value> {
    vec![
        fault_phase("Whether one of its faults can still hit."),
        gauge(
            "status_namespaces",
            "How many namespaces have its fault.",
            &["status", "namespaces"],
        ),
        gauge(
            "status_matched",
            "How many operations its faults have matched.",
            &["status", "matched"],
        ),
        gauge(
            "status_hits",
            "How many operations its faults have hit.",
            &["status", "hits"],
        ),
    ]
}

/// The metrics of a pool of addresses.
fn of_pool() -> Vec<Value> {
    [
        ("total", "total"),
        ("free", "free"),
        ("used", "used"),
        ("out_of_range", "outOfRange"),
    ]
    .into_iter()
    .map(|(name, field)| {
        let name = format!("status_ipaddresses_{name}");
        let help = format!("The value of status.ipAddresses.{field}.");
        gauge(&name, &help, &["status", "ipAddresses", field])
    })
    .collect()
}

fn provisioned() -> Value {
    let path = ["status", "initialization", "provisioned"];
    gauge(
        "status_initialization_provisioned",
        "Whether the first provisioning is done.",
        &path,
    )
}

fn fault_phase(help: &str) -> Value {
    json!({
        "name": "status_phase",
        "help": help,
        "each": { "type": "StateSet", "stateSet": {
            "path": ["status", "phase"],
            "labelName": "phase",
            "list": ["Active", "Waiting", "Exhausted", "Expired", "Invalid"],
        } },
    })
}

/// A label and the path of its value.
type Label<'a> = (&'a str, &'a [&'a str]);

fn gauge(name: &str, help: &str, path: &[&str]) -> Value {
    json!({ "name": name, "help": help, "each": { "type": "Gauge", "gauge": { "path": path } } })
}

fn info(labels: &[Label<'_>]) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let each = json!({ "type": "Info", "info": { "labelsFromPath": labels } });
    json!({ "name": "info", "help": "Information about the object.", "each": each })
}

/// One sample for each entry of a list, or for a single value.
fn list(name: &str, help: &str, path: &[&str], labels: &[Label<'_>]) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let each = json!({ "type": "Info", "info": { "path": path, "labelsFromPath": labels } });
    json!({ "name": name, "help": help, "each": each })
}
