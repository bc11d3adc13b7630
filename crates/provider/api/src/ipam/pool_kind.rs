//! The four kinds of pools.

use std::fmt;

use super::group::GROUP;
use crate::core::ObjectReference;

/// A kind of pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// `InClusterIPPool`: addresses for claims of its namespace.
    InClusterIPPool,
    /// `GlobalInClusterIPPool`: addresses for claims of every namespace.
    GlobalInClusterIPPool,
    /// `InClusterPrefixPool`: IPv6 prefixes for claims of its namespace.
    InClusterPrefixPool,
    /// `GlobalInClusterPrefixPool`: IPv6 prefixes for claims of every namespace.
    GlobalInClusterPrefixPool,
}

impl PoolKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::InClusterIPPool,
        Self::GlobalInClusterIPPool,
        Self::InClusterPrefixPool,
        Self::GlobalInClusterPrefixPool,
    ];

    /// The value of `kind` in an object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InClusterIPPool => "InClusterIPPool",
            Self::GlobalInClusterIPPool => "GlobalInClusterIPPool",
            Self::InClusterPrefixPool => "InClusterPrefixPool",
            Self::GlobalInClusterPrefixPool => "GlobalInClusterPrefixPool",
        }
    }

    /// The kind that a claim or an address refers to; none when it is not one of ours. An empty group means this group:
    /// claims of the version v1beta1 may leave it out.
    #[must_use]
    pub fn of(reference: &ObjectReference) -> Option<Self> {
        let ours = reference.api_group.is_empty() || reference.api_group == GROUP;
        ours.then(|| Self::ALL.into_iter().find(|kind| kind.as_str() == reference.kind))
            .flatten()
    }

    /// Whether its objects are namespaced, and serve only claims of their namespace.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::InClusterIPPool | Self::InClusterPrefixPool)
    }

    /// Whether it hands out prefixes instead of single addresses.
    #[must_use]
    pub const fn has_prefixes(self) -> bool {
        matches!(self, Self::InClusterPrefixPool | Self::GlobalInClusterPrefixPool)
    }
}

impl fmt::Display for PoolKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(group: &str, kind: &str) -> ObjectReference {
        ObjectReference {
            api_group: group.into(),
            kind: kind.into(),
            name: "pool".into(),
        }
    }

    #[test]
    fn a_reference_is_ours_by_group_and_kind() {
        for kind in PoolKind::ALL {
            assert_eq!(PoolKind::of(&reference(GROUP, kind.as_str())), Some(kind));
            assert_eq!(PoolKind::of(&reference("", kind.as_str())), Some(kind));
            assert_eq!(PoolKind::of(&reference("cluster.x-k8s.io", kind.as_str())), None);
        }
        assert_eq!(PoolKind::of(&reference(GROUP, "UnknownIPPool")), None);
    }
}
