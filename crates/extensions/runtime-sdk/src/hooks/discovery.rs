//! Discovery: the handlers of an extension (Cluster API, `discovery_types.go`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    hook::{Hook, HookId, HookMeta, hook},
    message::{Request, Settings},
};
use crate::{response, wire::text};

/// The timeout of a handler that does not set one, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: i32 = 10;
/// The longest timeout, in seconds.
pub const TIMEOUT_SECONDS_MAX: i32 = 30;

hook! {
    /// Called when an extension is registered, and each time its registration is reconciled.
    Discovery: DiscoveryRequest => DiscoveryResponse,
    HookMeta::new("Asks an extension which handlers it has")
        .description(
            "Called whenever the registration of an extension is looked at.\n\nThe response lists every handler of \
             the extension, with the hook that it answers.",
        )
        .tags(&["Discovery"]),
    true
}

/// The request of [`Discovery`]. It is the only request without settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiscoveryRequest {}

impl Request for DiscoveryRequest {
    fn settings(&self) -> Option<&Settings> {
        None
    }

    fn settings_mut(&mut self) -> Option<&mut Settings> {
        None
    }
}

response! {
    /// The response of [`Discovery`].
    pub struct DiscoveryResponse: plain {
        /// The handlers. Their names are unique.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub handlers: Vec<ExtensionHandler>,
    }
}

/// A handler of an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionHandler {
    /// Its name, a DNS label, unique in the extension across hooks.
    pub name: String,
    /// The hook of the handler.
    pub request_hook: GroupVersionHook,
    /// The timeout, 0 to 30 seconds; 0 and absent mean 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// What the caller does when there is no response; absent means `Fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

/// A hook in discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVersionHook {
    /// Group and version, as `group/version`.
    pub api_version: String,
    /// The name of the hook.
    pub hook: String,
}

/// The `apiVersion` has more than one slash.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ApiVersionError(pub String);

impl From<&HookId> for GroupVersionHook {
    fn from(id: &HookId) -> Self {
        Self {
            api_version: id.api_version(),
            hook: id.hook.to_string(),
        }
    }
}

impl TryFrom<&GroupVersionHook> for HookId {
    type Error = ApiVersionError;

    /// Splits the `apiVersion` as Kubernetes does: without a slash it is a version without a group.
    fn try_from(hook: &GroupVersionHook) -> Result<Self, ApiVersionError> {
        let (group, version) = hook
            .api_version
            .split_once('/')
            .unwrap_or(("", &hook.api_version));
        if version.contains('/') {
            return Err(ApiVersionError(hook.api_version.clone()));
        }
        Ok(Self::new(group, version, hook.hook.as_str()))
    }
}

text! {
    /// What a caller does when there is no response: the extension cannot be reached, does not answer in time, or
    /// its answer is not a response. A response with status `Failure` is a failure with either policy.
    pub enum FailurePolicy {
        /// The call fails.
        Fail = "Fail",
        /// The caller continues as if the extension had no objection.
        Ignore = "Ignore",
    }
}

impl DiscoveryResponse {
    /// The handlers of a hook, in order.
    pub fn of<H: Hook>(&self) -> impl Iterator<Item = &ExtensionHandler> {
        let hook = GroupVersionHook::from(&H::id());
        self.handlers
            .iter()
            .filter(move |handler| handler.request_hook == hook)
    }
}
