//! Updates in place: what of a machine may change while it is there, and what it is asked to become. Who asks may be
//! another process than the one that has the machine, or several; so both are on the `InMemoryMachine`
//! ([`super::instance`]), where a restart and a move find them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Cluster API's own, on a Machine and on what it refers to while it is updated in place (cluster-api,
/// `api/core/v1beta2/common_types.go`, `UpdateInProgressAnnotation`). It is on the Machine before anything that is to
/// change does, and goes from the Machine first.
pub const UPDATE_IN_PROGRESS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// What of a machine may change in place.
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
    /// The files that it was given; absent until an update names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
}

/// The files of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Files {
    /// Stands for all of them, with their owners and permissions: SHA-256, in hexadecimal digits.
    #[schemars(length(min = 1, max = 256))]
    pub digest: String,
    /// What is in the first of them, by path: `sha256:<digits>` of the content, or `secret:<name>/<key>`.
    #[schemars(schema_with = "schema::file_contents")]
    pub contents: BTreeMap<String, String>,
}

/// An update in place that a machine was asked for. Its duration is counted from the request, so that who has the
/// machine, now or after a restart, need not have seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// What the machine is to run.
    pub software: Software,
    /// When it was requested; this tells updates apart.
    #[schemars(schema_with = "schema::instant")]
    pub asked_at: MicroTime,
    /// How long it takes, as in spec.behaviour; absent for no time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 64))]
    pub duration: String,
    /// How much of that comes on top at most, as in spec.behaviour.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub jitter: String,
    /// Why it fails; absent for one that succeeds. One that fails takes its time and changes nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32768))]
    pub failure: String,
    /// When it ended; absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ended: Option<MicroTime>,
}
