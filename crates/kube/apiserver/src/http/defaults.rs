//! The defaults of built-in kinds that clients rely on when they read what they or others wrote
//! (`kubernetes/pkg/apis/*/v1/defaults.go`). Each was read from a kube-apiserver 1.36.

use serde_json::{Map, Value, json};

use crate::registry::ResourceType;

/// Sets the fields that are missing.
pub(super) fn set(kind: &ResourceType, object: &mut Map<String, Value>) {
    let part = match (kind.group.as_str(), kind.kind.as_str()) {
        ("scheduling.k8s.io", "PriorityClass") => {
            return fill(object, json!({"preemptionPolicy": "PreemptLowerPriority"}));
        }
        ("storage.k8s.io", "StorageClass") => {
            return fill(
                object,
                json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
            );
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => return binding(object),
        ("", "Service" | "ReplicationController" | "PersistentVolume" | "PersistentVolumeClaim")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job" | "CronJob")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("networking.k8s.io", "NetworkPolicy") => object.entry("spec").or_insert_with(|| json!({})),
        _ => return,
    };
    let Some(spec) = part.as_object_mut() else { return };
    match kind.kind.as_str() {
        "Service" => service(spec),
        "PersistentVolume" => {
            fill(
                spec,
                json!({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}),
            );
        }
        "PersistentVolumeClaim" => fill(spec, json!({"volumeMode": "Filesystem"})),
        "Deployment" => {
            fill(
                spec,
                json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}),
            );
            rolling(
                spec,
                "strategy",
                json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
            );
        }
        "DaemonSet" => {
            fill(spec, json!({"revisionHistoryLimit": 10}));
            rolling(
                spec,
                "updateStrategy",
                json!({"maxUnavailable": 1, "maxSurge": 0}),
            );
        }
        "StatefulSet" => stateful_set(spec),
        "ReplicaSet" => fill(spec, json!({"replicas": 1})),
        "ReplicationController" => replication_controller(spec),
        "Job" => job(spec),
        "CronJob" => fill(
            spec,
            json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
                   "failedJobsHistoryLimit": 1}),
        ),
        "HorizontalPodAutoscaler" => horizontal_pod_autoscaler(spec),
        _ => network_policy(spec),
    }
}

/// Sets the fields that a new pod lacks; they cannot change later.
pub(super) fn set_pod(object: &mut Map<String, Value>) {
    let Some(spec) = object.entry("spec").or_insert_with(|| json!({})).as_object_mut() else {
        return;
    };
    fill(
        spec,
        json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
               "terminationGracePeriodSeconds": 30}),
    );
}

fn fill(object: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (field, value) in defaults {
        object.entry(field).or_insert(value);
    }
}

/// A strategy is a rolling update unless it says otherwise.
fn rolling(spec: &mut Map<String, Value>, field: &str, bounds: Value) {
    let Some(strategy) = spec.entry(field).or_insert_with(|| json!({})).as_object_mut() else {
        return;
    };
    fill(strategy, json!({"type": "RollingUpdate"}));
    if strategy["type"] == "RollingUpdate"
        && let Some(update) = strategy
            .entry("rollingUpdate")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        fill(update, bounds);
    }
}

fn service(spec: &mut Map<String, Value>) {
    fill(spec, json!({"type": "ClusterIP", "sessionAffinity": "None"}));
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        fill(spec, json!({"internalTrafficPolicy": "Cluster"}));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, json!({"externalTrafficPolicy": "Cluster"}));
    }
    if kind == "LoadBalancer" {
        fill(spec, json!({"allocateLoadBalancerNodePorts": true}));
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        fill(port, json!({"protocol": "TCP", "targetPort": number}));
    }
}

fn stateful_set(spec: &mut Map<String, Value>) {
    let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    fill(
        spec,
        json!({"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
               "persistentVolumeClaimRetentionPolicy": retention}),
    );
    rolling(spec, "updateStrategy", json!({"partition": 0}));
}

fn replication_controller(spec: &mut Map<String, Value>) {
    let labels = spec
        .get("template")
        .and_then(|template| template["metadata"].get("labels"))
        .cloned();
    fill(spec, json!({"replicas": 1}));
    if let Some(labels) = labels {
        spec.entry("selector").or_insert(labels);
    }
}

fn job(spec: &mut Map<String, Value>) {
    let completes_once = !spec.contains_key("completions") && !spec.contains_key("parallelism");
    if completes_once {
        spec.insert("completions".to_owned(), 1.into());
    }
    fill(
        spec,
        json!({"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false}),
    );
}

fn horizontal_pod_autoscaler(spec: &mut Map<String, Value>) {
    fill(spec, json!({"minReplicas": 1}));
    if spec
        .get("metrics")
        .is_none_or(|metrics| metrics.as_array().is_some_and(Vec::is_empty))
    {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([metric]));
    }
}

fn network_policy(spec: &mut Map<String, Value>) {
    let egress = spec
        .get("egress")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty());
    let types = if egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    fill(spec, json!({"policyTypes": types}));
}

fn binding(object: &mut Map<String, Value>) {
    let group = json!({"apiGroup": "rbac.authorization.k8s.io"});
    if let Some(role) = object.get_mut("roleRef").and_then(Value::as_object_mut) {
        fill(role, group.clone());
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        if subject
            .get("kind")
            .is_some_and(|kind| kind == "User" || kind == "Group")
        {
            fill(subject, group.clone());
        }
    }
}
