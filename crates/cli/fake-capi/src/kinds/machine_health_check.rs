//! `MachineHealthCheck`.

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, LabelSelector},
    util::intstr::IntOrString,
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// When machines are replaced.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineHealthCheck",
    namespaced,
    status = "MachineHealthCheckStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A health check of machines, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MachineHealthCheckSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster_name: String,
    pub(crate) selector: LabelSelector,
    #[serde(skip_serializing_if = "Checks::is_empty")]
    pub(crate) checks: Checks,
    #[serde(skip_serializing_if = "Remediation::is_empty")]
    pub(crate) remediation: Remediation,
}

/// What makes a machine unhealthy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Checks {
    /// How many seconds a Node may take to appear: ten minutes by default, and zero for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_startup_timeout_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unhealthy_node_conditions: Vec<UnhealthyCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unhealthy_machine_conditions: Vec<UnhealthyCondition>,
}

/// A condition that makes a machine unhealthy when it lasts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UnhealthyCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_seconds: Option<i32>,
}

/// How unhealthy machines are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Remediation {
    pub(crate) trigger_if: Trigger,
}

/// How many machines may be unhealthy when machines are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Trigger {
    /// A number, or a percentage with `%`; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unhealthy_less_than_or_equal_to: Option<IntOrString>,
    /// A range such as `[1-3]`, which counts instead of the number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) unhealthy_in_range: String,
}

/// What a health check found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MachineHealthCheckStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_machines: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_healthy: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remediations_allowed: Option<i32>,
    /// The names of the Machines that it checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

impl Checks {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Remediation {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
