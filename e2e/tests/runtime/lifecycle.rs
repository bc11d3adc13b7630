//! Creation and deletion wait for the extension, even while it does not run.

use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape,
    management::{Kind, kinds},
    state, until,
    wait::LIMIT,
};

use crate::runtime::script::{BLOCKS, LABEL, PASSES, Script, registered};

#[tokio::test]
async fn clusters_are_made_and_deleted_when_the_extension_lets_them_and_it_returns_after_a_kill()
-> anyhow::Result<()> {
    let bare = Bare::with_runtime_extension("runtime-lifecycle").await?;
    let mut handlers = registered(&bare).await?;
    handlers.sort();
    assert_eq!(
        handlers,
        [
            "after-cluster-upgrade.nephele",
            "after-control-plane-initialized.nephele",
            "after-control-plane-upgrade.nephele",
            "after-workers-upgrade.nephele",
            "before-cluster-create.nephele",
            "before-cluster-delete.nephele",
            "before-cluster-upgrade.nephele",
            "before-control-plane-upgrade.nephele",
            "before-workers-upgrade.nephele",
            "can-update-machine.nephele",
            "can-update-machineset.nephele",
            "discover-variables.nephele",
            "generate-patches.nephele",
            "generate-upgrade-plan.nephele",
            "update-machine.nephele",
            "validate-topology.nephele",
        ]
    );
    let scope = Scope::on(bare.management.clone(), "hooks").await?;

    let script = Script::of(&scope, "held");
    script.say("BeforeClusterCreate", BLOCKS).await?;
    let cluster = scope.of_class("held", Shape::new(1, 1)).await?;
    script
        .answered("BeforeClusterCreate", "Status: Success, RetryAfterSeconds: 1")
        .await?;
    waits(&cluster, "BeforeClusterCreate").await?;
    nothing_is_made(&cluster).await?;
    script.say("BeforeClusterCreate", PASSES).await?;
    script
        .answered("BeforeClusterCreate", "Status: Success, RetryAfterSeconds: 0")
        .await?;
    cluster.settled(1, 1).await?;
    script.answered("AfterControlPlaneInitialized", "Success").await?;

    bare.kill_manager(LABEL).await?;
    let later = scope.of_class("later", Shape::new(1, 0)).await?;
    waits(&later, "BeforeClusterCreate").await?;
    nothing_is_made(&later).await?;
    bare.follow_deployments().await?;
    later.settled(1, 0).await?;
    Script::of(&scope, "later")
        .answered("BeforeClusterCreate", "Status: Success, RetryAfterSeconds: 0")
        .await?;

    script.say("BeforeClusterDelete", BLOCKS).await?;
    scope
        .management
        .delete(kinds::CLUSTER, &scope.namespace, "held")
        .await?;
    script
        .answered("BeforeClusterDelete", "Status: Success, RetryAfterSeconds: 1")
        .await?;
    let held = cluster.get().await?;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    let machines = cluster.machines(None).await?;
    let going = machines
        .iter()
        .filter(|machine| machine["metadata"]["deletionTimestamp"].is_string());
    assert_eq!((machines.len(), going.count()), (2, 0));
    script.say("BeforeClusterDelete", PASSES).await?;
    scope.finish().await?;
    bare.down().await
}

/// Waits until the Cluster reports that its topology waits for a hook.
async fn waits(cluster: &Cluster, hook: &str) -> anyhow::Result<()> {
    until(
        &format!("{} to wait for {hook}", cluster.name),
        LIMIT,
        async || {
            let found = cluster.get().await?;
            let condition = state::condition(&found, "TopologyReconciled");
            let message = condition
                .and_then(|condition| condition["message"].as_str())
                .unwrap_or_default();
            let holds = state::is(&found, "TopologyReconciled", "False") && message.contains(hook);
            Ok(Look::when(holds, || state::line(&found)))
        },
    )
    .await
}

async fn nothing_is_made(cluster: &Cluster) -> anyhow::Result<()> {
    const MADE: [Kind; 4] = [
        kinds::IN_MEMORY_CLUSTER,
        kinds::CONTROL_PLANE,
        kinds::MACHINE_DEPLOYMENT,
        kinds::MACHINE,
    ];
    for kind in MADE {
        let selector = format!("cluster.x-k8s.io/cluster-name={}", cluster.name);
        let found = cluster
            .management
            .list(kind, &cluster.namespace, &selector)
            .await?;
        assert!(
            found.is_empty(),
            "{:?}",
            found.iter().map(state::line).collect::<Vec<_>>()
        );
    }
    Ok(())
}
