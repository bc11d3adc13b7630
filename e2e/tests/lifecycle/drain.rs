//! Nodes are drained before their machines are deleted.

use nephele_e2e::{Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};

const POD: &str = "held";

#[tokio::test]
async fn machine_waits_for_the_pods_on_its_node_to_be_gone() -> anyhow::Result<()> {
    let scope = Scope::new("drain").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let machine = cluster.machines(Some(Role::Worker)).await?.remove(0);
    let node = machine["status"]["nodeRef"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let name = state::name(&machine).to_owned();
    let workload = cluster.workload().await?;
    workload.create_pod(POD, &node, "e2e.nephele.dev/hold").await?;

    scope
        .management
        .delete(kinds::MACHINE, &scope.namespace, &name)
        .await?;
    until(
        "the pod to be evicted while its machine waits",
        LIMIT,
        async || {
            let pod = workload.pod(POD).await?;
            let evicted = pod
                .as_ref()
                .is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
            let machine = cluster.object(kinds::MACHINE, &name).await?;
            let reason = state::condition(&machine, "Deleting").map(|condition| condition["reason"].clone());
            let drains = reason.is_some_and(|reason| reason == "DrainingNode");
            Ok(Look::when(evicted && drains, || {
                format!("{}\nevicted: {evicted}", state::line(&machine))
            }))
        },
    )
    .await?;
    assert!(
        workload
            .nodes()
            .await?
            .iter()
            .any(|item| item.metadata.name.as_deref() == Some(node.as_str()))
    );

    workload.release_pod(POD).await?;
    until("the machine to be gone", LIMIT, async || {
        let machine = scope
            .management
            .find(kinds::MACHINE, &scope.namespace, &name)
            .await?;
        Ok(machine.map_or(Look::Done(()), |machine| Look::NotYet(state::line(&machine))))
    })
    .await?;
    assert!(workload.pod(POD).await?.is_none());
    cluster.settled(1, 1).await?;
    scope.finish().await
}
