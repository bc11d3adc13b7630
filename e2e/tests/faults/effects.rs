//! What Cluster API does when single effects of a Fault, or the limits of a cloud's API, hit a cluster. The table in the book
//! has these rows.

use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

use crate::lifecycle::{
    faults::{begin, until_control_plane, workers},
    remediation::{ON_FIRE, health_check, replaced, worker},
};

#[tokio::test]
async fn control_plane_is_not_available_while_etcd_is_slow_or_hides_a_member() -> anyhow::Result<()> {
    let scope = Scope::new("etcd").await?;
    let cluster = scope.plain("cluster", Shape::new(3, 1)).await?;
    cluster.settled(3, 1).await?;

    let slow = json!({"match": {"names": [cluster.name]}, "effect": {"etcd": {"slow": {"duration": "20s"}}}});
    begin(&scope, "slow", &slow).await?;
    control_plane_says(
        &cluster,
        "EtcdClusterHealthy",
        "Unknown",
        "context deadline exceeded",
    )
    .await?;
    control_plane_says(
        &cluster,
        "Available",
        "False",
        "Waiting for etcd to report the list of members",
    )
    .await?;
    heal(&scope, "slow").await?;
    control_plane_says(&cluster, "EtcdClusterHealthy", "True", "").await?;

    let hidden = json!({
        "match": {"machineSelector": {"matchExpressions": [
            {"key": "cluster.x-k8s.io/control-plane", "operator": "Exists"},
        ]}},
        "effect": {"etcd": {"hiddenMember": {}}},
        "budget": {"count": 1},
    });
    let before = names(&cluster).await?;
    begin(&scope, "hidden", &hidden).await?;
    control_plane_says(&cluster, "Available", "Unknown", "Failed to get etcd members").await?;
    heal(&scope, "hidden").await?;
    control_plane_says(&cluster, "Available", "True", "").await?;
    cluster.settled(3, 1).await?;
    assert_eq!(names(&cluster).await?, before, "no machine was replaced");
    scope.finish().await
}

#[tokio::test]
async fn clients_see_what_is_behind_the_load_balancer() -> anyhow::Result<()> {
    let scope = Scope::new("balancer").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let of_cluster =
        |effect: Value| json!({"match": {"names": [cluster.name]}, "effect": {"loadBalancer": effect}});

    begin(&scope, "empty", &of_cluster(json!({"noBackends": {}}))).await?;
    client_sees(&cluster, Some("tls handshake eof")).await?;
    heal(&scope, "empty").await?;
    client_sees(&cluster, None).await?;

    begin(&scope, "wrong", &of_cluster(json!({"wrongBackends": {}}))).await?;
    client_sees(&cluster, Some("certificate")).await?;
    cluster
        .until("the connection to be probed as False", async || {
            let object = cluster.get().await?;
            Ok(Look::when(
                state::is(&object, "RemoteConnectionProbe", "False"),
                || state::line(&object),
            ))
        })
        .await?;
    heal(&scope, "wrong").await?;
    client_sees(&cluster, None).await?;

    // Watches break off again and again; Cluster API's continue.
    let broken = json!({"reset": {"after": "2s", "probability": "0.5"}});
    begin(&scope, "broken", &of_cluster(broken)).await?;
    cluster
        .patch(
            kinds::MACHINE_DEPLOYMENT,
            &cluster.workers(),
            &json!({"spec": {"replicas": 2}}),
        )
        .await?;
    cluster.settled(1, 2).await?;
    heal(&scope, "broken").await?;
    scope.finish().await
}

#[tokio::test]
async fn node_with_a_foreign_provider_id_is_not_found_and_a_flapping_one_is_kept() -> anyhow::Result<()> {
    let scope = Scope::new("nodes").await?;
    let workers = json!({"machineSelector": workers()});
    begin(
        &scope,
        "forged",
        &json!({"match": workers, "effect": {"wrongProviderID": {}}}),
    )
    .await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    worker_is(&cluster, "Unknown", "Waiting for a Node with spec.providerID").await?;
    let seen = scope
        .management
        .get(kinds::FAULT, &scope.namespace, "forged")
        .await?;
    assert_eq!(
        (&seen["status"]["hits"], &seen["status"]["matched"]),
        (&json!(1), &json!(1))
    );
    heal(&scope, "forged").await?;
    cluster.settled(1, 1).await?;

    let before = names(&cluster).await?;
    let flap = json!({"match": workers, "effect": {"flap": {"down": "8s", "up": "8s"}}});
    begin(&scope, "flapping", &flap).await?;
    for _ in 0..2 {
        worker_is(&cluster, "Unknown", "").await?;
        worker_is(&cluster, "True", "").await?;
    }
    heal(&scope, "flapping").await?;
    cluster.settled(1, 1).await?;
    assert_eq!(names(&cluster).await?, before, "no machine was replaced");
    scope.finish().await
}

