//! `IPAddress`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::name_reference::NameReference;
use crate::core::ObjectReference;

/// An address in use.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddress",
    plural = "ipaddresses",
    namespaced,
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "An address in use, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub struct IPAddressSpec {
    /// The claim that it was created for.
    pub claim_ref: NameReference,
    /// The pool that it was taken from.
    pub pool_ref: ObjectReference,
    /// The address, or the first one of a prefix.
    pub address: String,
    /// The length of the subnet's prefix, or of the prefix that was handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway of the subnet; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}
