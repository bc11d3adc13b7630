//! The manager is killed.

use std::time::Duration;

use futures::future::try_join_all;
use kube::ResourceExt as _;
use nephele_e2e::{
    Cluster, Look, Scope, Shape,
    management::kinds,
    manager::{self, Provider},
    state, until,
};
use serde_json::json;

const CLUSTERS: usize = 5;
/// If pod networks were chosen again, those of some of these Nodes would differ in every eighth cluster, of which there
/// are two. Worlds check the same thing with many more clusters.
const WORKERS: u32 = 9;
const RESTART_LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn clusters_survive_the_death_of_the_manager() -> anyhow::Result<()> {
    let scope = Scope::new("restart").await?;
    let large = Shape::new(1, WORKERS);
    let (running, paused) =
        tokio::try_join!(scope.of_class("running", large), scope.of_class("paused", large))?;
    let existing = [&running, &paused];
    try_join_all(existing.map(settled)).await?;
    pause(&paused).await?;
    let before = try_join_all(existing.map(identity)).await?;

    let names: Vec<_> = (0..CLUSTERS).map(|index| format!("new-{index}")).collect();
    let clusters = try_join_all(names.iter().map(|name| scope.of_class(name, Shape::new(1, 1)))).await?;
    until(
        "the first of the new machines to be provisioned",
        nephele_e2e::wait::LIMIT,
        async || {
            let machines = scope
                .management
                .list(kinds::IN_MEMORY_MACHINE, &scope.namespace, "")
                .await?;
            let provisioned = machines
                .iter()
                .filter(|machine| machine["status"]["initialization"]["provisioned"] == true)
                .count();
            let of_existing = existing.len() * (1 + WORKERS as usize);
            let some = provisioned > of_existing;
            Ok(Look::when(some, || {
                format!("{provisioned} of {} machines", machines.len())
            }))
        },
    )
    .await?;

    let pid = manager::process(Provider::Infrastructure)?;
    manager::kill(pid)?;
    until("the manager to be back", RESTART_LIMIT, async || {
        let now = manager::process(Provider::Infrastructure)?;
        Ok(Look::when(now != pid, || format!("process {now}")))
    })
    .await?;

    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1))).await?;
    try_join_all(existing.map(Cluster::available)).await?;
    assert_eq!(try_join_all(existing.map(identity)).await?, before);
    paused
        .patch(kinds::CLUSTER, &paused.name, &json!({"spec": {"paused": null}}))
        .await?;
    try_join_all(existing.map(settled)).await?;
    assert_eq!(try_join_all(existing.map(identity)).await?, before);
    scope.finish().await
}

async fn settled(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.settled(1, WORKERS as usize).await
}

async fn pause(cluster: &Cluster) -> anyhow::Result<()> {
    cluster
        .patch(kinds::CLUSTER, &cluster.name, &json!({"spec": {"paused": true}}))
        .await?;
    until(
        "everything of ours to be paused",
        nephele_e2e::wait::LIMIT,
        async || {
            let mut objects = cluster.of_kind(kinds::IN_MEMORY_CLUSTER).await?;
            objects.extend(cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?);
            let paused = objects
                .iter()
                .filter(|object| state::is(object, "Paused", "True"))
                .count();
            Ok(Look::when(paused == objects.len(), || {
                format!("{paused} of {}", objects.len())
            }))
        },
    )
    .await
}

/// The identity of a cluster, which a restart does not change.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    endpoint: (String, u16),
    /// Names, provider ids and addresses of its InMemoryMachines.
    machines: Vec<String>,
    /// Names, uids and pod networks of its Nodes.
    nodes: Vec<(String, String, Vec<String>)>,
}

async fn identity(cluster: &Cluster) -> anyhow::Result<Identity> {
    let endpoint = cluster.endpoint().await?;
    let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
    let machine = |machine: &serde_json::Value| {
        let name = &machine["metadata"]["name"];
        let id = &machine["spec"]["providerID"];
        format!("{name} {id} {}", machine["status"]["addresses"])
    };
    let mut machines: Vec<_> = machines.iter().map(machine).collect();
    machines.sort();
    let nodes = until("the Nodes to be back", RESTART_LIMIT, async || {
        let nodes = cluster.workload().await?.nodes().await?;
        if nodes.len() != machines.len() {
            return Ok(Look::NotYet(format!(
                "{} of {} Nodes",
                nodes.len(),
                machines.len()
            )));
        }
        let node = |node: &k8s_openapi::api::core::v1::Node| {
            let pod_cidrs = node
                .spec
                .as_ref()
                .and_then(|spec| spec.pod_cidrs.clone())
                .unwrap_or_default();
            (node.name_any(), node.uid().unwrap_or_default(), pod_cidrs)
        };
        let mut nodes: Vec<_> = nodes.iter().map(node).collect();
        nodes.sort();
        Ok(Look::Done(nodes))
    })
    .await?;
    assert!(
        nodes.iter().all(|(_, _, pod_cidrs)| !pod_cidrs.is_empty()),
        "{nodes:?}"
    );
    Ok(Identity {
        endpoint,
        machines,
        nodes,
    })
}