#[tokio::test]
async fn worker_joins_when_kubeadm_succeeds_and_is_found_when_reads_are_fresh() -> anyhow::Result<()> {
    let scope = Scope::new("joining").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let scale = async |replicas: i64| {
        let wanted = json!({"spec": {"replicas": replicas}});
        cluster
            .patch(kinds::MACHINE_DEPLOYMENT, &cluster.workers(), &wanted)
            .await
    };

    let broken = json!({
        "match": {"machineSelector": workers()},
        "effect": {"bootstrap": {"failedPhase": "kubelet-start"}},
    });
    begin(&scope, "broken", &broken).await?;
    scale(2).await?;
    cluster
        .worker_says("kubeadm failed in phase kubelet-start (Fault broken)")
        .await?;
    heal(&scope, "broken").await?;
    cluster.settled(1, 2).await?;

    let stale = json!({"match": {"names": [cluster.name]}, "effect": {"apiServer": {"staleReads": {}}}});
    begin(&scope, "stale", &stale).await?;
    scale(3).await?;
    until("all Nodes to be registered", LIMIT, async || {
        let machines = scope
            .management
            .list(kinds::IN_MEMORY_MACHINE, &scope.namespace, "")
            .await?;
        let up = machines
            .iter()
            .filter(|machine| state::is(machine, "NodeProvisioned", "True"))
            .count();
        Ok(Look::when(up == 4, || machines.iter().map(state::line).collect()))
    })
    .await?;
    worker_is(&cluster, "Unknown", "Waiting for a Node with spec.providerID").await?;
    assert_eq!(
        cluster.workload().await?.nodes().await?.len(),
        3,
        "the new Node is not read"
    );
    heal(&scope, "stale").await?;
    cluster.settled(1, 3).await?;
    scope.finish().await
}

/// The health check waits for an hour from the transition of the condition, which the kubelet dates.
#[tokio::test]
async fn machine_whose_clock_is_behind_is_replaced_before_the_timeout() -> anyhow::Result<()> {
    let scope = Scope::new("skew").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let checks = json!({
        "unhealthyNodeConditions": [{"type": ON_FIRE, "status": "True", "timeoutSeconds": 3600}],
    });
    scope
        .management
        .apply(&scope.namespace, &[health_check(&cluster, &checks)])
        .await?;
    let (machine, node) = worker(&cluster).await?;
    let of_worker = |effect: Value| json!({"match": {"names": [machine]}, "effect": effect});
    begin(
        &scope,
        "behind",
        &of_worker(json!({"clockSkew": {"behind": "2h"}})),
    )
    .await?;
    begin(
        &scope,
        "burns",
        &of_worker(json!({"nodeCondition": {"type": ON_FIRE, "status": "True"}})),
    )
    .await?;
    replaced(&cluster, &machine, &node).await?;
    cluster.settled(1, 1).await?;
    scope.finish().await
}

/// Cluster API refuses two Nodes with one provider ID, and its health check knows the first Node by name.
#[tokio::test]
async fn machine_with_two_nodes_is_unknown_until_it_is_healed_and_leaves_neither_when_it_is_replaced()
-> anyhow::Result<()> {
    let scope = Scope::new("renamed").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let (machine, node) = worker(&cluster).await?;
    let other = format!("{node}-2");
    let reboots = json!({
        "match": {"names": [machine]},
        "effect": {"nodeRebootsAs": {"nameSuffix": "-2", "downFor": "10s"}},
    });
    begin(&scope, "renamed", &reboots).await?;
    worker_is(&cluster, "Unknown", "Node").await?;
    worker_is(&cluster, "Unknown", "Please check controller logs for errors").await?;
    let nodes = cluster.workload().await?.node_identities().await?;
    let of_worker: Vec<_> = nodes
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(&node))
        .collect();
    assert_eq!(of_worker, [&node, &other]);
    assert_eq!(
        worker(&cluster).await?,
        (machine.clone(), node.clone()),
        "the Machine keeps its Node"
    );
    heal(&scope, "renamed").await?;
    cluster.settled(1, 1).await?;
    assert_eq!(worker(&cluster).await?, (machine.clone(), node.clone()));

    begin(&scope, "renamed", &reboots).await?;
    worker_is(&cluster, "Unknown", "Please check controller logs for errors").await?;
    let silent = json!([{"type": "Ready", "status": "Unknown", "timeoutSeconds": 0}]);
    let check = health_check(&cluster, &json!({"unhealthyNodeConditions": silent}));
    scope.management.apply(&scope.namespace, &[check]).await?;
    replaced(&cluster, &machine, &node).await?;
    let nodes = cluster.workload().await?.node_identities().await?;
    assert!(
        nodes.iter().all(|(name, _)| *name != other),
        "{other} is still among {nodes:?}"
    );
    scope.finish().await
}

