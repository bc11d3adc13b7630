//! From loose objects to what can be acted on. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use nephele_api::core::Cluster;
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_cloud::{ClusterId, ClusterSpec, Endpoint};
use nephele_kit::{is_externally_managed, paused_message};

use super::fetch::Fetched;

/// What the objects come to.
pub(super) enum Validated {
    /// Somebody else looks after it.
    ExternallyManaged,
    /// Cluster API has not claimed it yet.
    WithoutOwner,
    /// The Cluster that owns it is not there (yet).
    WithoutCluster(ClusterId),
    /// It is to be left alone; the message says why.
    Paused(String),
    /// It is to be there.
    Wanted(Wanted),
}

/// A cluster that is to be there.
pub(super) struct Wanted {
    pub(super) spec: ClusterSpec,
    pub(super) cluster: Arc<Cluster>,
    pub(super) ca: Option<Arc<Secret>>,
    pub(super) etcd: Option<Arc<Secret>>,
}

pub(super) fn validate(object: &InMemoryCluster, fetched: Fetched) -> Validated {
    let Fetched { id, owned, cluster, ca, etcd } = fetched;
    if is_externally_managed(&object.metadata) {
        return Validated::ExternallyManaged;
    }
    let Some(id) = id.filter(|_| owned || object.metadata.deletion_timestamp.is_some()) else {
        return Validated::WithoutOwner;
    };
    let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
    if let Some(message) = paused_message("InMemoryCluster", &object.metadata, paused) {
        return Validated::Paused(message);
    }
    let Some(cluster) = cluster else { return Validated::WithoutCluster(id) };

    // The user's choice, on either object, comes before ours; a part of it will do.
    let own = object.spec.control_plane_endpoint.clone().unwrap_or_default();
    let of_cluster = cluster.spec.control_plane_endpoint.clone().unwrap_or_default();
    let host = if own.host.is_empty() { of_cluster.host } else { own.host };
    let port = if own.port == 0 { of_cluster.port } else { own.port };
    let network = cluster.spec.cluster_network.clone().unwrap_or_default();
    let ranges = |ranges: Option<nephele_api::core::NetworkRanges>, fallback: &str| {
        let blocks = ranges.map(|ranges| ranges.cidr_blocks).unwrap_or_default();
        if blocks.is_empty() { vec![fallback.to_owned()] } else { blocks }
    };
    let created_at = object.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Validated::Wanted(Wanted {
        spec: ClusterSpec {
            id,
            endpoint: Some(Endpoint { host, port: u16::try_from(port).unwrap_or(0) }),
            created_at,
            pod_cidrs: ranges(network.pods, "192.168.0.0/16"),
            service_cidrs: ranges(network.services, "10.96.0.0/12"),
            service_domain: if network.service_domain.is_empty() {
                "cluster.local".to_owned()
            } else {
                network.service_domain
            },
        },
        cluster: cluster.clone(),
        ca,
        etcd,
    })
}
