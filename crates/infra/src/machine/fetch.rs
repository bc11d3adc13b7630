//! Reads what a decision about a machine needs. What is not there is none.

use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::core::{Cluster, Machine};
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_cloud::{ClusterId, ClusterObservation};
use nephele_kit::owner_machine;

use crate::context::{Context, find_cluster, labelled_cluster};

/// What was found.
pub(super) struct Fetched {
    /// Whether a Machine owns the object.
    pub(super) owned: bool,
    pub(super) machine: Option<Arc<Machine>>,
    pub(super) cluster_id: Option<ClusterId>,
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The cluster as the cloud has it.
    pub(super) observed: Option<ClusterObservation>,
}

pub(super) fn fetch(object: &InMemoryMachine, context: &Context) -> Fetched {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(&object.metadata);
    let machine = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    let cluster_id = machine
        .as_ref()
        .map(|machine| ClusterId { namespace: namespace.clone(), name: machine.spec.cluster_name.clone() })
        .filter(|id| !id.name.is_empty())
        .or_else(|| labelled_cluster(&object.metadata));
    let cluster = cluster_id.as_ref().and_then(|id| find_cluster(&context.clusters, id));
    let observed = cluster_id.as_ref().and_then(|id| context.cloud.observe_cluster(id));
    Fetched { owned: owner.is_some(), machine, cluster_id, cluster, observed }
}