#[tokio::test]
async fn fault_with_a_schedule_comes_and_goes_and_one_of_a_caller_hits_no_other() -> anyhow::Result<()> {
    let scope = Scope::new("schedule").await?;
    let of_cluster = json!({
        "match": {"callers": ["cluster"]},
        "effect": {"fail": {"reason": "Throttled", "retryAfter": "1s"}},
        "budget": {"count": 1},
    });
    begin(&scope, "caller", &of_cluster).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let seen = scope
        .management
        .get(kinds::FAULT, &scope.namespace, "caller")
        .await?;
    assert_eq!(
        seen["status"]["lastHits"][0]["operation"],
        json!("CreateLoadBalancer"),
        "{}",
        seen["status"]
    );

    let before = names(&cluster).await?;
    let silence = json!({
        "match": {"machineSelector": workers()},
        "effect": {"notReady": {}},
        "budget": {"schedule": {"every": "20s", "for": "10s"}},
    });
    begin(&scope, "at-times", &silence).await?;
    for _ in 0..2 {
        worker_is(&cluster, "Unknown", "").await?;
        worker_is(&cluster, "True", "").await?;
    }
    until("the Fault to wait for a window", LIMIT, async || {
        let seen = scope
            .management
            .get(kinds::FAULT, &scope.namespace, "at-times")
            .await?;
        let status = &seen["status"];
        let waits = status["phase"] == "Waiting" && status["windows"].as_i64() >= Some(2);
        Ok(Look::when(waits, || status.to_string()))
    })
    .await?;
    heal(&scope, "at-times").await?;
    cluster.settled(1, 1).await?;
    assert_eq!(names(&cluster).await?, before, "no machine was replaced");
    scope.finish().await
}

#[tokio::test]
async fn machines_of_a_cloud_with_a_low_rate_and_late_reads_say_so_and_come_up() -> anyhow::Result<()> {
    let scope = Scope::new("limits").await?;
    let cloud = |api: Value| {
        json!({
            "apiVersion": "cloud.nephele.dev/v1alpha1",
            "kind": "SimulatedCloud",
            "metadata": {"name": "default"},
            "spec": {"api": api},
        })
    };
    let low = cloud(json!({"rate": 4, "burst": 2, "readAfterWriteLag": "2s"}));
    scope.management.apply(&scope.namespace, &[low]).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 4)).await?;
    cluster
        .worker_says("more than 4 calls a second, or 2 at once")
        .await?;
    cluster.settled(1, 4).await?;
    let cloud = scope
        .management
        .get(kinds::SIMULATED_CLOUD, &scope.namespace, "default")
        .await?;
    assert_eq!(cloud["status"]["instances"], json!(5), "none was created twice");
    scope.finish().await
}

#[tokio::test]
async fn machines_come_up_although_reads_lag_and_each_missed_read_is_counted() -> anyhow::Result<()> {
    let scope = Scope::new("lag").await?;
    scope
        .management
        .apply(&scope.namespace, &[default_cloud(&json!({}))])
        .await?;
    let late = json!({"match": {"operations": ["CreateInstance"]}, "effect": {"lag": {"duration": "4s"}}});
    begin(&scope, "late", &late).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 2)).await?;
    cluster
        .worker_says("do not show CreateInstance until 4s after it (Fault late)")
        .await?;
    cluster.settled(1, 2).await?;
    cloud_says(
        &scope,
        "each machine to have missed its creation once at least",
        |status| {
            let found = findings(status, "machine");
            found["missedReads"].as_i64() >= Some(3)
                && found["doubleCreates"] == 0
                && status["instances"] == 3
        },
    )
    .await?;
    heal(&scope, "late").await?;
    cluster.settled(1, 2).await?;
    scope.finish().await
}

