//! `meta.k8s.io/v1` `Table`: the output of `kubectl get`, as the real server's printers make it
//! (`kubernetes/pkg/printers/internalversion/printers.go`, and for custom kinds
//! `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`).
//!
//! The server always sends the wide table; columns with a priority above zero are for `kubectl get -o wide`.

mod admission;
mod age;
mod autoscaling;
mod cluster;
mod column;
mod control_plane;
mod custom;
mod device;
mod format;
mod json_path;
mod node;
mod pod;
mod service;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

use column::{Column, Row};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::ResourceType;

/// How much of each object a row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects of one kind. `outward` gives a row's object the version that was asked for.
pub(crate) fn render(
    kind: &ResourceType,
    objects: impl Iterator<Item = Value>,
    metadata: &Value,
    include: IncludeObject,
    outward: impl Fn(Value) -> Value,
    now: Timestamp,
) -> Value {
    let custom = kind.custom || !kind.columns.is_empty();
    let built_in = if custom {
        &[][..]
    } else {
        columns(&kind.group, &kind.kind)
    };
    let definitions = if custom {
        custom::definitions(&kind.columns)
    } else {
        built_in.iter().map(Column::definition).collect()
    };
    let rows: Vec<_> = objects
        .map(|mut object| {
            let row = Row { object: &object, now };
            let cells: Vec<_> = if custom {
                custom::cells(&kind.columns, row)
            } else {
                built_in.iter().map(|column| (column.cell)(row)).collect()
            };
            let mut json = json!({"cells": cells});
            if let Some(conditions) = row_conditions(kind, &object) {
                json["conditions"] = conditions;
            }
            match include {
                IncludeObject::None => {}
                IncludeObject::Object => json["object"] = outward(object),
                IncludeObject::Metadata => {
                    json["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                                            "metadata": object["metadata"].take()});
                }
            }
            json
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
           "columnDefinitions": Value::Array(definitions), "rows": rows})
}

fn columns(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("", "Node") => node::COLUMNS,
        ("", "Pod") => pod::COLUMNS,
        ("", "Namespace") => cluster::NAMESPACE,
        ("", "ConfigMap") => cluster::CONFIG_MAP,
        ("", "Secret") => cluster::SECRET,
        ("", "ServiceAccount") => cluster::NAME_AND_AGE,
        ("" | "events.k8s.io", "Event") => cluster::EVENT,
        ("", "ResourceQuota") => cluster::RESOURCE_QUOTA,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::ROLE_BINDING,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => cluster::WEBHOOKS,
        ("", "Service") => service::SERVICE,
        ("", "Endpoints") => service::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => service::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => service::INGRESS,
        ("networking.k8s.io", "NetworkPolicy") => service::NETWORK_POLICY,
        ("", "PersistentVolume") => storage::PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => storage::PERSISTENT_VOLUME_CLAIM,
        ("storage.k8s.io", "StorageClass") => storage::STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttachment") => storage::VOLUME_ATTACHMENT,
        ("storage.k8s.io", "CSINode") => storage::CSI_NODE,
        ("storage.k8s.io", "CSIDriver") => storage::CSI_DRIVER,
        ("apps", "Deployment") => workload::DEPLOYMENT,
        ("apps", "DaemonSet") => workload::DAEMON_SET,
        ("apps", "ReplicaSet") => workload::REPLICA_SET,
        ("apps", "StatefulSet") => workload::STATEFUL_SET,
        ("batch", "Job") => workload::JOB,
        ("batch", "CronJob") => workload::CRON_JOB,
        ("policy", "PodDisruptionBudget") => workload::POD_DISRUPTION_BUDGET,
        ("", "PodTemplate") => workload::POD_TEMPLATE,
        ("", "ReplicationController") => workload::REPLICATION_CONTROLLER,
        ("apps", "ControllerRevision") => workload::CONTROLLER_REVISION,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::HORIZONTAL_POD_AUTOSCALER,
        ("", "ComponentStatus") => control_plane::COMPONENT_STATUS,
        ("apiregistration.k8s.io", "APIService") => control_plane::API_SERVICE,
        ("certificates.k8s.io", "CertificateSigningRequest") => control_plane::CERTIFICATE_SIGNING_REQUEST,
        ("node.k8s.io", "RuntimeClass") => control_plane::RUNTIME_CLASS,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => control_plane::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            control_plane::PRIORITY_LEVEL_CONFIGURATION
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::VALIDATING_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => admission::MUTATING_POLICY,
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => admission::POLICY_BINDING,
        ("networking.k8s.io", "IngressClass") => service::INGRESS_CLASS,
        ("networking.k8s.io", "IPAddress") => service::IP_ADDRESS,
        ("networking.k8s.io", "ServiceCIDR") => service::SERVICE_CIDR,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::VOLUME_ATTRIBUTES_CLASS_KIND,
        ("resource.k8s.io", "ResourceClaim") => device::RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceSlice") => device::RESOURCE_SLICE,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => cluster::NAME_AND_AGE,
        // Kinds without their own printer, such as Role and CustomResourceDefinition.
        _ => cluster::NAME_AND_CREATED_AT,
    }
}

/// The condition `Completed` of a pod that has ended, so that clients can omit the pod.
fn row_conditions(kind: &ResourceType, object: &Value) -> Option<Value> {
    if (kind.group.as_str(), kind.kind.as_str()) != ("", "Pod") {
        return None;
    }
    let phase = object["status"]["phase"]
        .as_str()
        .filter(|phase| matches!(*phase, "Succeeded" | "Failed"))?;
    Some(json!([{"type": "Completed", "status": "True", "reason": phase}]))
}
