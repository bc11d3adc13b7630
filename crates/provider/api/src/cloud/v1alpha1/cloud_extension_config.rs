//! `CloudExtensionConfig`.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::Condition};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A name that is a DNS label.
const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// An extension that the simulated cloud calls. The fields are those of Cluster API's ExtensionConfig
/// (`api/runtime/v1beta2/extensionconfig_types.go`).
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloud.nephele.dev",
    version = "v1alpha1",
    kind = "CloudExtensionConfig",
    status = "CloudExtensionConfigStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "Registers an extension that is called before a simulated machine is created and after it is deleted. Cluster API does not see it.",
    printcolumn(
        name = "Discovered",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Discovered')].status",
        description = "Whether the extension is discovered"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["clientConfig"]))]
pub struct CloudExtensionConfigSpec {
    /// How the extension is reached.
    pub client_config: ExtensionClientConfig,
    /// Selects the namespaces for whose machines the extension is called; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<serde_json::Value>,
    /// Settings that are sent with each call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 100))]
    pub settings: BTreeMap<String, String>,
}

/// How an extension is reached: by url, or as a service of the management cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.url) != has(self.service)", "exactly one of url and service has to be set"),
]))]
pub struct ExtensionClientConfig {
    /// The URL of the extension, such as https://host:8443/path.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 9, max = 512), regex(pattern = "^https://[^/@].*$"))]
    pub url: String,
    /// The Service of the extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ExtensionService>,
    /// The certificate authorities that may issue the extension's certificate, in PEM; by default those of the
    /// operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ca_bundle")]
    pub ca_bundle: Option<ByteString>,
}

/// A Service of the management cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["namespace", "name"]))]
pub struct ExtensionService {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_PATTERN))]
    pub name: String,
    /// The prefix of the paths of hooks.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512), regex(pattern = "^/.*$"))]
    pub path: String,
    /// Its port; by default 443.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// The status of an extension.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudExtensionConfigStatus {
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The handlers that the extension has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub handlers: Vec<ExtensionHandler>,
}

/// A handler that an extension has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "requestHook"]))]
pub struct ExtensionHandler {
    /// Its full name: its name in the extension, a dot, and the name of the extension.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    /// The hook that it answers.
    pub request_hook: ExtensionHook,
    /// How long a call may take; by default 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// The effect of a failed call. With Ignore it counts as agreement.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Ignore", "Fail"]))]
    pub failure_policy: String,
}

/// A hook, in a version of its group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["apiVersion", "hook"]))]
pub struct ExtensionHook {
    /// Its group and version.
    #[schemars(length(min = 1, max = 512))]
    pub api_version: String,
    /// Its name.
    #[schemars(length(min = 1, max = 256))]
    pub hook: String,
}
