//! Clusters scale up and down.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};

#[tokio::test]
async fn control_plane_grows_to_three_and_shrinks_to_one_with_its_etcd() -> anyhow::Result<()> {
    let scope = Scope::new("control-plane").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 0)).await?;
    cluster.settled(1, 0).await?;
    etcd_is_healthy(&cluster, 1).await?;
    let first = names(&cluster).await?;

    cluster.scale_control_plane(3).await?;
    cluster.settled(3, 0).await?;
    etcd_is_healthy(&cluster, 3).await?;

    cluster.scale_control_plane(1).await?;
    cluster.settled(1, 0).await?;
    etcd_is_healthy(&cluster, 1).await?;
    // The oldest machine is deleted first. It was the leader of etcd, so the leadership has moved.
    assert_ne!(names(&cluster).await?, first);
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 1);
    scope.finish().await
}

#[tokio::test]
async fn workers_grow_from_none_to_five_and_shrink_to_one() -> anyhow::Result<()> {
    let scope = Scope::new("workers").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 0)).await?;
    cluster.settled(1, 0).await?;
    cluster.scale_workers(5).await?;
    cluster.settled(1, 5).await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 6);
    cluster.scale_workers(1).await?;
    cluster.settled(1, 1).await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    scope.finish().await
}

/// The control plane provider has queried etcd: there are as many members as machines, all healthy.
async fn etcd_is_healthy(cluster: &Cluster, members: usize) -> anyhow::Result<()> {
    until(&format!("etcd with {members} members"), LIMIT, async || {
        let control_plane = cluster
            .object(kinds::CONTROL_PLANE, &cluster.control_plane())
            .await?;
        let machines = cluster.machines(Some(Role::ControlPlane)).await?;
        let healthy = machines
            .iter()
            .filter(|machine| state::is(machine, "EtcdMemberHealthy", "True"))
            .count();
        let holds = state::is(&control_plane, "EtcdClusterHealthy", "True") && healthy == members;
        Ok(Look::when(holds, || {
            let lines: Vec<_> = std::iter::once(&control_plane)
                .chain(&machines)
                .map(state::line)
                .collect();
            lines.join("\n")
        }))
    })
    .await
}

async fn names(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    Ok(cluster
        .machines(None)
        .await?
        .iter()
        .map(|machine| state::name(machine).to_owned())
        .collect())
}
