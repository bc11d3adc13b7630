//! What the reconcilers look at and act through.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use nephele_api::core::{Cluster, Machine};
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_api::labels;
use nephele_cloud::{Cloud, ClusterId};
use nephele_kit::{Cache, Clock};
use tokio::sync::Mutex;

/// Shared by both reconcilers.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) cloud: Cloud,
    pub(crate) clock: Clock,
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) machines: Cache<Machine>,
    pub(crate) secrets: Cache<Secret>,
    /// Versions of the CA Secrets that the cloud was last handed, by cluster, so that keys are not parsed each time a
    /// cluster is looked at. Entries go with their clusters. Owned by the cluster reconciler.
    pub(crate) handed: Mutex<BTreeMap<ClusterId, String>>,
}

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// The InMemoryCluster that a Cluster refers to.
pub(crate) fn infrastructure_of(cluster: &Cluster) -> Option<ObjectRef<InMemoryCluster>> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    let ours =
        reference.kind == "InMemoryCluster" && reference.api_group == "infrastructure.cluster.x-k8s.io";
    let namespace = cluster.metadata.namespace.as_deref()?;
    ours.then(|| ObjectRef::new(&reference.name).within(namespace))
}

/// The Cluster that an object belongs to by its label.
pub(crate) fn labelled_cluster(
    metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> Option<ClusterId> {
    let name = labels::value(metadata, labels::CLUSTER_NAME)?.to_owned();
    Some(ClusterId { namespace: metadata.namespace.clone()?, name })
}

/// The Cluster of an id, if the cache has it.
pub(crate) fn find_cluster(clusters: &Cache<Cluster>, id: &ClusterId) -> Option<Arc<Cluster>> {
    clusters.get(&id.namespace, &id.name)
}
