//! Clusters are upgraded.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use nephele_e2e::{
    Cluster, Look, Scope, Shape, Workload, cluster::Role, management::kinds, until, wait::LIMIT,
};
use serde_json::json;

const OLD: &str = "v1.35.4";
const NEW: &str = "v1.36.3";
/// A later CoreDNS version than that of new clusters. The control plane provider can migrate to it.
const DNS: &str = "v1.14.2";

#[tokio::test]
async fn control_plane_and_workers_are_upgraded_machine_by_machine() -> anyhow::Result<()> {
    let scope = Scope::new("upgrade").await?;
    let cluster = scope
        .plain_with(
            "cluster",
            Shape {
                version: OLD,
                ..Shape::new(3, 2)
            },
            |object| {
                if object["kind"] == "KubeadmControlPlane" {
                    // Cluster API manages CoreDNS only if there is a cluster configuration.
                    object["spec"]["kubeadmConfigSpec"] =
                        json!({"clusterConfiguration": {"certificatesDir": "/etc/kubernetes/pki"}});
                }
            },
        )
        .await?;
    cluster.settled(3, 2).await?;
    let workload = cluster.workload().await?;
    assert_eq!(versions(&workload).await?, [OLD; 5]);
    assert_eq!(
        workload.image::<DaemonSet>("kube-proxy").await?,
        format!("registry.k8s.io/kube-proxy:{OLD}")
    );

    let upgrade = json!({"spec": {
        "version": NEW, "kubeadmConfigSpec": {"clusterConfiguration": {"dns": {"imageTag": DNS}}},
    }});
    cluster
        .patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &upgrade)
        .await?;
    upgraded(&cluster, Role::ControlPlane, 3).await?;
    cluster.settled(3, 2).await?;

    let upgrade = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    cluster
        .patch(kinds::MACHINE_DEPLOYMENT, &cluster.workers(), &upgrade)
        .await?;
    upgraded(&cluster, Role::Worker, 2).await?;
    cluster.settled(3, 2).await?;

    assert_eq!(versions(&workload).await?, [NEW; 5]);
    let proxy = format!("registry.k8s.io/kube-proxy:{NEW}");
    let dns = format!("registry.k8s.io/coredns/coredns:{DNS}");
    until("kube-proxy and CoreDNS to be upgraded", LIMIT, async || {
        let images = (
            workload.image::<DaemonSet>("kube-proxy").await?,
            workload.image::<Deployment>("coredns").await?,
        );
        Ok(Look::when(images == (proxy.clone(), dns.clone()), || {
            format!("{images:?}")
        }))
    })
    .await?;
    scope.finish().await
}

/// Waits until a role has this number of machines, all of the new version. The counts in the status of their owner lag
/// behind a change of its spec, so they are not used.
async fn upgraded(cluster: &Cluster, role: Role, replicas: usize) -> anyhow::Result<()> {
    cluster
        .until(&format!("{role:?} machines to be upgraded"), async || {
            let machines = cluster.machines(Some(role)).await?;
            let new = machines
                .iter()
                .filter(|machine| machine["status"]["nodeInfo"]["kubeletVersion"] == NEW)
                .count();
            let upgraded = (new, machines.len()) == (replicas, replicas);
            Ok(Look::when(upgraded, || {
                format!("{new} of {} machines are new", machines.len())
            }))
        })
        .await
}

async fn versions(workload: &Workload) -> anyhow::Result<Vec<String>> {
    let nodes = workload.nodes().await?;
    let version = |node: &k8s_openapi::api::core::v1::Node| {
        node.status
            .as_ref()?
            .node_info
            .as_ref()
            .map(|info| info.kubelet_version.clone())
    };
    Ok(nodes
        .iter()
        .map(|node| version(node).unwrap_or_default())
        .collect())
}
