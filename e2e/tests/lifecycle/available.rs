//! Clusters become available.

use nephele_e2e::{Scope, Shape};
use serde_json::json;

#[tokio::test]
async fn cluster_of_a_class_becomes_available() -> anyhow::Result<()> {
    let scope = Scope::new("class").await?;
    let cluster = scope.of_class("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    scope.finish().await
}

#[tokio::test]
async fn plain_cluster_with_three_control_plane_machines_and_two_workers_becomes_available()
-> anyhow::Result<()> {
    let scope = Scope::new("plain").await?;
    let cluster = scope.plain("cluster", Shape::new(3, 2)).await?;
    cluster.settled(3, 2).await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 5);
    scope.finish().await
}

#[tokio::test]
async fn cluster_with_elliptic_curve_authorities_becomes_available() -> anyhow::Result<()> {
    let scope = Scope::new("ecdsa").await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            if object["kind"] == "KubeadmControlPlane" {
                object["spec"]["kubeadmConfigSpec"] =
                    json!({"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}});
            }
        })
        .await?;
    cluster.settled(1, 1).await?;
    // The key in its kubeconfig has that type too.
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    scope.finish().await
}
