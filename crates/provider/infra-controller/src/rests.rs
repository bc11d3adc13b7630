//! Why objects rest. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_controller::{paused_message, unreadable};

/// Why an object of `kind` rests, and keeps what it has: it is paused, or it cannot be read. What cannot be read can be deleted.
pub(crate) fn why_rests(kind: &str, metadata: &ObjectMeta, is_cluster_paused: bool) -> Option<String> {
    paused_message(kind, metadata, is_cluster_paused).or_else(|| why_unreadable(metadata))
}

/// Why an object cannot be read, unless it is being deleted.
pub(crate) fn why_unreadable(metadata: &ObjectMeta) -> Option<String> {
    unreadable(metadata)
        .filter(|_| metadata.deletion_timestamp.is_none())
        .map(str::to_owned)
}
