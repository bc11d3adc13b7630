//! What the watches and the journal said so far, as plain values. No Secret is among them.

use std::sync::Arc;

use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    ipam::{
        v1alpha2::{GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterPrefixPool},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_cloud::JournalLine;

/// The objects of a management cluster, and the last records of the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) clusters: Vec<Arc<Cluster>>,
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) in_memory_clusters: Vec<Arc<InMemoryCluster>>,
    pub(crate) in_memory_machines: Vec<Arc<InMemoryMachine>>,
    pub(crate) clouds: Vec<Arc<SimulatedCloud>>,
    pub(crate) faults: Vec<Arc<Fault>>,
    pub(crate) scenarios: Vec<Arc<Scenario>>,
    pub(crate) pools: Vec<Arc<InClusterIPPool>>,
    pub(crate) global_pools: Vec<Arc<GlobalInClusterIPPool>>,
    pub(crate) prefix_pools: Vec<Arc<InClusterPrefixPool>>,
    pub(crate) global_prefix_pools: Vec<Arc<GlobalInClusterPrefixPool>>,
    /// None while they are not listed: the kind may not be installed, or the viewer may not list it.
    pub(crate) claims: Option<Vec<Arc<IPAddressClaim>>>,
    /// None while they are not listed, as claims.
    pub(crate) addresses: Option<Vec<Arc<IPAddress>>>,
    /// The oldest record is the first.
    pub(crate) journal: Vec<Arc<JournalLine>>,
}

/// The namespace of an object, and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// The key of this name in this namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key of an object.
    pub(crate) fn of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
