//! Peers of our providers on the cluster with a node, as their releases install them.

use std::time::Duration;

use nephele_e2e::templates;

use super::{
    images::{Image, name_of_tool},
    init,
    kubectl::kustomize,
    repository::{Lease, for_tests},
    running::Cluster,
    tools::Peer,
};
use crate::release;

const AVAILABLE_LIMIT: Duration = Duration::from_secs(180);

impl Peer {
    /// The namespace of its manager.
    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::InMemory => "capd-system",
            Self::InCluster => "capi-ipam-in-cluster-system",
        }
    }

    /// The settings of its lease that its manager has flags for.
    fn lease(self) -> Lease {
        match self {
            Self::InMemory => Lease::Long,
            Self::InCluster => Lease::AsShipped,
        }
    }
}

/// Runs `work` while a peer is installed, and removes the peer. The provider of ours that has the same kinds is gone
/// afterwards.
pub(crate) fn beside<T>(
    cluster: &mut Cluster,
    peer: Peer,
    work: impl FnOnce(&Cluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    cluster.tools.add(peer)?;
    let cluster = &*cluster;
    let layout = &cluster.layout;
    let tools = &cluster.tools;
    let kubectl = &cluster.kubectl;
    Image::of_tool(tools, peer.program())?.load(layout, tools)?;
    if peer == Peer::InCluster && init::is_installed(kubectl, release::IPAM_LABEL) {
        let args = ["delete", "--ipam", "in-cluster", "--include-crd"];
        init::clusterctl(layout, tools.program("clusterctl"), &args)?;
    }
    let shipped = kustomize(tools.program("kubectl"), &peer.config()?)?;
    // All feature gates that its components have are on for Cluster API, too.
    let gates = |name: &str| (name == "CLUSTER_TOPOLOGY").then(|| "true".to_owned());
    let image = name_of_tool(peer.program());
    let components = templates::expand(&for_tests(&shipped, &image, peer.lease()), gates);
    kubectl.apply(&components)?;
    kubectl.wait_for_deployments(Some(peer.namespace()), AVAILABLE_LIMIT)?;
    let result = work(cluster);
    let removed = kubectl.delete(&components);
    // The first error is the important one.
    let result = result?;
    removed.map(|()| result)
}
