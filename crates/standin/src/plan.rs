//! The clusters that the stand-in creates and maintains.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{Stream, stream};
use nephele_api::infrastructure::v1beta2::{Behaviour, PoolReference};
use nephele_pki::KeyAlgorithm;
use tokio::sync::watch;

/// The clusters to create.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One entry for each cluster.
    pub clusters: Vec<ClusterPlan>,
}

/// A cluster to create, and to keep at its size.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// The namespace of its objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Kubernetes version of its machines, `v1.36.3`.
    pub version: String,
    /// The number of control plane machines; without one, nothing ever comes up.
    pub control_plane: u32,
    /// The number of worker machines.
    pub workers: u32,
    /// The number of machines in its MachinePool; none for a cluster without a MachinePool.
    pub pool: Option<u32>,
    /// The input, besides the rest of the name, to the random part of its machines' names.
    pub name_salt: String,
    /// How its machines behave.
    pub behaviour: Behaviour,
    /// The key algorithm of its certificate authorities.
    pub key_algorithm: KeyAlgorithm,
    /// The pod network of the cluster, from which each Node gets a part.
    pub pod_network: String,
    /// The pools from which each machine gets an address; when empty, the provider chooses the addresses.
    pub address_pools: Vec<PoolReference>,
    /// The pool from which its load balancer gets an address.
    pub control_plane_address_pool: Option<PoolReference>,
}

impl ClusterPlan {
    /// A cluster in the namespace `default` whose machines start without delay, with the certificate authorities that
    /// Cluster API creates by default.
    #[must_use]
    pub fn new(name: &str, version: &str, control_plane: u32, workers: u32) -> Self {
        Self {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            control_plane,
            workers,
            pool: None,
            name_salt: String::new(),
            behaviour: Behaviour::default(),
            key_algorithm: KeyAlgorithm::Rsa2048,
            pod_network: "192.168.0.0/16".to_owned(),
            address_pools: Vec::new(),
            control_plane_address_pool: None,
        }
    }
}

/// The plans of clusters, which may change while the stand-in runs. Cheap to clone, and all clones share their state.
/// An entry stays after the deletion of its cluster, because the stand-in needs it to delete the cluster's objects in
/// order.
#[derive(Clone)]
pub struct PlannedClusters(Arc<watch::Sender<Plans>>);

type Plans = BTreeMap<(String, String), ClusterPlan>;

impl PlannedClusters {
    /// The clusters of a plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let plans = plan.clusters.into_iter().map(|plan| ((plan.namespace.clone(), plan.name.clone()), plan));
        Self(Arc::new(watch::Sender::new(plans.collect())))
    }

    /// Adds or replaces the plan of a cluster. The stand-in then changes the cluster to the planned size and version.
    pub fn set(&self, plan: ClusterPlan) {
        self.0.send_modify(|plans| drop(plans.insert((plan.namespace.clone(), plan.name.clone()), plan)));
    }

    /// The plan of a cluster.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<ClusterPlan> {
        self.0.borrow().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Yields each time a plan changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        stream::unfold(self.0.subscribe(), |mut plans| async {
            plans.changed().await.ok()?;
            Some(((), plans))
        })
    }
}
