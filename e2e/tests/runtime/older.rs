//! An older Cluster API, which knows ten hooks.

use std::collections::BTreeSet;

use nephele_e2e::{
    Bare, Look,
    management::{Kind, kinds},
    release_of, state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

use crate::runtime::script::{EXTENSION_CONFIG, LABEL};

/// That release of Cluster API has only this version.
const REGISTRATION: Kind = ("runtime.cluster.x-k8s.io", "v1alpha1", "ExtensionConfig");
const NAMESPACE: &str = "nephele-runtime-extension-system";

/// Cluster API refuses an extension with an unknown hook. With `--runtime-extension-cluster-api`, the extension offers
/// only the hooks of that release. Cluster API 1.8 has the hooks of 1.10 and 1.11.
#[tokio::test]
async fn an_older_cluster_api_discovers_the_extension_that_is_told_of_it() -> anyhow::Result<()> {
    let release = release_of("v1beta1")?;
    let bare = Bare::with_runtime_extension_of_release("runtime-older", &release).await?;
    until("the extension to be refused", LIMIT, async || {
        let found = bare.management.get(REGISTRATION, "", EXTENSION_CONFIG).await?;
        let condition = state::condition(&found, "Discovered");
        let message = condition
            .and_then(|condition| condition["message"].as_str())
            .unwrap_or_default();
        let refused =
            state::is(&found, "Discovered", "False") && message.contains("BeforeControlPlaneUpgrade");
        Ok(Look::when(refused, || state::line(&found)))
    })
    .await?;

    for name in bare.management.names(kinds::DEPLOYMENT, NAMESPACE).await? {
        let mut found = bare.management.get(kinds::DEPLOYMENT, NAMESPACE, &name).await?;
        let containers = found["spec"]["template"]["spec"]["containers"].take();
        let mut containers: Vec<Value> = serde_json::from_value(containers)?;
        if let Some(arguments) = containers[0]["args"].as_array_mut() {
            arguments.push("--runtime-extension-cluster-api=1.10".into());
        }
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        bare.management
            .patch(kinds::DEPLOYMENT, NAMESPACE, &name, &patch)
            .await?;
    }
    bare.kill_manager(LABEL).await?;
    bare.follow_deployments().await?;
    let hooks = until("the extension to be discovered", LIMIT, async || {
        let found = bare.management.get(REGISTRATION, "", EXTENSION_CONFIG).await?;
        let handlers = found["status"]["handlers"].as_array().into_iter().flatten();
        let hook = |handler: &Value| handler["requestHook"]["hook"].as_str().map(str::to_owned);
        let hooks: BTreeSet<_> = handlers.filter_map(hook).collect();
        // Cluster API writes the condition before the handlers, in a separate request (util/patch/patch.go, `Patch`).
        let discovered = state::is(&found, "Discovered", "True") && !hooks.is_empty();
        Ok(if discovered {
            Look::Done(hooks)
        } else {
            Look::NotYet(state::line(&found))
        })
    })
    .await?;
    let known = [
        "AfterClusterUpgrade",
        "AfterControlPlaneInitialized",
        "AfterControlPlaneUpgrade",
        "BeforeClusterCreate",
        "BeforeClusterDelete",
        "BeforeClusterUpgrade",
        "DiscoverVariables",
        "GeneratePatches",
        "ValidateTopology",
    ];
    assert_eq!(hooks, BTreeSet::from(known.map(str::to_owned)));
    bare.down().await
}
