//! CRDs of Cluster API's kinds for a management API without Cluster API, in the demo and in tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceSubresourceScale,
};
use serde_json::{Value, json};

use super::{
    explained::schema,
    groups::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, GROUP},
};

/// CRDs of the kinds of Cluster API's core and kubeadm providers that belong to a cluster. They accept any field, and have
/// the names, columns and subresources of Cluster API's own CRDs, which they replace (`core/config/crd/bases` and
/// `controlplane/kubeadm/config/crd/bases` of cluster-api). The version `v1beta1` is served, too; the definitions do not
/// say how it is converted.
#[must_use]
pub fn loose_crds() -> Vec<CustomResourceDefinition> {
    vec![
        cluster(),
        machine_deployment(),
        machine_set(),
        machine(),
        machine_pool(),
        machine_health_check(),
        control_plane(),
        kubeadm_config(),
    ]
}

fn cluster() -> CustomResourceDefinition {
    let count = |name: &str, part: &str, field: &str, priority: i64| {
        wide(
            column(name, "integer", &format!(".status.{part}.{field}")),
            priority,
        )
    };
    let mut columns = vec![
        column("ClusterClass", "string", ".spec.topology.classRef.name"),
        column("Available", "string", &status_of("Available")),
    ];
    for (prefix, part) in [("CP", "controlPlane"), ("W", "workers")] {
        columns.extend([
            count(&format!("{prefix} Desired"), part, "desiredReplicas", 0),
            count(&format!("{prefix} Current"), part, "replicas", WIDE),
            count(&format!("{prefix} Ready"), part, "readyReplicas", WIDE),
            count(&format!("{prefix} Available"), part, "availableReplicas", 0),
            count(&format!("{prefix} Up-to-date"), part, "upToDateReplicas", 0),
        ]);
    }
    columns.extend([
        paused(),
        column("Phase", "string", ".status.phase"),
        age(),
        column("Version", "string", ".spec.topology.version"),
    ]);
    loose(GROUP, "Cluster", "clusters", &["cl"], &columns)
}

fn machine_deployment() -> CustomResourceDefinition {
    with_scale(
        loose(
            GROUP,
            "MachineDeployment",
            "machinedeployments",
            &["md"],
            &columns(
                &["Cluster", "Condition", "Counts", "Paused", "Phase"],
                ".spec.template.spec.version",
            ),
        ),
        ".status.selector",
    )
}

fn machine_set() -> CustomResourceDefinition {
    with_scale(
        loose(
            GROUP,
            "MachineSet",
            "machinesets",
            &["ms"],
            &columns(
                &["Cluster", "Condition", "Counts", "Paused"],
                ".spec.template.spec.version",
            ),
        ),
        ".status.selector",
    )
}

fn machine() -> CustomResourceDefinition {
    let address = |kind: &str| {
        let path = format!(".status.addresses[?(@.type==\"{kind}\")].address");
        wide(column(&kind.replace("IP", "-IP"), "string", &path), WIDE)
    };
    let columns = [
        column("Cluster", "string", ".spec.clusterName"),
        column("Node Name", "string", ".status.nodeRef.name"),
        wide(column("Provider ID", "string", ".spec.providerID"), WIDE),
        column("Failure domain", "string", ".status.failureDomain"),
        column("Ready", "string", &status_of("Ready")),
        column("Available", "string", &status_of("Available")),
        column("Up-to-date", "string", &status_of("UpToDate")),
        address("InternalIP"),
        address("ExternalIP"),
        wide(column("OS-Image", "string", ".status.nodeInfo.osImage"), WIDE),
        paused(),
        column("Phase", "string", ".status.phase"),
        age(),
        column("Version", "string", ".spec.version"),
    ];
    loose(GROUP, "Machine", "machines", &["ma"], &columns)
}

fn machine_pool() -> CustomResourceDefinition {
    with_scale(
        loose(
            GROUP,
            "MachinePool",
            "machinepools",
            &["mp"],
            &columns(
                &["Cluster", "Counts", "Paused", "Phase"],
                ".spec.template.spec.version",
            ),
        ),
        "",
    )
}

fn machine_health_check() -> CustomResourceDefinition {
    loose(
        GROUP,
        "MachineHealthCheck",
        "machinehealthchecks",
        &["mhc", "mhcs"],
        &[
            column("Cluster", "string", ".spec.clusterName"),
            column("Replicas", "integer", ".status.expectedMachines"),
            column("Healthy", "integer", ".status.currentHealthy"),
            paused(),
            age(),
        ],
    )
}

