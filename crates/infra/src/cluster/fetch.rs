//! Reads what a decision about a cluster needs. What is not there is none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use nephele_api::core::Cluster;
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_cloud::ClusterId;
use nephele_kit::owner_cluster;

use crate::context::{Context, find_cluster, labelled_cluster};

/// What was found.
pub(super) struct Fetched {
    /// The Cluster that the owner reference names, or while deleting the label.
    pub(super) id: Option<ClusterId>,
    pub(super) owned: bool,
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) ca: Option<Arc<Secret>>,
    pub(super) etcd: Option<Arc<Secret>>,
}

pub(super) fn fetch(object: &InMemoryCluster, context: &Context) -> Fetched {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_cluster(&object.metadata);
    let id = owner
        .map(|owner| ClusterId { namespace: namespace.clone(), name: owner.name.clone() })
        .or_else(|| labelled_cluster(&object.metadata));
    let cluster = id.as_ref().and_then(|id| find_cluster(&context.clusters, id));
    let secret = |purpose: &str| {
        let name = format!("{}-{purpose}", id.as_ref()?.name);
        context.secrets.get(&namespace, &name)
    };
    let (ca, etcd) = (secret("ca"), secret("etcd"));
    Fetched { owned: owner.is_some(), id, cluster, ca, etcd }
}