#[tokio::test]
async fn creation_that_is_carried_out_twice_leaves_an_instance_that_is_found_and_deleted()
-> anyhow::Result<()> {
    let scope = Scope::new("duplicate").await?;
    scope
        .management
        .apply(&scope.namespace, &[default_cloud(&json!({}))])
        .await?;
    let twice = json!({"effect": {"duplicate": {"retryAfter": "1s"}}, "budget": {"count": 2}});
    begin(&scope, "twice", &twice).await?;
    let cluster = scope.plain("cluster", Shape::new(1, 2)).await?;
    cluster.settled(1, 2).await?;
    let before = names(&cluster).await?;
    cloud_says(&scope, "two instances to have no owner", |status| {
        let leaked = status["leakedInstances"].as_array().map_or(0, Vec::len);
        let of_fault = status["leakedInstances"].as_array().into_iter().flatten();
        let of_fault = of_fault.filter(|leaked| leaked["fault"] == "twice").count();
        (leaked, of_fault, &status["instances"]) == (2, 2, &json!(5))
            && findings(status, "machine")["doubleCreates"] == 2
    })
    .await?;
    let machines = cluster.machines(None).await?;
    let provider_ids: std::collections::BTreeSet<_> = machines
        .iter()
        .filter_map(|machine| machine["spec"]["providerID"].as_str())
        .collect();
    assert_eq!(
        provider_ids.len(),
        3,
        "one instance serves each machine: {provider_ids:?}"
    );

    let delete = default_cloud(&json!({"leakedInstances": "Delete"}));
    scope.management.apply(&scope.namespace, &[delete]).await?;
    cloud_says(
        &scope,
        "both to be deleted, and the number of double creations to stay",
        |status| {
            (&status["leaked"], &status["instances"]) == (&json!(0), &json!(3))
                && findings(status, "machine")["doubleCreates"] == 2
        },
    )
    .await?;
    heal(&scope, "twice").await?;
    cluster.settled(1, 2).await?;
    assert_eq!(names(&cluster).await?, before, "no machine was replaced");
    scope.finish().await
}

/// The cloud of the clusters in a namespace.
pub(super) fn default_cloud(spec: &Value) -> Value {
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "SimulatedCloud",
        "metadata": {"name": "default"},
        "spec": spec,
    })
}

/// What the status of a cloud says about a caller.
fn findings(status: &Value, caller: &str) -> Value {
    let all = status["findings"].as_array().into_iter().flatten();
    all.into_iter()
        .find(|found| found["caller"] == caller)
        .cloned()
        .unwrap_or_default()
}

/// Waits until the status of the cloud of a namespace is as expected.
pub(super) async fn cloud_says(
    scope: &Scope,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    until(what, LIMIT, async || {
        let cloud = scope
            .management
            .get(kinds::SIMULATED_CLOUD, &scope.namespace, "default")
            .await?;
        let status = &cloud["status"];
        Ok(Look::when(is_so(status), || status.to_string()))
    })
    .await
}

async fn heal(scope: &Scope, fault: &str) -> anyhow::Result<()> {
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, fault)
        .await
}

/// The names of the Machines.
async fn names(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let machines = cluster.machines(None).await?;
    let mut names: Vec<_> = machines
        .iter()
        .map(|machine| state::name(machine).to_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Waits until a condition of the control plane has this status and text.
async fn control_plane_says(
    cluster: &Cluster,
    kind: &str,
    status: &str,
    expected: &str,
) -> anyhow::Result<()> {
    until_control_plane(
        cluster,
        &format!("{kind} of the control plane to be {status}"),
        async || {
            let object = cluster
                .object(kinds::CONTROL_PLANE, &cluster.control_plane())
                .await?;
            Ok(Look::when(state::says(&object, kind, status, expected), || {
                state::line(&object)
            }))
        },
    )
    .await
}

/// Waits until the only worker's NodeHealthy has this status and text.
async fn worker_is(cluster: &Cluster, status: &str, expected: &str) -> anyhow::Result<()> {
    cluster
        .until(&format!("NodeHealthy of the worker to be {status}"), async || {
            let workers = cluster.machines(Some(Role::Worker)).await?;
            let is_so = workers
                .iter()
                .any(|machine| state::says(machine, "NodeHealthy", status, expected));
            Ok(Look::when(is_so, || workers.iter().map(state::line).collect()))
        })
        .await
}

/// Waits until a new client of the cluster gets this error, or none.
async fn client_sees(cluster: &Cluster, expected: Option<&str>) -> anyhow::Result<()> {
    until(&format!("a client to see {expected:?}"), LIMIT, async || {
        let workload = cluster.workload().await?;
        let seen = workload.nodes().await.map(|_| ());
        let is_so = match (&seen, expected) {
            (Ok(()), None) => true,
            (Err(error), Some(expected)) => format!("{error:#}").contains(expected),
            _ => false,
        };
        Ok(Look::when(is_so, || format!("{seen:?}")))
    })
    .await
}
