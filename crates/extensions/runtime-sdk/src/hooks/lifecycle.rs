//! The lifecycle hooks (Cluster API, `lifecyclehooks_types.go`). All concern Clusters with a managed topology.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hook::{HookMeta, hook};
use crate::{request, response, wire::Object};

const TAGS: &[&str] = &["Lifecycle Hooks"];

/// A future step of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["version"]))]
pub struct UpgradeStepInfo {
    /// The Kubernetes version after the step.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}

hook! {
    /// Called before the objects of a cluster's topology are created.
    BeforeClusterCreate: BeforeClusterCreateRequest => BeforeClusterCreateResponse,
    HookMeta::new("Called before the objects of a cluster's topology are created")
        .description(
            "Called once a Cluster with a managed topology is there, before any object of its topology is \
             made.\n\nNothing is made while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`BeforeClusterCreate`].
    pub struct BeforeClusterCreateRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
    }
}

response! {
    /// The response of [`BeforeClusterCreate`].
    pub struct BeforeClusterCreateResponse: retry {}
}

hook! {
    /// Called when a cluster's control plane can be reached for the first time.
    AfterControlPlaneInitialized: AfterControlPlaneInitializedRequest => AfterControlPlaneInitializedResponse,
    HookMeta::new("Called when a cluster's control plane can be reached for the first time")
        .description(
            "Called for Clusters with a managed topology when the control plane can be reached for the \
             first time.\n\nNothing waits for it.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`AfterControlPlaneInitialized`].
    pub struct AfterControlPlaneInitializedRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
    }
}

response! {
    /// The response of [`AfterControlPlaneInitialized`].
    pub struct AfterControlPlaneInitializedResponse: plain {}
}

hook! {
    /// Called before a cluster is upgraded.
    BeforeClusterUpgrade: BeforeClusterUpgradeRequest => BeforeClusterUpgradeResponse,
    HookMeta::new("Called before a cluster is upgraded")
        .description(
            "Called once for each change of spec.topology.version, before any step of the upgrade.\n\nThe \
             whole upgrade waits while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`BeforeClusterUpgrade`].
    pub struct BeforeClusterUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version before the upgrade.
        pub from_kubernetes_version: String,
        /// The Kubernetes version after the upgrade.
        pub to_kubernetes_version: String,
        /// The remaining steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStepInfo>,
        /// The remaining steps of the workers.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStepInfo>,
    }
}

response! {
    /// The response of [`BeforeClusterUpgrade`].
    pub struct BeforeClusterUpgradeResponse: retry {}
}

hook! {
    /// Called before a cluster's control plane is upgraded.
    BeforeControlPlaneUpgrade: BeforeControlPlaneUpgradeRequest => BeforeControlPlaneUpgradeResponse,
    HookMeta::new("Called before a cluster's control plane is upgraded")
        .description(
            "Called before each step of the control plane's upgrade, after BeforeClusterUpgrade.\n\nThe \
             versions are those of the step; the step waits while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`BeforeControlPlaneUpgrade`].
    pub struct BeforeControlPlaneUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version before the upgrade.
        pub from_kubernetes_version: String,
        /// The Kubernetes version after the upgrade.
        pub to_kubernetes_version: String,
        /// The remaining steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStepInfo>,
        /// The remaining steps of the workers.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStepInfo>,
    }
}

response! {
    /// The response of [`BeforeControlPlaneUpgrade`].
    pub struct BeforeControlPlaneUpgradeResponse: retry {}
}

hook! {
    /// Called after a cluster's control plane was upgraded.
    AfterControlPlaneUpgrade: AfterControlPlaneUpgradeRequest => AfterControlPlaneUpgradeResponse,
    HookMeta::new("Called after a cluster's control plane was upgraded")
        .description(
            "Called after each step of the control plane's upgrade, when all of its machines have the \
             version.\n\nWorkers and further steps wait while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`AfterControlPlaneUpgrade`].
    pub struct AfterControlPlaneUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version after the upgrade.
        pub kubernetes_version: String,
        /// The remaining steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStepInfo>,
        /// The remaining steps of the workers.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStepInfo>,
    }
}

response! {
    /// The response of [`AfterControlPlaneUpgrade`].
    pub struct AfterControlPlaneUpgradeResponse: retry {}
}

hook! {
    /// Called before a cluster's workers are upgraded.
    BeforeWorkersUpgrade: BeforeWorkersUpgradeRequest => BeforeWorkersUpgradeResponse,
    HookMeta::new("Called before a cluster's workers are upgraded")
        .description(
            "Called before each step that the workers make, which may be fewer than those of the control \
             plane.\n\nThe step waits while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`BeforeWorkersUpgrade`].
    pub struct BeforeWorkersUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version before the upgrade.
        pub from_kubernetes_version: String,
        /// The Kubernetes version after the upgrade.
        pub to_kubernetes_version: String,
        /// The remaining steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStepInfo>,
        /// The remaining steps of the workers.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStepInfo>,
    }
}

response! {
    /// The response of [`BeforeWorkersUpgrade`].
    pub struct BeforeWorkersUpgradeResponse: retry {}
}

hook! {
    /// Called after a cluster's workers were upgraded.
    AfterWorkersUpgrade: AfterWorkersUpgradeRequest => AfterWorkersUpgradeResponse,
    HookMeta::new("Called after a cluster's workers were upgraded")
        .description(
            "Called after each step that the workers make.\n\nFurther steps wait while an extension has \
             the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`AfterWorkersUpgrade`].
    pub struct AfterWorkersUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version after the upgrade.
        pub kubernetes_version: String,
        /// The remaining steps of the control plane.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStepInfo>,
        /// The remaining steps of the workers.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStepInfo>,
    }
}

response! {
    /// The response of [`AfterWorkersUpgrade`].
    pub struct AfterWorkersUpgradeResponse: retry {}
}

hook! {
    /// Called after a cluster was upgraded.
    AfterClusterUpgrade: AfterClusterUpgradeRequest => AfterClusterUpgradeResponse,
    HookMeta::new("Called after a cluster was upgraded")
        .description(
            "Called when control plane and workers have the version of spec.topology.version.\n\nThe next \
             upgrade waits while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`AfterClusterUpgrade`].
    pub struct AfterClusterUpgradeRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
        /// The Kubernetes version after the upgrade.
        pub kubernetes_version: String,
    }
}

response! {
    /// The response of [`AfterClusterUpgrade`].
    pub struct AfterClusterUpgradeResponse: retry {}
}

hook! {
    /// Called before a cluster is deleted.
    BeforeClusterDelete: BeforeClusterDeleteRequest => BeforeClusterDeleteResponse,
    HookMeta::new("Called before a cluster is deleted")
        .description(
            "Called when a Cluster is to be deleted, before any of its objects is.\n\nNothing is deleted \
             while an extension has the caller wait.",
        )
        .tags(TAGS)
}

request! {
    /// The request of [`BeforeClusterDelete`].
    pub struct BeforeClusterDeleteRequest {
        /// The Cluster, without its status.
        pub cluster: Object,
    }
}

response! {
    /// The response of [`BeforeClusterDelete`].
    pub struct BeforeClusterDeleteResponse: retry {}
}
