//! The effect of a ClusterClass's variables, and a check that writes to its clusters end.
//!
//! The test has a management cluster of its own: the five minutes in which nothing may change pass while other tests
//! run, and would be half of all the time of the tests that share a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_e2e::{
    Bare, Cluster, Look, Scope, Shape,
    cluster::Role,
    management::{Kind, kinds},
    scope::MADE,
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

/// The time in which nothing may change.
const QUIET: Duration = Duration::from_secs(300);

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// What else Cluster API and the provider write for a cluster of a class, and the class itself.
const ALSO_WRITTEN: [Kind; 8] = [
    kinds::SECRET,
    kinds::CLUSTER_CLASS,
    ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate"),
    (
        "controlplane.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmControlPlaneTemplate",
    ),
    kinds::IN_MEMORY_CLUSTER_TEMPLATE,
    kinds::IN_MEMORY_MACHINE_TEMPLATE,
    kinds::IN_MEMORY_MACHINE_POOL_TEMPLATE,
    ("", "v1", "Event"),
];

#[tokio::test]
async fn cluster_over_three_zones_with_a_machine_pool_comes_to_rest_and_keeps_its_endpoint()
-> anyhow::Result<()> {
    let bare = Bare::up("class-zones", None).await?;
    let scope = Scope::on(bare.management.clone(), "class-zones").await?;
    let behaviour = json!({"vm": {"provisioning": {"startupDuration": "2s"}}});
    let variables = |zones: &[&str]| {
        let zones: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
        json!([{"name": "zones", "value": zones}, {"name": "workerBehaviour", "value": behaviour}])
    };
    let workers = ZONES
        .map(|zone| json!({"class": "default-worker", "name": zone, "replicas": 1, "failureDomain": zone}));
    let pools = json!([{"class": "default-worker", "name": "pool", "replicas": 3}]);
    let cluster = scope
        .of_class_with("cluster", Shape::new(3, 0), |object| {
            let topology = &mut object["spec"]["topology"];
            topology["variables"] = variables(&ZONES);
            topology["workers"] = json!({"machineDeployments": workers, "machinePools": pools});
        })
        .await?;
    cluster.settled(3, 6).await?;
    assert_eq!(
        placement(&cluster, Role::ControlPlane).await?,
        ZONES.map(str::to_owned)
    );
    // The machines of the pool have no failure domain.
    let asked: Vec<_> = placement(&cluster, Role::Worker)
        .await?
        .into_iter()
        .filter(|zone| !zone.is_empty())
        .collect();
    assert_eq!(asked, ZONES.map(str::to_owned));
    let pools = cluster.of_kind(kinds::IN_MEMORY_MACHINE_POOL).await?;
    let made_from: Vec<_> = pools
        .iter()
        .map(|pool| &pool["spec"]["template"]["behaviour"])
        .collect();
    assert_eq!(made_from, [&behaviour]);
    let endpoint = cluster.endpoint().await?;

    let mut before = at_rest(&cluster).await?;
    let rest = jiff::Timestamp::now();
    tokio::time::sleep(QUIET).await;
    let mut after = written(&cluster).await?;
    for written in [&mut before, &mut after] {
        written.retain(|_, object| !tells_of_before(object, rest));
    }
    assert_eq!(
        changes(&before, &after),
        Vec::<String>::new(),
        "in {QUIET:?} of rest"
    );

    let more = json!({"spec": {"topology": {"variables": variables(&["zone-a", "zone-b", "zone-d"])}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &more).await?;
    until("the new zones to show", LIMIT, async || {
        let object = cluster.get().await?;
        let zones: Vec<_> = object["status"]["failureDomains"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let names: Vec<_> = zones.iter().filter_map(|zone| zone["name"].as_str()).collect();
        Ok(Look::when(names == ["zone-a", "zone-b", "zone-d"], || {
            format!("{zones:?}")
        }))
    })
    .await?;
    let infrastructure = cluster.infrastructure().await?;
    let published = &infrastructure["spec"]["controlPlaneEndpoint"];
    assert_eq!(
        (&published["host"], &published["port"]),
        (&json!(endpoint.0), &json!(endpoint.1))
    );
    assert_eq!(cluster.endpoint().await?, endpoint);
    scope.finish().await?;
    bare.down().await
}

/// The failure domains of the machines of a role, as their Machines report them, in order.
async fn placement(cluster: &Cluster, role: Role) -> anyhow::Result<Vec<String>> {
    let machines = cluster.machines(Some(role)).await?;
    let domain = |machine: &Value| {
        machine["status"]["failureDomain"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut domains: Vec<_> = machines.iter().map(domain).collect();
    domains.sort();
    Ok(domains)
}

/// Every object of the namespace, by kind and name.
type Written = BTreeMap<(&'static str, String), Value>;

async fn written(cluster: &Cluster) -> anyhow::Result<Written> {
    let mut all = Written::new();
    for kind in MADE.into_iter().chain(ALSO_WRITTEN) {
        for object in cluster.management.list(kind, &cluster.namespace, "").await? {
            all.insert((kind.2, state::name(&object).to_owned()), object);
        }
    }
    Ok(all)
}

/// The objects, once two reads ten seconds apart are equal: all effects of a cluster's last step are written within
/// that time.
async fn at_rest(cluster: &Cluster) -> anyhow::Result<Written> {
    let mut last = written(cluster).await?;
    let mut since = std::time::Instant::now();
    until(
        "everything that followed from being available",
        LIMIT,
        async || {
            let now = written(cluster).await?;
            let changed = changes(&last, &now);
            if changed.is_empty() && since.elapsed() >= Duration::from_secs(10) {
                return Ok(Look::Done(now));
            }
            if !changed.is_empty() {
                since = std::time::Instant::now();
                last = now;
            }
            Ok(Look::NotYet(changed.join("\n")))
        },
    )
    .await
}

/// Whether an object is an Event about something before the quiet time. When many clusters start at once, Cluster
/// API's managers send their Events minutes later.
fn tells_of_before(object: &Value, rest: jiff::Timestamp) -> bool {
    let happened = [&object["eventTime"], &object["lastTimestamp"]];
    let happened = happened
        .iter()
        .find_map(|time| time.as_str()?.parse::<jiff::Timestamp>().ok());
    object["kind"] == "Event" && happened.is_some_and(|happened| happened < rest)
}

/// The differences: objects that were created or deleted, and changed ones, with the changed parts.
fn changes(before: &Written, after: &Written) -> Vec<String> {
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    all.into_iter()
        .filter_map(|key| {
            let version = |all: &Written| {
                all.get(key)
                    .map(|object| object["metadata"]["resourceVersion"].clone())
            };
            let (kind, name) = key;
            match (before.get(key), after.get(key)) {
                (Some(_), Some(_)) if version(before) == version(after) => None,
                (Some(old), Some(new)) => Some(format!("{kind} {name}: {old}\n   became {new}")),
                (Some(_), None) => Some(format!("{kind} {name} went")),
                (None, Some(new)) => Some(format!("{kind} {name} came: {new}")),
                (None, None) => None,
            }
        })
        .collect()
}
