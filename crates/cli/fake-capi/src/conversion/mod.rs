//! Conversion of Cluster API's kinds between `v1beta1` and `v1beta2`, for a management API without Cluster API.
//!
//! ```text
//!  v1beta1                                          v1beta2
//!  spec.infrastructureRef.apiVersion, namespace ◀─▶ spec.infrastructureRef.apiGroup
//!  spec.topology.class                          ◀─▶ spec.topology.classRef.name
//!  spec.nodeDrainTimeout: 1m30s                 ◀─▶ spec.deletion.nodeDrainTimeoutSeconds: 90
//!  status.v1beta2.conditions ──────────────────◀─▶─ status.conditions
//!  status.conditions ──────────────────────────◀─▶─ status.deprecated.v1beta1.conditions, or what follows from
//!                                                    status.conditions
//! ```
//!
//! The differences of each kind are a list of rules, which work in both directions (`api/core/v1beta1/conversion.go` and
//! `core/webhooks/conversion` of cluster-api). What no rule names stays where it is, whatever it is, so nothing of a patch
//! or of an object that a client sends back as it was is lost. There is no annotation with the other version. So a client
//! with Go's types of `v1beta1` drops with a write what these types lack: `minReadySeconds` and the failure domain in the
//! status of a Machine, most time limits of kubeadm, arguments that are given twice, and `false` where it is the default.

mod cluster;
mod cluster_class;
mod duration;
mod former;
mod health_check;
mod ip_address_claim;
mod kubeadm;
mod machine;
mod parts;
mod rule;

use nephele_api::{
    core::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, GROUP},
    ipam,
};
use rule::{NEW, Rule};
use serde_json::Value;

const OLD: &str = "v1beta1";

/// Converts an object of a kind of Cluster API, or a part of one that says its kind and version, to the version of an
/// `apiVersion`, such as `cluster.x-k8s.io/v1beta1`. A kind without differences only gets the other version.
#[must_use]
pub fn convert(object: &Value, api_version: &str) -> Value {
    let mut converted = object.clone();
    let Some(fields) = converted.as_object_mut() else {
        return converted;
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, from) = text("apiVersion").split_once('/').unwrap_or_default();
    let (_, to) = api_version.split_once('/').unwrap_or_default();
    let rules = rules(group, text("kind"));
    match (from, to) {
        (OLD, NEW) => rule::inward(rules, fields),
        (NEW, OLD) => {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            rule::outward(rules, namespace.unwrap_or_default(), fields);
        }
        _ => {}
    }
    fields.insert("apiVersion".to_owned(), api_version.into());
    converted
}

fn rules(group: &str, kind: &str) -> &'static [Rule] {
    match (group, kind) {
        (GROUP, "Cluster") => cluster::CLUSTER,
        (GROUP, "ClusterClass") => cluster_class::CLUSTER_CLASS,
        (GROUP, "Machine") => machine::MACHINE,
        (GROUP, "MachineDeployment") => machine::MACHINE_DEPLOYMENT,
        (GROUP, "MachineHealthCheck") => health_check::MACHINE_HEALTH_CHECK,
        (GROUP, "MachinePool") => machine::MACHINE_POOL,
        (GROUP, "MachineSet") => machine::MACHINE_SET,
        (CONTROL_PLANE_GROUP, "KubeadmControlPlane") => kubeadm::CONTROL_PLANE,
        (CONTROL_PLANE_GROUP, "KubeadmControlPlaneTemplate") => kubeadm::CONTROL_PLANE_TEMPLATE,
        (BOOTSTRAP_GROUP, "KubeadmConfig") => kubeadm::CONFIG,
        (BOOTSTRAP_GROUP, "KubeadmConfigTemplate") => kubeadm::CONFIG_TEMPLATE,
        (ipam::GROUP, "IPAddressClaim") => ip_address_claim::IP_ADDRESS_CLAIM,
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
