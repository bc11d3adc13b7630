//! Clusters are upgraded.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use nephele_e2e::{Cluster, Look, Scope, Shape, Workload, management::kinds, until, wait::LIMIT};
use serde_json::json;

const OLD: &str = "v1.35.4";
const NEW: &str = "v1.36.3";
/// A later CoreDNS than the one new clusters get, which the control plane provider knows how to migrate to.
const DNS: &str = "v1.14.2";

#[tokio::test]
async fn control_plane_and_workers_are_upgraded_machine_by_machine() -> anyhow::Result<()> {
    let scope = Scope::new("upgrade").await?;
    let cluster = scope
        .plain_with("cluster", Shape { version: OLD, ..Shape::new(3, 2) }, |object| {
            if object["kind"] == "KubeadmControlPlane" {
                object["spec"]["kubeadmConfigSpec"] = json!({"clusterConfiguration": {"dns": {}}});
                object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["certificatesDir"] =
                    json!("/etc/kubernetes/pki");
            }
        })
        .await?;
    cluster.settled(3, 2).await?;
    let workload = cluster.workload().await?;
    assert_eq!(versions(&workload).await?, [OLD; 5]);
    assert_eq!(workload.image::<DaemonSet>("kube-proxy").await?, format!("registry.k8s.io/kube-proxy:{OLD}"));

    let upgrade = json!({"spec": {
        "version": NEW, "kubeadmConfigSpec": {"clusterConfiguration": {"dns": {"imageTag": DNS}}},
    }});
    cluster.patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &upgrade).await?;
    upgraded(&cluster, kinds::CONTROL_PLANE, 3).await?;
    cluster.settled(3, 2).await?;

    let upgrade = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    cluster.patch(kinds::MACHINE_DEPLOYMENT, &cluster.workers(), &upgrade).await?;
    upgraded(&cluster, kinds::MACHINE_DEPLOYMENT, 2).await?;
    cluster.settled(3, 2).await?;

    assert_eq!(versions(&workload).await?, [NEW; 5]);
    let proxy = format!("registry.k8s.io/kube-proxy:{NEW}");
    let dns = format!("registry.k8s.io/coredns/coredns:{DNS}");
    until("kube-proxy and CoreDNS to be upgraded", LIMIT, async || {
        let images = (
            workload.image::<DaemonSet>("kube-proxy").await?,
            workload.image::<Deployment>("coredns").await?,
        );
        Ok(Look::when(images == (proxy.clone(), dns.clone()), || format!("{images:?}")))
    })
    .await?;
    scope.finish().await
}

/// Waits until so many machines of the new version are there and no other.
async fn upgraded(
    cluster: &Cluster,
    kind: nephele_e2e::management::Kind,
    replicas: u64,
) -> anyhow::Result<()> {
    until(&format!("{} to be upgraded", kind.2), LIMIT, async || {
        let owner = &cluster.of_kind(kind).await?[0];
        let status = &owner["status"];
        let holds = status["observedGeneration"] == owner["metadata"]["generation"]
            && status["upToDateReplicas"] == replicas
            && status["replicas"] == replicas
            && status["readyReplicas"] == replicas;
        if holds {
            return Ok(Look::Done(()));
        }
        Ok(Look::NotYet(format!("{}\n{status}", cluster.state().await?)))
    })
    .await
}

async fn versions(workload: &Workload) -> anyhow::Result<Vec<String>> {
    let nodes = workload.nodes().await?;
    let version = |node: &k8s_openapi::api::core::v1::Node| {
        node.status.as_ref()?.node_info.as_ref().map(|info| info.kubelet_version.clone())
    };
    Ok(nodes.iter().map(|node| version(node).unwrap_or_default()).collect())
}
