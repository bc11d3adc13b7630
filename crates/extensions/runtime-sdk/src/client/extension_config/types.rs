//! The `ExtensionConfig` of Cluster API, in both of its versions.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    condition::{Condition, DISCOVERED, condition},
    kind::{ExtensionKind, HandlerStatus, Metadata, Status},
};
use crate::{
    client::{discovery::UnknownHooks, endpoint::ClientConfig, selector::LabelSelector},
    hooks::Settings,
};

/// The desired state of an extension. It is the same in both versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionConfigSpec {
    /// How the extension is reached.
    pub client_config: ClientConfig,
    /// The namespaces that the extension is called for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The settings that are sent with each call.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
}

/// The `ExtensionConfig` of `runtime.cluster.x-k8s.io/v1beta2`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionConfig {
    pub metadata: Metadata,
    pub spec: ExtensionConfigSpec,
    pub status: ExtensionConfigStatus,
}

/// The status of an [`ExtensionConfig`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionConfigStatus {
    pub conditions: Vec<Condition>,
    /// The handlers of the extension.
    pub handlers: Vec<HandlerStatus>,
    pub deprecated: Deprecated,
}

/// Fields of former versions in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deprecated {
    /// The fields of v1beta1 of Cluster API's core kinds.
    pub v1beta1: LegacyConditions,
}

/// Conditions as Cluster API wrote them before v1beta2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LegacyConditions {
    pub conditions: Vec<LegacyCondition>,
}

/// A condition as Cluster API wrote it before v1beta2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LegacyCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    /// `Error`, `Warning` or `Info` when the status is `False`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub severity: String,
    pub last_transition_time: String,
    /// The reason in one word, when the status is not `True`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The conditions of former versions, with the current value of `Discovered`.
fn legacy(before: &[LegacyCondition], conditions: &[Condition]) -> Vec<LegacyCondition> {
    let mut legacy = before.to_vec();
    let Some(discovered) = condition(conditions, DISCOVERED) else {
        return legacy;
    };
    let new = if discovered.is_true() {
        LegacyCondition {
            status: discovered.status.clone(),
            ..LegacyCondition::default()
        }
    } else {
        LegacyCondition {
            status: discovered.status.clone(),
            severity: "Error".to_owned(),
            reason: "DiscoveryFailed".to_owned(),
            message: discovered.message.clone(),
            ..LegacyCondition::default()
        }
    };
    let new = LegacyCondition {
        kind: DISCOVERED.to_owned(),
        last_transition_time: discovered.last_transition_time.clone(),
        ..new
    };
    match legacy.iter_mut().find(|condition| condition.kind == DISCOVERED) {
        Some(old) => *old = new,
        None => legacy.push(new),
    }
    legacy
}

impl ExtensionKind for ExtensionConfig {
    const GROUP: &'static str = "runtime.cluster.x-k8s.io";
    const VERSION: &'static str = "v1beta2";
    const KIND: &'static str = "ExtensionConfig";
    const PLURAL: &'static str = "extensionconfigs";
    const UNKNOWN_HOOKS: UnknownHooks = UnknownHooks::Refuse;
    const NEEDS_CA_BUNDLE: bool = true;
    const REPORTS_INJECTION: bool = false;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn client_config(&self) -> ClientConfig {
        self.spec.client_config.clone()
    }

    fn namespace_selector(&self) -> Option<LabelSelector> {
        self.spec.namespace_selector.clone()
    }

    fn settings(&self) -> Settings {
        self.spec.settings.clone()
    }

    fn status(&self) -> Status {
        Status {
            conditions: self.status.conditions.clone(),
            handlers: self.status.handlers.clone(),
        }
    }

    fn status_patch(&self, status: &Status) -> Value {
        let legacy = legacy(&self.status.deprecated.v1beta1.conditions, &status.conditions);
        json!({ "status": {
            "conditions": status.conditions,
            "handlers": status.handlers,
            "deprecated": { "v1beta1": { "conditions": legacy } },
        } })
    }
}

/// The previous version, which Cluster API still serves.
pub mod v1alpha1 {
    use super::{
        Condition, Deserialize, ExtensionConfigSpec, ExtensionKind, HandlerStatus, LabelSelector,
        LegacyCondition, Metadata, Serialize, Settings, Status, UnknownHooks, Value, json, legacy,
    };
    use crate::client::endpoint::ClientConfig;

    /// The `ExtensionConfig` of `runtime.cluster.x-k8s.io/v1alpha1`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct ExtensionConfig {
        pub metadata: Metadata,
        pub spec: ExtensionConfigSpec,
        pub status: ExtensionConfigStatus,
    }

    /// The status of an [`ExtensionConfig`].
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub struct ExtensionConfigStatus {
        /// Its conditions, in the old form.
        pub conditions: Vec<LegacyCondition>,
        /// The handlers of the extension.
        pub handlers: Vec<HandlerStatus>,
        /// Fields of the next version.
        pub v1beta2: NextConditions,
    }

    /// Conditions in the form of the next version.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct NextConditions {
        pub conditions: Vec<Condition>,
    }

    impl ExtensionKind for ExtensionConfig {
        const GROUP: &'static str = "runtime.cluster.x-k8s.io";
        const VERSION: &'static str = "v1alpha1";
        const KIND: &'static str = "ExtensionConfig";
        const PLURAL: &'static str = "extensionconfigs";
        const UNKNOWN_HOOKS: UnknownHooks = UnknownHooks::Refuse;
        const NEEDS_CA_BUNDLE: bool = true;
        const REPORTS_INJECTION: bool = false;

        fn metadata(&self) -> &Metadata {
            &self.metadata
        }

        fn client_config(&self) -> ClientConfig {
            self.spec.client_config.clone()
        }

        fn namespace_selector(&self) -> Option<LabelSelector> {
            self.spec.namespace_selector.clone()
        }

        fn settings(&self) -> Settings {
            self.spec.settings.clone()
        }

        fn status(&self) -> Status {
            Status {
                conditions: self.status.v1beta2.conditions.clone(),
                handlers: self.status.handlers.clone(),
            }
        }

        fn status_patch(&self, status: &Status) -> Value {
            json!({ "status": {
                "conditions": legacy(&self.status.conditions, &status.conditions),
                "handlers": status.handlers,
                "v1beta2": { "conditions": status.conditions },
            } })
        }
    }
}
