//! Machine pools scale up and down, lose machines and get new ones.

use std::collections::BTreeSet;

use nephele_e2e::{Cluster, Look, Scope, Shape, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

const OLD: &str = "v1.35.4";
const NEW: &str = "v1.36.3";

#[tokio::test]
async fn machine_pool_grows_shrinks_loses_a_machine_and_is_upgraded() -> anyhow::Result<()> {
    let scope = Scope::new("machine-pool").await?;
    let cluster = scope
        .with_machine_pool(
            "cluster",
            Shape {
                version: OLD,
                ..Shape::new(1, 3)
            },
        )
        .await?;
    let numbered = |numbers: &[u32]| -> Vec<String> {
        numbers
            .iter()
            .map(|number| format!("{}-{number}", pool(&cluster)))
            .collect()
    };
    settled(&cluster, &numbered(&[0, 1, 2]), OLD).await?;
    cluster.available().await?;

    scale(&cluster, 5).await?;
    settled(&cluster, &numbered(&[0, 1, 2, 3, 4]), OLD).await?;

    let marked = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}});
    cluster.patch(kinds::MACHINE, &numbered(&[1])[0], &marked).await?;
    scale(&cluster, 2).await?;
    settled(&cluster, &numbered(&[0, 2]), OLD).await?;

    scope
        .management
        .delete(kinds::MACHINE, &scope.namespace, &numbered(&[0])[0])
        .await?;
    settled(&cluster, &numbered(&[2, 5]), OLD).await?;

    let upgrade = json!({"spec": {"version": NEW}});
    cluster
        .patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &upgrade)
        .await?;
    let upgrade = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    cluster
        .patch(kinds::MACHINE_POOL, &pool(&cluster), &upgrade)
        .await?;
    settled(&cluster, &numbered(&[6, 7]), NEW).await?;
    scope.finish().await
}

fn pool(cluster: &Cluster) -> String {
    format!("{}-pool", cluster.name)
}

async fn scale(cluster: &Cluster, replicas: u32) -> anyhow::Result<()> {
    cluster
        .patch(
            kinds::MACHINE_POOL,
            &pool(cluster),
            &json!({"spec": {"replicas": replicas}}),
        )
        .await
}

/// Waits until Cluster API has recorded exactly these machines, each has a Machine, and the cluster has their Nodes,
/// with this version.
async fn settled(cluster: &Cluster, machines: &[String], version: &str) -> anyhow::Result<()> {
    until(
        &format!("the pool to have {machines:?} of {version}"),
        LIMIT,
        async || {
            let owner = cluster.object(kinds::MACHINE_POOL, &pool(cluster)).await?;
            let object = cluster
                .object(kinds::IN_MEMORY_MACHINE_POOL, &pool(cluster))
                .await?;
            let of_pool = cluster.machines(None).await?;
            let of_pool: Vec<_> = of_pool
                .iter()
                .filter(|m| m["metadata"]["labels"]["cluster.x-k8s.io/pool-name"].is_string())
                .collect();
            let running = of_pool
                .iter()
                .filter(|machine| machine["status"]["phase"] == "Running");
            let running: BTreeSet<&str> = running.map(|machine| state::name(machine)).collect();
            let nodes = match cluster.workload().await {
                Ok(workload) => workload.nodes().await.unwrap_or_default(),
                // The control plane does not exist yet.
                Err(_) => Vec::new(),
            };
            let nodes: BTreeSet<_> = nodes
                .iter()
                .filter_map(|node| {
                    let info = node.status.as_ref()?.node_info.as_ref()?;
                    let name = node.metadata.name.clone()?;
                    let pooled = name.starts_with(&format!("{}-", pool(cluster)));
                    (pooled && info.kubelet_version == version).then_some(name)
                })
                .collect();
            let expected: BTreeSet<&str> = machines.iter().map(String::as_str).collect();
            let ids: Vec<_> = machines
                .iter()
                .map(|name| format!("in-memory://{name}"))
                .collect();
            let taken_over = owner["spec"]["providerIDList"] == json!(ids)
                && owner["status"]["replicas"] == json!(machines.len())
                && owner["status"]["initialization"]["infrastructureProvisioned"] == true
                && owner["status"]["nodeRefs"].as_array().map(Vec::len) == Some(machines.len());
            let holds = taken_over
                && state::is(&object, "Ready", "True")
                && of_pool.len() == machines.len()
                && running == expected
                && nodes.iter().map(String::as_str).collect::<BTreeSet<_>>() == expected;
            Ok(Look::when(holds, || {
                let lines: Vec<_> = [&owner, &object]
                    .into_iter()
                    .chain(of_pool.iter().copied())
                    .map(state::line)
                    .collect();
                let ids: &Value = &owner["spec"]["providerIDList"];
                format!(
                    "{}\n{ids}, {}, nodes {nodes:?}",
                    lines.join("\n"),
                    owner["status"]
                )
            }))
        },
    )
    .await
}
