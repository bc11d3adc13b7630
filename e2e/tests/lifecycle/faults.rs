//! Faults of the cloud, as users of Cluster API see them.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

fn fault(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "Fault",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The selector of machines of MachineDeployments.
pub(crate) fn workers() -> Value {
    json!({"matchExpressions": [{"key": "cluster.x-k8s.io/deployment-name", "operator": "Exists"}]})
}

/// Creates a fault and waits until it is in force, or was.
pub(crate) async fn begin(scope: &Scope, name: &str, spec: &Value) -> anyhow::Result<()> {
    scope
        .management
        .apply(&scope.namespace, &[fault(name, spec)])
        .await?;
    until(&format!("Fault {name} to be in force"), LIMIT, async || {
        let object = scope.management.get(kinds::FAULT, &scope.namespace, name).await?;
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        Ok(Look::when(["Active", "Exhausted"].contains(&phase), || {
            object["status"].to_string()
        }))
    })
    .await
}

#[tokio::test]
async fn worker_without_capacity_says_so_and_comes_up_and_lost_answers_leave_nothing() -> anyhow::Result<()> {
    let scope = Scope::new("faults").await?;
    // Each test of the group has a namespace of its own, so no other cluster is hit.
    let full = json!({
        "match": {
            "operations": ["CreateInstance"],
            "machineSelector": workers(),
        },
        "effect": {"fail": {"reason": "InsufficientCapacity", "message": "no host is free", "retryAfter": "1s"}},
    });
    begin(&scope, "full", &full).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster
        .worker_says("there is not enough capacity: no host is free (Fault full)")
        .await?;
    // The control plane is not hit.
    cluster
        .until("the control plane to be available", async || {
            let object = cluster.get().await?;
            Ok(Look::when(
                state::is(&object, "ControlPlaneAvailable", "True"),
                || state::line(&object),
            ))
        })
        .await?;
    let seen = scope
        .management
        .get(kinds::FAULT, &scope.namespace, "full")
        .await?;
    let last = &seen["status"]["lastHits"][0];
    assert_eq!(
        (&last["operation"], &last["cluster"]),
        (&json!("CreateInstance"), &json!(cluster.name))
    );

    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, "full")
        .await?;
    cluster.settled(1, 1).await?;

    etcd(&scope, &cluster).await?;
    api_servers(&scope, &cluster).await?;

    let lost = json!({
        "match": {"operations": ["DeleteInstance", "DeleteLoadBalancer"]},
        "effect": {"fail": {"reason": "LostAnswer", "retryAfter": "1s"}},
    });
    begin(&scope, "lost", &lost).await?;
    cluster.delete().await?;
    // Two machines and the load balancer, each of them once.
    until("every deletion to have lost its answer", LIMIT, async || {
        let object = scope
            .management
            .get(kinds::FAULT, &scope.namespace, "lost")
            .await?;
        let status = &object["status"];
        Ok(Look::when(status["hits"] == 3 && status["matched"] == 3, || {
            status.to_string()
        }))
    })
    .await?;
    scope.finish().await
}

/// The API servers of a workload cluster fail requests, and then they are down. Cluster API says so.
async fn api_servers(scope: &Scope, cluster: &Cluster) -> anyhow::Result<()> {
    let of_cluster =
        |effect: Value| json!({"match": {"names": [cluster.name]}, "effect": {"apiServer": effect}});
    let failing = of_cluster(json!({"error": {"code": 500}, "resources": ["nodes"]}));
    begin(scope, "failing", &failing).await?;
    let workload = cluster.workload().await?;
    let message = match workload.nodes().await {
        Ok(nodes) => anyhow::bail!("there are {} Nodes", nodes.len()),
        Err(error) => format!("{error:#}"),
    };
    anyhow::ensure!(
        message.contains("the API server has a simulated failure (Fault failing)"),
        "{message}"
    );
    let seen = scope
        .management
        .get(kinds::FAULT, &scope.namespace, "failing")
        .await?;
    assert_eq!(seen["status"]["affected"], json!([{"cluster": cluster.name}]));
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, "failing")
        .await?;
    until("the Nodes to be there again", LIMIT, async || {
        let nodes = workload.nodes().await;
        Ok(Look::when(nodes.is_ok(), || format!("{nodes:?}")))
    })
    .await?;

    begin(scope, "down", &of_cluster(json!({"down": {}}))).await?;
    until("the connection to be probed as False", LIMIT, async || {
        let object = cluster.get().await?;
        Ok(Look::when(
            state::is(&object, "RemoteConnectionProbe", "False"),
            || state::line(&object),
        ))
    })
    .await?;
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, "down")
        .await?;
    // Cluster API looks at a Cluster when its probe has failed for long, but not when the probe succeeds again
    // (controllers/clustercache/cluster_cache.go, shouldSendEvent). Without a change, that takes until its next resync.
    let touch = json!({"metadata": {"annotations": {"e2e.nephele.dev/touched": "after the outage"}}});
    until("the connection to be probed as True", LIMIT, async || {
        let touch_again = json!({"metadata": {"annotations": {"e2e.nephele.dev/touched": null}}});
        for patch in [&touch, &touch_again] {
            cluster.patch(kinds::CLUSTER, &cluster.name, patch).await?;
        }
        let object = cluster.get().await?;
        Ok(Look::when(
            state::is(&object, "RemoteConnectionProbe", "True"),
            || state::line(&object),
        ))
    })
    .await?;
    cluster.settled(1, 1).await
}

/// An etcd member raises an alarm. The control plane provider says so, when it looks.
async fn etcd(scope: &Scope, cluster: &Cluster) -> anyhow::Result<()> {
    begin(
        scope,
        "full-disk",
        &json!({"effect": {"etcd": {"alarm": "NoSpace"}}}),
    )
    .await?;
    member_is(cluster, "False", "NOSPACE").await?;
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, "full-disk")
        .await?;
    member_is(cluster, "True", "").await
}

/// Waits for something that the control plane provider tells of etcd. It looks when its own object changes, and otherwise
/// every ten minutes, so the object is changed before each check.
pub(crate) async fn until_control_plane(
    cluster: &Cluster,
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Look<()>>,
) -> anyhow::Result<()> {
    let mut looks = 0;
    until(what, LIMIT, async || {
        looks += 1;
        let touch = json!({"metadata": {"annotations": {"e2e.nephele.dev/looks": looks.to_string()}}});
        cluster
            .patch(kinds::CONTROL_PLANE, &cluster.control_plane(), &touch)
            .await?;
        look().await
    })
    .await
}

/// Waits until the condition of the only etcd member has this status and text.
async fn member_is(cluster: &Cluster, status: &str, text: &str) -> anyhow::Result<()> {
    until_control_plane(
        cluster,
        &format!("the etcd member to be healthy: {status}"),
        async || {
            let machines = cluster.machines(Some(Role::ControlPlane)).await?;
            let is_so = machines
                .first()
                .is_some_and(|machine| state::says(machine, "EtcdMemberHealthy", status, text));
            Ok(Look::when(is_so, || machines.iter().map(state::line).collect()))
        },
    )
    .await
}
