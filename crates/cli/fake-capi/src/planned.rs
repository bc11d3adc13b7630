//! What a planned cluster consists of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{
    core::{CONTROL_PLANE_GROUP, ClusterNetwork, NetworkRanges, ObjectReference},
    infrastructure::v1beta2::{self as infrastructure, InMemoryCluster, InMemoryClusterSpec},
};

use crate::plan::ClusterPlan;

/// The reference to the control plane of a cluster.
pub(crate) fn control_plane(plan: &ClusterPlan) -> ObjectReference {
    ObjectReference {
        api_group: CONTROL_PLANE_GROUP.to_owned(),
        kind: "KubeadmControlPlane".to_owned(),
        name: plan.control_plane_name.clone(),
    }
}

/// The networks of a cluster.
pub(crate) fn network(plan: &ClusterPlan) -> ClusterNetwork {
    let blocks = |block: &str| {
        Some(NetworkRanges {
            cidr_blocks: vec![block.to_owned()],
        })
    };
    ClusterNetwork {
        pods: blocks(&plan.pod_network),
        services: blocks("10.128.0.0/12"),
        service_domain: "cluster.local".to_owned(),
    }
}

/// The infrastructure of a cluster.
pub(crate) fn infrastructure_cluster(plan: &ClusterPlan, metadata: ObjectMeta) -> InMemoryCluster {
    let pool = plan.control_plane_address_pool.clone();
    let network = pool.map(|pool| infrastructure::ClusterNetwork {
        control_plane_address_from_pool: Some(pool),
    });
    let failure_domains = plan.failure_domains.clone();
    let spec = InMemoryClusterSpec {
        network,
        failure_domains,
        ..InMemoryClusterSpec::default()
    };
    InMemoryCluster {
        metadata,
        spec,
        status: None,
    }
}
