//! The Node of a machine, and its lease.

use jiff::Timestamp;
use nephele_engine::Hardware;
use nephele_model::Role;
use serde_json::{Value, json};

use super::projected::{Projected, Scope, time};
use crate::{identity::MachineAddress, spec::MachineSpec, user_data::Taint};

/// The Node as kubeadm and the kubelet would have registered it, and its Lease.
///
/// `name` is the name of the kubelet. A Node that has not the name of its machine has no pod network: those are given to
/// machines, and a second one would have no owner after a restart.
///
/// Heartbeats are not renewed: no controller in a simulated cluster checks for missing ones, and renewals would wake
/// every watch of every cluster for nothing.
pub(crate) fn node(scope: &Scope<'_>, machine: &MachineSpec, name: &str) -> Vec<Projected> {
    let now = time(scope.at);
    let hardware = machine.hardware.clone().unwrap_or_default();
    let mut capacity = json!(hardware.capacity);
    capacity["hugepages-2Mi"] = "0".into();
    let value = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "labels": labels(machine, name, &hardware), "annotations": annotations(machine) },
        "spec": node_spec(machine, name),
        "status": {
            "addresses": addresses(machine, name), "capacity": capacity, "allocatable": capacity,
            "conditions": super::conditions::reported(&now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(scope, machine, name, &hardware),
        },
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                 "renewTime": renew_time(scope.at)},
    });
    vec![
        scope.object("", "nodes", "", name, value),
        scope.object("coordination.k8s.io", "leases", "kube-node-lease", name, lease),
    ]
}

/// The labels that a Node registers with, and those that its cloud gives to it.
fn labels(machine: &MachineSpec, name: &str, hardware: &Hardware) -> Value {
    let Hardware {
        architecture,
        operating_system,
        ..
    } = hardware;
    let mut labels = json!({
        "beta.kubernetes.io/arch": architecture, "beta.kubernetes.io/os": operating_system,
        "kubernetes.io/arch": architecture, "kubernetes.io/os": operating_system,
        "kubernetes.io/hostname": name,
    });
    for (key, value) in machine.kubeadm.iter().flat_map(|kubeadm| &kubeadm.node_labels) {
        labels[key.as_str()] = value.as_str().into();
    }
    if machine.role == Role::ControlPlane {
        labels["node-role.kubernetes.io/control-plane"] = "".into();
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = "".into();
    }
    if let Some(zone) = &machine.zone {
        labels["topology.kubernetes.io/zone"] = zone.as_str().into();
        labels["topology.kubernetes.io/region"] =
            machine.region.as_deref().unwrap_or_else(|| region(zone)).into();
    }
    if let Some(kind) = &machine.instance_type {
        labels["node.kubernetes.io/instance-type"] = kind.as_str().into();
    }
    labels
}

fn annotations(machine: &MachineSpec) -> Value {
    let mut annotations = json!({
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    if let Some(files) = files(machine) {
        annotations[FILES_ANNOTATION] = files.into();
    }
    annotations
}

fn node_spec(machine: &MachineSpec, name: &str) -> Value {
    let mut spec = json!({"providerID": machine.id.provider_id()});
    let taints = taints(machine);
    if !taints.is_empty() {
        spec["taints"] = taints.into();
    }
    if let Some(first) = machine
        .allocation
        .pod_cidrs
        .first()
        .filter(|_| name == machine.node_name())
    {
        spec["podCIDR"] = first.as_str().into();
        spec["podCIDRs"] = json!(machine.allocation.pod_cidrs);
    }
    spec
}

fn addresses(machine: &MachineSpec, name: &str) -> Vec<Value> {
    let shown = |MachineAddress { kind, address }: &MachineAddress| {
        let address = if kind == "Hostname" && *address == machine.id.name {
            name
        } else {
            address
        };
        json!({"type": kind, "address": address})
    };
    machine.allocation.addresses.iter().map(shown).collect()
}

/// The taints that a Node registers with: those of its kubeadm configuration, or else those of its role.
fn taints(machine: &MachineSpec) -> Vec<Value> {
    let control_plane = (machine.role == Role::ControlPlane)
        .then(|| json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}));
    let Some(kubeadm) = &machine.kubeadm else {
        // CABPK adds it for workers. Cluster API core removes it after it has labelled the Node.
        let uninitialized = json!({"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"});
        return control_plane.into_iter().chain([uninitialized]).collect();
    };
    let Some(taints) = &kubeadm.taints else {
        return control_plane.into_iter().collect();
    };
    let shown = |Taint { key, value, effect }: &Taint| match value.as_str() {
        "" => json!({"key": key, "effect": effect}),
        value => json!({"key": key, "value": value, "effect": effect}),
    };
    taints.iter().map(shown).collect()
}

/// The fields of a status that a kubelet reports, and whose absence it notices.
const REPORTED: [&str; 5] = ["addresses", "allocatable", "capacity", "conditions", "nodeInfo"];

