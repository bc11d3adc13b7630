//! Updates in place: the software of a machine that may change while it runs, and the update that is requested. The
//! process that requests an update may be another one than the process that runs the machine, or several. So both are
//! on the `InMemoryMachine` ([`super::instance`]), and survive a restart and a move.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_model::{Fraction, GoDuration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Cluster API's own annotation, on a Machine and on the objects that it refers to while it is updated in place
/// (cluster-api, `api/core/v1beta2/common_types.go`, `UpdateInProgressAnnotation`). Cluster API sets it on the Machine
/// before it changes anything, and removes it from the Machine first.
pub const UPDATE_IN_PROGRESS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// The software of a machine, which may change in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Software {
    /// The Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// The name of the image that it runs from; absent for the default.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub image: String,
    /// The tag of etcd's image; absent for the default of the version.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub etcd_image_tag: String,
    /// Its files; absent until an update names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
}

/// The files of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Files {
    /// A SHA-256 hash of all files, with their owners and permissions, in hexadecimal digits.
    #[schemars(length(min = 1, max = 256))]
    pub digest: String,
    /// The content of the first files, by path: `sha256:<digits>` of the content, or `secret:<name>/<key>`.
    #[schemars(schema_with = "schema::file_contents")]
    pub contents: BTreeMap<String, String>,
}

/// An update in place that was requested for a machine. Its duration counts from the request, so that the manager need
/// not have seen the request when it was made, for example because of a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The software that the machine should run.
    pub software: Software,
    /// When it was requested; this tells updates apart.
    #[schemars(schema_with = "schema::instant")]
    pub asked_at: MicroTime,
    /// How long it takes, as in spec.behaviour; absent when it takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 64))]
    pub duration: Option<GoDuration>,
    /// The largest random addition, as a fraction of the duration, as in spec.behaviour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32))]
    pub jitter: Option<Fraction>,
    /// Why it fails; absent for an update that succeeds. A failing update takes its duration and changes nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32768))]
    pub failure: String,
    /// When it ended; absent while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ended: Option<MicroTime>,
}
