//! A user's view of a workload cluster.

use nephele_e2e::{Scope, Shape, kubectl};

#[tokio::test]
async fn kubectl_sees_a_cluster() -> anyhow::Result<()> {
    let scope = Scope::new("kubectl").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let kubeconfig = cluster.kubeconfig().await?;
    let kubectl = async |args: &[&str]| kubectl::run(&kubeconfig, args).await;

    let nodes = kubectl(&["get", "nodes"]).await?;
    let lines: Vec<Vec<&str>> = nodes
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"], "{nodes}");
    assert_eq!(lines.len(), 3, "{nodes}");
    assert!(
        lines[1..]
            .iter()
            .all(|line| line[1] == "Ready" && line[4] == "v1.36.3"),
        "{nodes}"
    );
    assert_eq!(
        lines[1..]
            .iter()
            .filter(|line| line[2] == "control-plane")
            .count(),
        1,
        "{nodes}"
    );

    let pods = kubectl(&["get", "pods", "--namespace", "kube-system"]).await?;
    let lines: Vec<Vec<&str>> = pods
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], "{pods}");
    for component in [
        "etcd-",
        "kube-apiserver-",
        "kube-controller-manager-",
        "kube-scheduler-",
    ] {
        let pod = lines.iter().find(|line| line[0].starts_with(component));
        assert!(
            pod.is_some_and(|pod| pod[1..4] == ["1/1", "Running", "0"]),
            "{component} in\n{pods}"
        );
    }

    let version = kubectl(&["version"]).await?;
    assert!(
        version.lines().any(|line| line == "Server Version: v1.36.3"),
        "{version}"
    );
    assert_eq!(kubectl(&["get", "--raw", "/readyz"]).await?, "ok");

    assert_eq!(cluster.workload().await?.status_without_certificate().await?, 401);
    scope.finish().await
}
