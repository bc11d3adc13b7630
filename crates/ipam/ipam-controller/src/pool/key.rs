//! The key of a pool.

use std::fmt;

use kube::ResourceExt as _;
use nephele_api::{
    core::ObjectReference,
    ipam::{
        PoolKind,
        v1beta2::{IPAddress, IPAddressClaim},
    },
};

/// A pool, by kind, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolKey {
    pub(crate) kind: PoolKind,
    /// Empty for the global kinds.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl PoolKey {
    /// The pool that an object of `namespace` refers to; none if its kind is not one of ours.
    pub(crate) fn of(reference: &ObjectReference, namespace: &str) -> Option<Self> {
        let kind = PoolKind::of(reference)?;
        let namespace = if kind.is_namespaced() {
            namespace.to_owned()
        } else {
            String::new()
        };
        Some(Self {
            kind,
            namespace,
            name: reference.name.clone(),
        })
    }

    /// The pool of a claim.
    pub(crate) fn of_claim(claim: &IPAddressClaim) -> Option<Self> {
        Self::of(&claim.spec.pool_ref, &claim.namespace().unwrap_or_default())
    }

    /// The pool of an IPAddress.
    pub(crate) fn of_address(address: &IPAddress) -> Option<Self> {
        Self::of(&address.spec.pool_ref, &address.namespace().unwrap_or_default())
    }
}

impl fmt::Display for PoolKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        if namespace.is_empty() {
            write!(formatter, "{kind} {name}")
        } else {
            write!(formatter, "{kind} {namespace}/{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::GROUP;

    use super::*;

    fn key(group: &str, kind: &str) -> Option<PoolKey> {
        let reference = ObjectReference {
            api_group: group.into(),
            kind: kind.into(),
            name: "p".into(),
        };
        PoolKey::of(&reference, "ns")
    }

    #[test]
    fn group_and_kind_say_whether_a_claim_is_ours() {
        let ours = |kind: PoolKind, namespace: &str| {
            Some(PoolKey {
                kind,
                namespace: namespace.into(),
                name: "p".into(),
            })
        };
        assert_eq!(
            key(GROUP, "InClusterIPPool"),
            ours(PoolKind::InClusterIPPool, "ns")
        );
        assert_eq!(
            key(GROUP, "GlobalInClusterIPPool"),
            ours(PoolKind::GlobalInClusterIPPool, "")
        );
        // A claim that was written as v1beta1 may have no group.
        assert_eq!(key("", "InClusterIPPool"), ours(PoolKind::InClusterIPPool, "ns"));
        assert_eq!(key(GROUP, "UnknownIPPool"), None);
        assert_eq!(key("cluster.x-k8s.io", "InClusterIPPool"), None);
    }
}
