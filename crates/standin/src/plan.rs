//! What is to be played.

use nephele_api::infrastructure::v1beta2::{Behaviour, PoolReference};
use nephele_pki::KeyAlgorithm;

/// The clusters to be created.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Each of them.
    pub clusters: Vec<ClusterPlan>,
}

/// A cluster to be created, and kept at its size.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// Where its objects are.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Kubernetes version of its machines, `v1.36.3`.
    pub version: String,
    /// Control plane machines; at least one, or nothing ever comes up.
    pub control_plane: u32,
    /// Worker machines.
    pub workers: u32,
    /// How its machines behave.
    pub behaviour: Behaviour,
    /// The key of its certificate authorities.
    pub key_algorithm: KeyAlgorithm,
    /// Pools that each give its machines an address; none leaves their addresses to the provider.
    pub address_pools: Vec<PoolReference>,
    /// The pool that gives its load balancer an address.
    pub control_plane_address_pool: Option<PoolReference>,
}

impl ClusterPlan {
    /// A cluster in the namespace `default` whose machines start without delay, with the authorities that Cluster API
    /// makes by default.
    #[must_use]
    pub fn new(name: &str, version: &str, control_plane: u32, workers: u32) -> Self {
        Self {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            control_plane,
            workers,
            behaviour: Behaviour::default(),
            key_algorithm: KeyAlgorithm::Rsa2048,
            address_pools: Vec::new(),
            control_plane_address_pool: None,
        }
    }

    pub(crate) fn is_of(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }
}
