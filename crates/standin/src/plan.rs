//! What is to be played.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{Stream, stream};
use nephele_api::infrastructure::v1beta2::{Behaviour, PoolReference};
use nephele_pki::KeyAlgorithm;
use tokio::sync::watch;

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
    /// Machines of its MachinePool; none for a cluster without one.
    pub pool: Option<u32>,
    /// What the random part of its machines' names depends on, besides the rest of the name.
    pub name_salt: String,
    /// How its machines behave.
    pub behaviour: Behaviour,
    /// The key of its certificate authorities.
    pub key_algorithm: KeyAlgorithm,
    /// The network that its Pods are in, and its Nodes have shares of.
    pub pod_network: String,
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

/// The plans of clusters, which may change while they are followed. Cheap to clone, and all clones are one. An entry
/// stays until it is taken out: a cluster that is deleted has to be let go of in order.
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

    /// Plans a cluster, or plans it otherwise: its size and version are what it is brought to.
    pub fn set(&self, plan: ClusterPlan) {
        self.0.send_modify(|plans| drop(plans.insert((plan.namespace.clone(), plan.name.clone()), plan)));
    }

    /// What is planned for a cluster.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<ClusterPlan> {
        self.0.borrow().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Yields each time something is planned otherwise.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        stream::unfold(self.0.subscribe(), |mut plans| async {
            plans.changed().await.ok()?;
            Some(((), plans))
        })
    }
}
