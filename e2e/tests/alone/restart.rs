//! The manager is killed.

use std::time::Duration;

use futures::future::try_join_all;
use nephele_e2e::{
    Cluster, Look, Scope, Shape,
    management::kinds,
    manager::{self, Provider},
    until,
};

const CLUSTERS: usize = 5;
const RESTART_LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn clusters_survive_the_death_of_the_manager() -> anyhow::Result<()> {
    let scope = Scope::new("restart").await?;
    let existing = scope.of_class("existing", Shape::new(1, 1)).await?;
    existing.settled(1, 1).await?;
    let before = identity(&existing).await?;

    let names: Vec<_> = (0..CLUSTERS).map(|index| format!("new-{index}")).collect();
    let clusters = try_join_all(names.iter().map(|name| scope.of_class(name, Shape::new(1, 1)))).await?;
    until("the first of the new machines to be provisioned", nephele_e2e::wait::LIMIT, async || {
        let machines = scope.management.list(kinds::IN_MEMORY_MACHINE, &scope.namespace, "").await?;
        let provisioned = machines
            .iter()
            .filter(|machine| machine["status"]["initialization"]["provisioned"] == true)
            .count();
        // Two of them are the existing cluster's.
        Ok(Look::when(provisioned > 2, || format!("{provisioned} of {} machines", machines.len())))
    })
    .await?;

    let pid = manager::process(Provider::Infrastructure)?;
    manager::kill(pid)?;
    until("the manager to be back", RESTART_LIMIT, async || {
        let now = manager::process(Provider::Infrastructure)?;
        Ok(Look::when(now != pid, || format!("process {now}")))
    })
    .await?;

    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1))).await?;
    existing.settled(1, 1).await?;
    assert_eq!(identity(&existing).await?, before);
    scope.finish().await
}

/// Endpoint, provider ids, and the Nodes with their uids.
async fn identity(cluster: &Cluster) -> anyhow::Result<(String, u16, Vec<String>, Vec<(String, String)>)> {
    let (host, port) = cluster.endpoint().await?;
    let mut provider_ids: Vec<_> = cluster
        .of_kind(kinds::IN_MEMORY_MACHINE)
        .await?
        .iter()
        .map(|machine| machine["spec"]["providerID"].as_str().unwrap_or_default().to_owned())
        .collect();
    provider_ids.sort();
    let nodes = until("the Nodes to be back", RESTART_LIMIT, async || {
        let nodes = cluster.workload().await?.node_identities().await?;
        Ok(if nodes.len() == provider_ids.len() {
            Look::Done(nodes)
        } else {
            Look::NotYet(format!("{nodes:?}"))
        })
    })
    .await?;
    Ok((host, port, provider_ids, nodes))
}
