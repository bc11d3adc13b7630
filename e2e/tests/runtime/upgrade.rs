//! An upgrade over two minor versions with the extension's plan. Cluster API calls the extension at each step.

use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape, management::kinds, state, templates, until, wait::LIMIT,
};
use serde_json::json;

use crate::runtime::{
    class,
    script::{BLOCKS, LABEL, PASSES, Script, registered},
};

const FROM: &str = "v1.34.2";
const OVER: &str = "v1.35.0";
const TO: &str = "v1.36.3";

/// A call, and the desired versions of the control plane and the workers until it is answered.
struct Step {
    call: &'static str,
    control_plane: &'static str,
    workers: &'static str,
}

const fn step(call: &'static str, control_plane: &'static str, workers: &'static str) -> Step {
    Step {
        call,
        control_plane,
        workers,
    }
}

/// The calls of the upgrade, in order.
const STEPS: [Step; 8] = [
    step("BeforeClusterUpgrade-v1.34.2-v1.36.3", FROM, FROM),
    step("BeforeControlPlaneUpgrade-v1.34.2-v1.35.0", FROM, FROM),
    step("AfterControlPlaneUpgrade-v1.35.0", OVER, FROM),
    step("BeforeControlPlaneUpgrade-v1.35.0-v1.36.3", OVER, FROM),
    step("AfterControlPlaneUpgrade-v1.36.3", TO, FROM),
    step("BeforeWorkersUpgrade-v1.34.2-v1.36.3", TO, FROM),
    step("AfterWorkersUpgrade-v1.36.3", TO, TO),
    step("AfterClusterUpgrade-v1.36.3", TO, TO),
];

/// While this call is blocked, the extension is killed and restarted.
const KILLED_AT: &str = "AfterControlPlaneUpgrade-v1.35.0";

#[tokio::test]
async fn an_upgrade_over_two_minor_versions_waits_at_every_hook_until_the_extension_lets_it_continue()
-> anyhow::Result<()> {
    let bare = Bare::with_runtime_extension("runtime-upgrade").await?;
    registered(&bare).await?;
    let scope = Scope::on(bare.management.clone(), "upgrade").await?;
    scope
        .management
        .apply(&scope.namespace, &class::of_extension()?)
        .await?;
    let script = Script::of(&scope, "stepped");
    for Step { call, .. } in &STEPS {
        script.say(call, BLOCKS).await?;
    }
    let shape = Shape {
        version: FROM,
        ..Shape::new(1, 1)
    };
    let objects = templates::topology(&scope.namespace, "stepped", shape)?;
    scope.management.apply(&scope.namespace, &objects).await?;
    let cluster = Cluster {
        management: scope.management.clone(),
        namespace: scope.namespace.clone(),
        name: "stepped".to_owned(),
    };
    cluster.settled(1, 1).await?;

    let version = |version: &str| json!({"spec": {"topology": {"version": version}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &version(TO)).await?;
    for (
        index,
        Step {
            call,
            control_plane,
            workers,
        },
    ) in STEPS.iter().enumerate()
    {
        script
            .answered(call, "Status: Success, RetryAfterSeconds: 1")
            .await?;
        let hook = call.split('-').next().unwrap_or_default();
        says(&cluster, hook).await?;
        assert_eq!(versions(&cluster).await?, [*control_plane, *workers], "{call}");
        for Step { call: later, .. } in &STEPS[index + 1..] {
            assert_eq!(
                script.record(later).await?,
                None,
                "{later} was called before {call} let it continue"
            );
        }
        if *call == KILLED_AT {
            bare.kill_manager(LABEL).await?;
            says(
                &cluster,
                "failed to call extension handler \"after-control-plane-upgrade.nephele\"",
            )
            .await?;
            bare.follow_deployments().await?;
            says(&cluster, "held by the test").await?;
            assert_eq!(versions(&cluster).await?, [*control_plane, *workers], "{call}");
        }
        if hook == "AfterClusterUpgrade" {
            let refused = cluster
                .patch(kinds::CLUSTER, &cluster.name, &version("v1.37.0"))
                .await;
            let refusal = refused
                .err()
                .map(|error| format!("{error:#}"))
                .unwrap_or_default();
            assert!(refusal.contains(hook), "{refusal:?}");
        }
        script.say(call, PASSES).await?;
        script
            .answered(call, "Status: Success, RetryAfterSeconds: 0")
            .await?;
    }
    cluster.settled(1, 1).await?;
    until("no hook to be owed", LIMIT, async || {
        let found = cluster.get().await?;
        let owed = &found["metadata"]["annotations"]["runtime.cluster.x-k8s.io/pending-hooks"];
        let holds = owed.is_null() && state::is(&found, "TopologyReconciled", "True");
        Ok(Look::when(holds, || format!("{owed}: {}", state::line(&found))))
    })
    .await?;
    let machines = cluster.machines(None).await?;
    assert_eq!(
        machines
            .iter()
            .filter(|machine| machine["spec"]["version"] == TO)
            .count(),
        2
    );
    scope.finish().await?;
    bare.down().await
}

/// Waits until the Cluster reports this message about its topology, which is not up to date.
async fn says(cluster: &Cluster, text: &str) -> anyhow::Result<()> {
    until(&format!("{} to say {text:?}", cluster.name), LIMIT, async || {
        let found = cluster.get().await?;
        let condition = state::condition(&found, "TopologyReconciled");
        let message = condition
            .and_then(|condition| condition["message"].as_str())
            .unwrap_or_default();
        let holds = state::is(&found, "TopologyReconciled", "False") && message.contains(text);
        Ok(Look::when(holds, || state::line(&found)))
    })
    .await
}

/// The desired versions of the control plane and the workers.
async fn versions(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let mut versions = Vec::new();
    for (kind, path) in [
        (kinds::CONTROL_PLANE, "/spec/version"),
        (kinds::MACHINE_DEPLOYMENT, "/spec/template/spec/version"),
    ] {
        for object in cluster.of_kind(kind).await? {
            versions.push(
                object
                    .pointer(path)
                    .and_then(|version| version.as_str())
                    .map(str::to_owned),
            );
        }
    }
    Ok(versions.into_iter().map(Option::unwrap_or_default).collect())
}
