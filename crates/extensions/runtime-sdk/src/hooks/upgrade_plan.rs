//! The hook for upgrades over more than one minor version (Cluster API, `upgrade_plan_types.go`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hook::{HookMeta, hook};
use crate::{request, response, wire::Object};

hook! {
    /// Called to learn the intermediate versions of an upgrade.
    GenerateUpgradePlan: GenerateUpgradePlanRequest => GenerateUpgradePlanResponse,
    HookMeta::new("Called to learn the intermediate versions of an upgrade")
        .description(
            "Called when a cluster is to be upgraded, to learn of the versions on the way.\n\nThe steps of the control \
             plane end with the target and leave no minor version out. The steps of the workers may be left out; the \
             caller then makes as few as the allowed skew takes.",
        )
        .tags(&["Chained Upgrade Hook"])
}

request! {
    /// The request of [`GenerateUpgradePlan`].
    #[schemars(extend("required" = ["cluster", "fromControlPlaneKubernetesVersion", "toKubernetesVersion"]))]
    pub struct GenerateUpgradePlanRequest {
        /// The Cluster, without its status.
        #[serde(skip_serializing_if = "Object::is_absent")]
        pub cluster: Object,
        /// The current Kubernetes version of the control plane.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub from_control_plane_kubernetes_version: String,
        /// The current Kubernetes version of the workers; empty when there are none.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub from_workers_kubernetes_version: String,
        /// The desired Kubernetes version of the cluster.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub to_kubernetes_version: String,
    }
}

response! {
    /// The response of [`GenerateUpgradePlan`].
    pub struct GenerateUpgradePlanResponse: plain {
        /// The steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStep>,
        /// The steps of the workers. If empty, the caller decides them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStep>,
    }
}

/// A step of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["version"]))]
pub struct UpgradeStep {
    /// The Kubernetes version after the step.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}

impl From<&str> for UpgradeStep {
    fn from(version: &str) -> Self {
        Self {
            version: version.to_owned(),
        }
    }
}
