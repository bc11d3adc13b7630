//! A class with the extension's variables and patches.

use std::collections::BTreeSet;

use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, templates, until, wait::LIMIT,
};
use serde_json::json;

use crate::runtime::{class, script::registered};

#[tokio::test]
async fn zones_and_instance_types_come_from_the_extension() -> anyhow::Result<()> {
    let bare = Bare::with_runtime_extension("runtime-topology").await?;
    registered(&bare).await?;
    let scope = Scope::on(bare.management.clone(), "topology").await?;
    scope
        .management
        .apply(&scope.namespace, &class::of_extension()?)
        .await?;
    let zones = ["zone-a", "zone-b", "zone-c"];
    let variables = |zones: &[&str]| {
        let zones: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
        json!([
            {"name": "zones", "value": zones},
            {"name": "controlPlaneInstanceType", "value": "large"},
            {"name": "workerInstanceType", "value": "small"},
        ])
    };
    let mut objects = templates::topology(&scope.namespace, "patched", Shape::new(3, 1))?;
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
        .map(|machine| {
            machine["spec"]["instanceType"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    types.sort();
    assert_eq!(types, ["large", "large", "large", "small"]);

    // A schema cannot refuse this.
    let twice = json!({"spec": {"topology": {"variables": variables(&["zone-a", "zone-a"])}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &twice).await?;
    topology_says(&cluster, "False", r#"zones: "zone-a" is there twice"#).await?;
    let again = json!({"spec": {"topology": {"variables": variables(&zones)}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &again).await?;
    topology_says(&cluster, "True", "").await?;
    scope.finish().await?;
    bare.down().await
}

/// Waits until the topology's condition has this status, and this text in its message.
async fn topology_says(cluster: &Cluster, status: &str, text: &str) -> anyhow::Result<()> {
    until(
        &format!("TopologyReconciled to be {status} with {text:?}"),
        LIMIT,
        async || {
            let found = cluster.get().await?;
            let condition = state::condition(&found, "TopologyReconciled");
            let message = condition
                .and_then(|condition| condition["message"].as_str())
                .unwrap_or_default();
            let holds = state::is(&found, "TopologyReconciled", status) && message.contains(text);
            Ok(Look::when(holds, || state::line(&found)))
        },
    )
    .await
}
