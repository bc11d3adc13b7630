//! A ClusterFault: the namespaces that it selects misbehave until it is deleted, and those who work there cannot change it.

use nephele_e2e::{Look, Management, Scope, Shape, management::kinds, until, wait::LIMIT};
use serde_json::{Value, json};

use super::tenants;

/// The Fault that the ClusterFault makes.
fn fault_of(cluster_fault: &str) -> String {
    format!("cluster-fault-{cluster_fault}")
}

/// No machine comes up in these namespaces.
fn no_room(name: &str, namespaces: &[&str]) -> Value {
    let selector = json!({
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}],
    });
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "ClusterFault",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": selector,
            "match": {"operations": ["CreateInstance"]},
            "effect": {"fail": {"reason": "InsufficientCapacity", "retryAfter": "1s"}},
        },
    })
}

#[tokio::test]
async fn selected_namespaces_have_no_room_until_the_cluster_fault_is_deleted() -> anyhow::Result<()> {
    let first = Scope::new("everywhere").await?;
    let second = Scope::new("everywhere").await?;
    let other = Scope::new("everywhere").await?;
    let management = &first.management;
    // Names of cluster-scoped objects have to differ between runs.
    let name = first.namespace.as_str();
    let fault = fault_of(name);
    management
        .apply("", &[no_room(name, &[&first.namespace, &second.namespace])])
        .await?;
    until(
        "the ClusterFault to be in force in two namespaces",
        LIMIT,
        async || {
            let status = management.get(kinds::CLUSTER_FAULT, "", name).await?["status"].clone();
            let is_in_force = status["phase"] == "Active" && status["conditions"][0]["status"] == "True";
            Ok(Look::when(is_in_force && status["namespaces"] == 2, || {
                status.to_string()
            }))
        },
    )
    .await?;
    assert!(
        management
            .find(kinds::FAULT, &other.namespace, &fault)
            .await?
            .is_none()
    );
    let cluster = first.plain("cluster", Shape::new(1, 0)).await?;
    let neighbour = other.plain("cluster", Shape::new(1, 0)).await?;
    cluster
        .until("the ClusterFault to have hit", async || {
            let status = management.get(kinds::CLUSTER_FAULT, "", name).await?["status"].clone();
            Ok(Look::when(status["hits"].as_i64() > Some(0), || {
                status.to_string()
            }))
        })
        .await?;

    // Those who work in the namespace see the Fault. What they do to it is undone, and the ClusterFault is out of reach.
    management
        .apply(
            &first.namespace,
            &[tenants::binding(&first.namespace, tenants::USER)],
        )
        .await?;
    let tenant = Management::connect_as(tenants::USER).await?;
    until("the tenant to have permissions", LIMIT, async || {
        let seen = tenant.get(kinds::FAULT, &first.namespace, &fault).await;
        Ok(Look::when(seen.is_ok(), || format!("{seen:?}")))
    })
    .await?;
    let harmless = json!({"spec": {"match": {"operations": ["DeleteInstance"]}}});
    tenant
        .patch(kinds::FAULT, &first.namespace, &fault, &harmless)
        .await?;
    let original = json!(["CreateInstance"]);
    until("the Fault to be as it was", LIMIT, async || {
        let seen = management.get(kinds::FAULT, &first.namespace, &fault).await?;
        Ok(Look::when(
            seen["spec"]["match"]["operations"] == original,
            || seen["spec"].to_string(),
        ))
    })
    .await?;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let before = uid(&management.get(kinds::FAULT, &first.namespace, &fault).await?);
    tenant.delete(kinds::FAULT, &first.namespace, &fault).await?;
    until("the Fault to be back", LIMIT, async || {
        let seen = management.find(kinds::FAULT, &first.namespace, &fault).await?;
        let is_new = seen.as_ref().is_some_and(|seen| uid(seen) != before);
        Ok(Look::when(is_new, || format!("{seen:?}")))
    })
    .await?;
    let refused = tenant.apply("", &[no_room(name, &[])]).await;
    let error = format!("{:#}", refused.expect_err("it is for operators"));
    assert!(error.contains("forbidden"), "{error}");
    neighbour.settled(1, 0).await?;

    management.delete(kinds::CLUSTER_FAULT, "", name).await?;
    cluster.settled(1, 0).await?;
    for scope in [&first, &second] {
        until("the Fault to be gone", LIMIT, async || {
            let seen = management.find(kinds::FAULT, &scope.namespace, &fault).await?;
            Ok(Look::when(seen.is_none(), || format!("{seen:?}")))
        })
        .await?;
    }
    first.finish().await?;
    second.finish().await?;
    other.finish().await
}
