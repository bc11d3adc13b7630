//! A namespace is an account: those who work in one reach no other, and neither do their Faults.

use nephele_e2e::{Look, Management, Scope, Shape, cluster::Role, management::kinds, state};
use serde_json::{Value, json};

pub(super) const USER: &str = "student";

/// Lets a user work in the namespace.
pub(super) fn binding(namespace: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": namespace},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "nephele-system-tenant",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// A fault of everything that it can reach.
pub(super) fn silence() -> Value {
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Fault",
        "metadata": {"name": "silence"},
        "spec": {"effect": {"notReady": {}}},
    })
}

fn scenario() -> Value {
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "hello"},
        "spec": {"steps": [{"say": "hello"}]},
    })
}

#[tokio::test]
async fn tenant_lets_its_own_clusters_misbehave_and_no_others() -> anyhow::Result<()> {
    let own = Scope::new("tenant").await?;
    let other = Scope::new("tenant").await?;
    own.management
        .apply(&own.namespace, &[binding(&own.namespace, USER)])
        .await?;
    let neighbour = other.plain("cluster", Shape::new(1, 1)).await?;

    // The tenant makes a cluster, a Fault and a Scenario, and reads how to reach the cluster.
    let tenant = Scope {
        management: Management::connect_as(USER).await?,
        namespace: own.namespace.clone(),
    };
    let cluster = tenant.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    neighbour.settled(1, 1).await?;
    assert_eq!(cluster.workload().await?.nodes().await?.len(), 2);
    tenant
        .management
        .apply(&own.namespace, &[silence(), scenario()])
        .await?;
    cluster
        .until("the worker to be silent", async || {
            let workers = cluster.machines(Some(Role::Worker)).await?;
            let silent = workers
                .iter()
                .all(|machine| state::is(machine, "NodeHealthy", "Unknown"));
            Ok(Look::when(silent, || workers.iter().map(state::line).collect()))
        })
        .await?;
    let seen = tenant
        .management
        .get(kinds::FAULT, &own.namespace, "silence")
        .await?;
    assert_eq!(
        seen["status"]["matched"],
        json!(2),
        "the two machines of the tenant: {}",
        seen["status"]
    );
    // The neighbour does not notice.
    neighbour.settled(1, 1).await?;

    for object in [silence(), scenario()] {
        let refused = tenant.management.apply(&other.namespace, &[object]).await;
        let error = format!("{:#}", refused.expect_err("another namespace is out of reach"));
        assert!(error.contains("forbidden"), "{error}");
    }
    assert!(
        tenant
            .management
            .get(kinds::CLUSTER, &other.namespace, "cluster")
            .await
            .is_err()
    );

    tenant
        .management
        .delete(kinds::FAULT, &own.namespace, "silence")
        .await?;
    cluster.settled(1, 1).await?;
    own.finish().await?;
    other.finish().await
}