fn control_plane() -> CustomResourceDefinition {
    with_scale(
        loose(
            CONTROL_PLANE_GROUP,
            "KubeadmControlPlane",
            "kubeadmcontrolplanes",
            &["kcp"],
            &columns(
                &["Label", "Condition", "Counts", "Paused", "Initialized"],
                ".spec.version",
            ),
        ),
        ".status.selector",
    )
}

fn kubeadm_config() -> CustomResourceDefinition {
    loose(
        BOOTSTRAP_GROUP,
        "KubeadmConfig",
        "kubeadmconfigs",
        &[],
        &[
            cluster_of_label(),
            paused(),
            column(
                "Data secret created",
                "string",
                ".status.initialization.dataSecretCreated",
            ),
            age(),
        ],
    )
}

/// The columns of a kind with replicas, in the order of `parts`, then the age and the version.
fn columns(parts: &[&str], version: &str) -> Vec<Value> {
    let count = |name: &str, field: &str| column(name, "integer", field);
    let part = |part: &&str| match *part {
        "Cluster" => vec![column("Cluster", "string", ".spec.clusterName")],
        "Label" => vec![cluster_of_label()],
        "Condition" => vec![column("Available", "string", &status_of("Available"))],
        "Counts" => vec![
            count("Desired", ".spec.replicas"),
            count("Current", ".status.replicas"),
            count("Ready", ".status.readyReplicas"),
            count("Available", ".status.availableReplicas"),
            count("Up-to-date", ".status.upToDateReplicas"),
        ],
        "Paused" => vec![paused()],
        "Initialized" => {
            vec![column(
                "Initialized",
                "boolean",
                ".status.initialization.controlPlaneInitialized",
            )]
        }
        _ => vec![column("Phase", "string", ".status.phase")],
    };
    let end = [age(), column("Version", "string", version)];
    parts.iter().flat_map(part).chain(end).collect()
}

/// CRDs of the kinds in a ClusterClass and its templates that are not ours. They accept any field. With them, an API
/// server without Cluster API takes a manifest that has a ClusterClass.
#[must_use]
pub fn loose_class_crds() -> Vec<CustomResourceDefinition> {
    let templates = [
        (
            CONTROL_PLANE_GROUP,
            "KubeadmControlPlaneTemplate",
            "kubeadmcontrolplanetemplates",
        ),
        (BOOTSTRAP_GROUP, "KubeadmConfigTemplate", "kubeadmconfigtemplates"),
    ];
    let class = loose(GROUP, "ClusterClass", "clusterclasses", &["cc"], &[age()]);
    let templates = templates.map(|(group, kind, plural)| loose(group, kind, plural, &[], &[age()]));
    [class].into_iter().chain(templates).collect()
}

/// The priority of the columns that only `kubectl get --output wide` shows.
const WIDE: i64 = 10;

fn wide(mut column: Value, priority: i64) -> Value {
    if priority > 0 {
        column["priority"] = priority.into();
    }
    column
}

fn status_of(condition: &str) -> String {
    format!(".status.conditions[?(@.type==\"{condition}\")].status")
}

fn paused() -> Value {
    wide(column("Paused", "string", &status_of("Paused")), WIDE)
}

fn cluster_of_label() -> Value {
    column(
        "Cluster",
        "string",
        r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
    )
}

/// With the subresource `scale`. Without a path to a selector, it has none.
fn with_scale(mut definition: CustomResourceDefinition, selector: &str) -> CustomResourceDefinition {
    let scale = CustomResourceSubresourceScale {
        label_selector_path: Some(selector.to_owned()).filter(|path| !path.is_empty()),
        spec_replicas_path: ".spec.replicas".to_owned(),
        status_replicas_path: ".status.replicas".to_owned(),
    };
    for version in &mut definition.spec.versions {
        version.subresources.get_or_insert_default().scale = Some(scale.clone());
    }
    definition
}

/// The age of an object.
pub(crate) fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp")
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
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": is_stored,
            "additionalPrinterColumns": columns,
            "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": schema(kind) },
        })
    };
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
            "versions": [version("v1beta2", true), version("v1beta1", false)],
        },
    }))
    .expect("a definition of constants only")
}
