//! Names and kinds of the resources of the cloud.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::steps::count_step;

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ResourceKind {
    /// A virtual machine.
    Instance,
    /// A load balancer.
    LoadBalancer,
    /// A list of instance types and images.
    #[serde(rename = "Catalog")]
    Cloud,
    /// A rule that makes operations fail or wait.
    Fault,
}

impl ResourceKind {
    /// The name of the kind. Draws are keyed by it, so it never changes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::LoadBalancer => "load-balancer",
            Self::Cloud => "catalog",
            Self::Fault => "fault",
        }
    }

    /// The plural of the name, for messages.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Instance => "instances",
            Self::LoadBalancer => "load balancers",
            Self::Cloud => "catalogs",
            Self::Fault => "faults",
        }
    }
}

/// The name of a resource, unique in the cloud.
#[derive(Debug, Eq, Hash, Serialize, Deserialize)]
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "it is equal as with a derived `PartialEq`"
)]
pub struct ResourceId {
    /// The namespace that owns the resource.
    #[serde(rename = "account")]
    pub namespace: String,
    /// The cluster that it is part of, in the namespace.
    #[serde(rename = "group")]
    pub cluster: String,
    /// The kind of the resource.
    pub kind: ResourceKind,
    /// The name of the resource, unique in the cluster and kind.
    pub name: String,
}

impl ResourceId {
    /// What it is ordered by, in the order of its fields.
    fn parts(&self) -> (&str, &str, ResourceKind, &str) {
        let Self {
            namespace,
            cluster,
            kind,
            name,
        } = self;
        (namespace, cluster, *kind, name)
    }

    /// An instance of a cluster.
    #[must_use]
    pub fn instance(namespace: &str, cluster: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::first(namespace, cluster, ResourceKind::Instance)
        }
    }

    /// A name before all resources of a kind in a cluster. No resource has it.
    #[must_use]
    pub fn first(namespace: &str, cluster: &str, kind: ResourceKind) -> Self {
        Self {
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            kind,
            name: String::new(),
        }
    }

    /// A cloud of a namespace. It belongs to no cluster.
    #[must_use]
    pub fn cloud(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = namespace.into();
        let name = name.into();
        Self {
            namespace,
            cluster: String::new(),
            kind: ResourceKind::Cloud,
            name,
        }
    }

    /// A fault of a namespace. It belongs to no cluster.
    #[must_use]
    pub fn fault(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = namespace.into();
        let name = name.into();
        Self {
            namespace,
            cluster: String::new(),
            kind: ResourceKind::Fault,
            name,
        }
    }
}

impl Clone for ResourceId {
    fn clone(&self) -> Self {
        count_step();
        let Self {
            namespace,
            cluster,
            kind,
            name,
        } = self;
        Self {
            namespace: namespace.clone(),
            cluster: cluster.clone(),
            kind: *kind,
            name: name.clone(),
        }
    }
}

impl PartialEq for ResourceId {
    fn eq(&self, other: &Self) -> bool {
        count_step();
        self.parts() == other.parts()
    }
}

impl PartialOrd for ResourceId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceId {
    fn cmp(&self, other: &Self) -> Ordering {
        count_step();
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.namespace,
            self.cluster,
            self.kind.as_str(),
            self.name
        )
    }
}

/// The address of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// An address or a DNS name.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// The key of the draws of a resource, in place of its name, which may be random. It is the set of interchangeable
/// resources that the resource is part of, and its number in the set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeedKey {
    /// The name of the set, unique in the cluster.
    #[serde(rename = "set")]
    pub owner_set: String,
    /// The number in the set, counted from zero.
    pub ordinal: u32,
}
