//! `IPAddressClaim`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::name_reference::NameReference;
use crate::{core::ObjectReference, names::is_dns_subdomain};

/// The spec of a claim.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddressClaim",
    namespaced,
    status = "IPAddressClaimStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A claim for an address, as Cluster API has it."
)]
#[serde(default, rename_all = "camelCase")]
pub struct IPAddressClaimSpec {
    /// The Cluster it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The pool to take the address from. A claim written as v1beta1 may leave the group out.
    pub pool_ref: ObjectReference,
}

/// The status of a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IPAddressClaimStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The IPAddress that was created for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<NameReference>,
}

impl IPAddressClaim {
    /// The name of the IPAddress that was created for it; none if no object can have it, because it becomes a part of a
    /// path.
    #[must_use]
    pub fn address_name(&self) -> Option<&str> {
        let name = self.status.as_ref()?.address_ref.as_ref()?.name.as_str();
        is_dns_subdomain(name).then_some(name)
    }
}