/// Whether a Node has all that its kubelet reports.
pub(crate) fn has_status(node: &Value) -> bool {
    let status = &node["status"];
    let is_there = |field: &str| match &status[field] {
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    };
    REPORTED.into_iter().all(is_there) && super::conditions::are_reported(&status["conditions"])
}

/// Fills what is missing in the status of a Node, as its kubelet does. Conditions of others stay.
pub(crate) fn fill_status(node: &mut Value, reported: &Value) {
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    for (field, value) in reported.as_object().into_iter().flatten() {
        let current = &mut node["status"][field];
        match (current.as_array_mut(), value.as_array()) {
            (Some(current), Some(conditions)) if field == "conditions" => {
                let mut all = conditions.clone();
                all.retain(|condition| !current.iter().any(|known| known["type"] == condition["type"]));
                current.extend(all);
            }
            _ => {
                let is_empty = match &*current {
                    Value::Array(list) => list.is_empty(),
                    Value::Object(fields) => fields.is_empty(),
                    other => other.is_null(),
                };
                if is_empty {
                    *current = value.clone();
                }
            }
        }
    }
}

fn renew_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Renews the Lease of a Node. `at` is the time on the clock of its kubelet.
pub(crate) fn renew_lease(lease: &mut Value, at: Timestamp) {
    lease["spec"]["renewTime"] = renew_time(at).into();
}

/// When a Lease was renewed.
pub(crate) fn renewed(lease: &Value) -> Option<Timestamp> {
    lease["spec"]["renewTime"].as_str()?.parse().ok()
}

fn node_info(scope: &Scope<'_>, machine: &MachineSpec, name: &str, hardware: &Hardware) -> Value {
    let Hardware {
        architecture,
        operating_system,
        ..
    } = hardware;
    let uid = |what: &str, name: &str| super::uid(&scope.cluster.id, what, "", name);
    let identity = |what: &str| uid(what, &machine.id.name);
    json!({
        "architecture": architecture, "operatingSystem": operating_system,
        // A machine has another name only after it has booted again.
        "bootID": uid("boot", name),
        "machineID": identity("machine").replace('-', ""), "systemUUID": identity("system"),
        "containerRuntimeVersion": "containerd://2.2.0", "kernelVersion": "6.12.0-nephele",
        "kubeProxyVersion": "", "kubeletVersion": machine.version,
        "osImage": os_image(machine),
    })
}

fn os_image(machine: &MachineSpec) -> &str {
    machine.image.as_deref().unwrap_or("Nephele (simulated)")
}

/// The region of a zone by the naming of clouds: `sim-1a` is in `sim-1`. A zone of another form is its own region.
fn region(zone: &str) -> &str {
    let region = zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let one_letter = zone.len() - region.len() == 1;
    if one_letter && region.ends_with(|c: char| c.is_ascii_digit()) {
        region
    } else {
        zone
    }
}

/// An annotation of a Node with [`crate::spec::Files::contents`] of its machine, as JSON.
const FILES_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/files";

/// The value of the files annotation. None if the files are not known.
fn files(machine: &MachineSpec) -> Option<String> {
    let files = machine.files.as_ref()?;
    Some(json!(files.contents).to_string())
}

/// A provider ID that no machine has: names have no slash.
fn wrong_provider_id(machine: &MachineSpec) -> String {
    format!("in-memory://unknown/{}", machine.id.name)
}

/// Gives the Node the provider ID of no machine.
pub(crate) fn set_wrong_provider_id(node: &mut Value, machine: &MachineSpec) {
    node["spec"]["providerID"] = wrong_provider_id(machine).into();
}

/// Whether the Node has the provider ID of no machine.
pub(crate) fn has_wrong_provider_id(node: &Value, machine: &MachineSpec) -> bool {
    node["spec"]["providerID"] == wrong_provider_id(machine)
}

/// Whether the Node is one of the machine. No two machines of a cluster have the same provider ID.
pub(crate) fn is_node_of(node: &Value, machine: &MachineSpec) -> bool {
    node["spec"]["providerID"] == machine.id.provider_id() || has_wrong_provider_id(node, machine)
}

/// Updates the Node after its machine was changed in place.
pub(crate) fn change_node(node: &mut Value, machine: &MachineSpec) {
    for (field, value) in [
        ("kubeletVersion", machine.version.as_str()),
        ("osImage", os_image(machine)),
    ] {
        if let Some(info) = node
            .pointer_mut("/status/nodeInfo")
            .and_then(Value::as_object_mut)
        {
            info.insert(field.to_owned(), value.into());
        }
    }
    let Some(metadata) = node["metadata"].as_object_mut() else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    let Some(annotations) = annotations.as_object_mut() else {
        return;
    };
    match files(machine) {
        Some(files) => annotations.insert(FILES_ANNOTATION.to_owned(), files.into()),
        None => annotations.remove(FILES_ANNOTATION),
    };
}
