//! CRDs of Cluster API's kinds for a management API without Cluster API, in the demo and in tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::GROUP;

/// CRDs of `Cluster`, `Machine` and `MachinePool` that accept any field. They replace Cluster API's own CRDs, without
/// their schemas.
#[must_use]
pub fn loose_crds() -> Vec<CustomResourceDefinition> {
    let phase = column("Phase", "string", ".status.phase");
    let version = column("Version", "string", ".spec.version");
    let available = column("Available", "string", ".status.conditions[?(@.type=='Available')].status");
    let cluster = column("Cluster", "string", ".spec.clusterName");
    let node = column("Node Name", "string", ".status.nodeRef.name");
    let ready = column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status");
    let replicas = column("Replicas", "integer", ".status.replicas");
    vec![
        loose(GROUP, "Cluster", "clusters", &["cl"], &[available, phase.clone()]),
        loose(GROUP, "Machine", "machines", &["ma"], &[cluster.clone(), node, ready, phase.clone(), version]),
        loose(GROUP, "MachinePool", "machinepools", &["mp"], &[cluster, replicas, phase]),
    ]
}

/// CRDs of the kinds in a ClusterClass and its templates that are not ours. They accept any field. With them, an API
/// server without Cluster API takes a manifest that has a ClusterClass.
#[must_use]
pub fn loose_class_crds() -> Vec<CustomResourceDefinition> {
    vec![
        loose(GROUP, "ClusterClass", "clusterclasses", &["cc"], &[]),
        loose(
            "controlplane.cluster.x-k8s.io",
            "KubeadmControlPlaneTemplate",
            "kubeadmcontrolplanetemplates",
            &[],
            &[],
        ),
        loose("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate", "kubeadmconfigtemplates", &[], &[]),
    ]
}

pub(crate) fn column(name: &str, kind: &str, json_path: &str) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": json_path })
}

pub(crate) fn loose(
    group: &str,
    kind: &str,
    plural: &str,
    short_names: &[&str],
    columns: &[Value],
) -> CustomResourceDefinition {
    let mut columns = columns.to_vec();
    columns.push(column("Age", "date", ".metadata.creationTimestamp"));
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": short_names,
                "categories": ["cluster-api"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta2",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns,
                "subresources": { "status": {} },
                "schema": {
                    "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                },
            }],
        },
    }))
    .expect("a definition of constants only")
}
