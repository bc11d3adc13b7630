//! The names under which the allocator knows claims and IPAddresses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_ipam::Owner;

/// The namespace and name of a claim or an IPAddress.
pub(crate) fn owner(meta: &ObjectMeta) -> Owner {
    Owner::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}
