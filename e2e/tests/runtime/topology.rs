//! A class whose variables and patches are the extension's, and upgrades over the versions that it plans.

use std::collections::BTreeSet;

use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, templates, until, wait::LIMIT,
};
use serde_json::{Value, json};

use crate::script::{BLOCKS, PASSES, Script, registered};

/// The released class, with the extension in place of what it says of variables and patches.
fn class() -> anyhow::Result<Vec<Value>> {
    let mut objects = templates::class()?;
    for object in objects.iter_mut().filter(|object| object["kind"] == "ClusterClass") {
        let spec = &mut object["spec"];
        spec["variables"] = Value::Null;
        spec["patches"] = json!([{
            "name": "nephele",
            "external": {
                "generatePatchesExtension": "generate-patches.nephele",
                "validateTopologyExtension": "validate-topology.nephele",
                "discoverVariablesExtension": "discover-variables.nephele",
            },
        }]);
        spec["upgrade"] =
            json!({"external": {"generateUpgradePlanExtension": "generate-upgrade-plan.nephele"}});
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("variables");
        }
    }
    Ok(objects)
}

#[tokio::test]
async fn zones_and_instance_types_come_from_the_extension_and_an_upgrade_goes_over_its_plan()
-> anyhow::Result<()> {
    let bare = Bare::with_runtime_extension("runtime-topology").await?;
    registered(&bare).await?;
    let scope = Scope::on(bare.management.clone(), "topology").await?;
    scope.management.apply(&scope.namespace, &class()?).await?;
    let zones = ["zone-a", "zone-b", "zone-c"];
    let variables = |zones: &[&str]| {
        let zones: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
        json!([
            {"name": "zones", "value": zones},
            {"name": "controlPlaneInstanceType", "value": "large"},
            {"name": "workerInstanceType", "value": "small"},
        ])
    };
    let shape = Shape { version: "v1.34.2", ..Shape::new(3, 1) };
    let mut objects = templates::topology(&scope.namespace, "patched", shape)?;
    for object in &mut objects {
        object["spec"]["topology"]["variables"] = variables(&zones);
    }
    scope.management.apply(&scope.namespace, &objects).await?;
    let cluster = Cluster {
        management: scope.management.clone(),
        namespace: scope.namespace.clone(),
        name: "patched".to_owned(),
    };
    cluster.settled(3, 1).await?;
    let placed: BTreeSet<_> = cluster
        .machines(Some(Role::ControlPlane))
        .await?
        .iter()
        .filter_map(|machine| machine["spec"]["failureDomain"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(placed, BTreeSet::from(zones.map(str::to_owned)));
    let mut types: Vec<_> = scope
        .management
        .list(kinds::IN_MEMORY_MACHINE, &scope.namespace, "")
        .await?
        .iter()
        .map(|machine| machine["spec"]["instanceType"].as_str().unwrap_or_default().to_owned())
        .collect();
    types.sort();
    assert_eq!(types, ["large", "large", "large", "small"]);

    // What no schema could refuse.
    let twice = json!({"spec": {"topology": {"variables": variables(&["zone-a", "zone-a"])}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &twice).await?;
    topology_says(&cluster, "False", r#"zones: "zone-a" is there twice"#).await?;
    let again = json!({"spec": {"topology": {"variables": variables(&zones)}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &again).await?;
    topology_says(&cluster, "True", "").await?;

    let script = Script::of(&scope, "patched");
    script.say("BeforeClusterUpgrade-v1.34.2-v1.36.3", BLOCKS).await?;
    let upgrade = json!({"spec": {"topology": {"version": "v1.36.3"}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &upgrade).await?;
    script.answered("BeforeClusterUpgrade-v1.34.2-v1.36.3", "Status: Success, RetryAfterSeconds: 1").await?;
    assert_eq!(versions(&cluster).await?, BTreeSet::from(["v1.34.2".to_owned()]));
    script.say("BeforeClusterUpgrade-v1.34.2-v1.36.3", PASSES).await?;
    let passed = "Status: Success, RetryAfterSeconds: 0";
    for call in [
        "BeforeControlPlaneUpgrade-v1.34.2-v1.35.0",
        "AfterControlPlaneUpgrade-v1.35.0",
        "BeforeControlPlaneUpgrade-v1.35.0-v1.36.3",
        "AfterControlPlaneUpgrade-v1.36.3",
        "BeforeWorkersUpgrade-v1.34.2-v1.36.3",
        "AfterWorkersUpgrade-v1.36.3",
        "AfterClusterUpgrade-v1.36.3",
    ] {
        script.answered(call, passed).await?;
    }
    cluster.settled(3, 1).await?;
    assert_eq!(versions(&cluster).await?, BTreeSet::from(["v1.36.3".to_owned()]));
    scope.finish().await?;
    bare.down().await
}

/// The versions that machines are to have.
async fn versions(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    let machines = cluster.machines(None).await?;
    let versions = machines.iter().filter_map(|machine| machine["spec"]["version"].as_str());
    Ok(versions.map(str::to_owned).collect())
}

/// Waits until the topology's condition has this status, and this in its message.
async fn topology_says(cluster: &Cluster, status: &str, text: &str) -> anyhow::Result<()> {
    until(&format!("TopologyReconciled to be {status} with {text:?}"), LIMIT, async || {
        let found = cluster.get().await?;
        let condition = state::condition(&found, "TopologyReconciled");
        let message = condition.and_then(|condition| condition["message"].as_str()).unwrap_or_default();
        let holds = state::is(&found, "TopologyReconciled", status) && message.contains(text);
        Ok(Look::when(holds, || state::line(&found)))
    })
    .await
}
