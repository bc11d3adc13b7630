//! Kinds whose objects register extensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{annotations::INJECT_CA_ANNOTATION, condition::Condition};
use crate::{
    client::{
        discovery::UnknownHooks,
        endpoint::ClientConfig,
        handler::{Handler, OnError, timeout},
        registry::Registration,
        selector::LabelSelector,
    },
    hooks::{ApiVersionError, FailurePolicy, GroupVersionHook, HookId, Settings},
    wire::Bytes,
};

/// The part of an object's metadata that the registration of an extension needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name. It has to be a DNS label for the extension to be registered.
    pub name: String,
    /// The version of the object.
    pub resource_version: String,
    /// The generation of its desired state.
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A handler in a status (Cluster API, `extensionconfig_types.go`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HandlerStatus {
    pub name: String,
    pub request_hook: GroupVersionHook,
    /// The timeout of a call in seconds; 10 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// What to do when there is no response; `Fail` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

impl HandlerStatus {
    /// A handler of an extension.
    #[must_use]
    pub fn new(handler: &Handler, extension: &str) -> Self {
        let seconds = i32::try_from(handler.timeout.as_secs()).unwrap_or(i32::MAX);
        Self {
            name: handler.full_name(extension),
            request_hook: GroupVersionHook::from(&handler.hook),
            timeout_seconds: Some(seconds).filter(|seconds| *seconds > 0),
            failure_policy: Some(handler.on_error.policy()),
        }
    }

    /// The handler with this status.
    ///
    /// # Errors
    /// When its hook is malformed.
    pub fn handler(&self, extension: &str) -> Result<Handler, ApiVersionError> {
        let suffix = format!(".{extension}");
        Ok(Handler {
            name: self.name.strip_suffix(&suffix).unwrap_or(&self.name).to_owned(),
            hook: HookId::try_from(&self.request_hook)?,
            timeout: timeout(self.timeout_seconds),
            on_error: OnError::of(self.failure_policy.as_ref()),
        })
    }
}

/// The status of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// All of its conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
    /// The handlers of the extension.
    pub handlers: Vec<HandlerStatus>,
}

/// A kind whose objects register extensions: the `ExtensionConfig` of Cluster API, or a provider's own kind for
/// extensions with custom hooks. An extension with custom hooks must not have an `ExtensionConfig`: Cluster API refuses
/// the whole extension because of one unknown hook, and does not start while there is such an extension.
pub trait ExtensionKind: DeserializeOwned + Clone + Send + Sync + 'static {
    /// The group of the kind.
    const GROUP: &'static str;
    /// The version of the kind.
    const VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The resource, in lower case and plural.
    const PLURAL: &'static str;
    /// What to do about handlers of hooks that the catalog does not have.
    const UNKNOWN_HOOKS: UnknownHooks = UnknownHooks::Skip;
    /// Whether a read-only process needs the object to have a CA bundle.
    const NEEDS_CA_BUNDLE: bool = false;
    /// Whether the condition `Discovered` reports a CA bundle that cannot be injected.
    const REPORTS_INJECTION: bool = true;
    /// The annotation that names a Secret, `<namespace>/<name>`, whose `ca.crt` becomes the CA bundle.
    const INJECT_ANNOTATION: &'static str = INJECT_CA_ANNOTATION;

    /// The object's metadata.
    fn metadata(&self) -> &Metadata;
    /// How the extension is reached.
    fn client_config(&self) -> ClientConfig;
    /// The namespaces that the extension is called for.
    fn namespace_selector(&self) -> Option<LabelSelector>;
    /// The settings that are sent with each call.
    fn settings(&self) -> Settings;
    /// Its status.
    fn status(&self) -> Status;

    /// The merge patch (RFC 7396) that sets the object's status. The default is for a kind with `status.conditions`
    /// and `status.handlers`.
    fn status_patch(&self, status: &Status) -> Value {
        json!({ "status": { "conditions": status.conditions, "handlers": status.handlers } })
    }

    /// The merge patch (RFC 7396) that sets the object's CA bundle. The default is for a kind with
    /// `spec.clientConfig`.
    fn ca_bundle_patch(&self, ca_bundle: &Bytes) -> Value {
        json!({ "spec": { "clientConfig": { "caBundle": ca_bundle } } })
    }

    /// The registration of the object's extension, with discovered handlers.
    fn registration(&self, handlers: Vec<Handler>) -> Registration {
        Registration {
            name: self.metadata().name.clone(),
            resource_version: self.metadata().resource_version.clone(),
            client_config: self.client_config(),
            namespace_selector: self.namespace_selector(),
            settings: self.settings(),
            handlers,
        }
    }

    /// The registration of the object's extension, with the handlers in the object's status.
    ///
    /// # Errors
    /// When the hook of a handler is malformed.
    fn known_registration(&self) -> Result<Registration, ApiVersionError> {
        let extension = &self.metadata().name;
        let handlers = self.status().handlers;
        let handlers: Result<Vec<Handler>, _> = handlers
            .iter()
            .map(|handler| handler.handler(extension))
            .collect();
        Ok(self.registration(handlers?))
    }
}
