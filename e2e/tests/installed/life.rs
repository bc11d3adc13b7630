//! An installation from `clusterctl init` to `clusterctl delete`.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use nephele_e2e::{
    Cluster, Look, Management, Scope, Shape,
    cluster::Role,
    management::{Kind, kinds},
    manager::{self, Provider},
    state, templates, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

use crate::installed::{
    available::Witness,
    clusterctl::{Releases, kubectl, objects},
};

/// The default host of every workload cluster.
const HOST: &str = "nephele-workload.nephele-system.svc";
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// How many clusters roll out at once.
const ROLLING: usize = 6;
/// The kind of clusterctl's inventory.
const PROVIDER: Kind = ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider");
/// clusterctl's labels of our providers, with their namespaces.
const PROVIDERS: [(&str, &str); 2] = [
    ("infrastructure-in-memory", "nephele-system"),
    ("ipam-in-cluster", "capi-ipam-in-cluster-system"),
];

#[tokio::test]
async fn clusters_live_through_upgrade_rescheduling_and_leaders_and_nothing_is_left_behind()
-> anyhow::Result<()> {
    let releases = Releases::from_environment()?;
    let management = Management::connect().await?;
    init(&releases).await?;
    are_restricted(&management).await?;

    let scope = Scope::on(management.clone(), "installed").await?;
    let zoned = zoned(&releases, &scope).await?;
    let names: Vec<_> = (0..ROLLING).map(|number| format!("rolling-{number}")).collect();
    let rolling = try_join_all(names.iter().map(|name| scope.plain(name, Shape::new(1, 1)))).await?;
    tokio::try_join!(zoned.settled(3, 6), all_settled(&rolling))?;
    in_every_zone(&zoned).await?;
    assert_eq!(zoned.endpoint().await?.0, HOST);

    let all: Vec<_> = [&zoned].into_iter().chain(&rolling).cloned().collect();
    upgraded(&releases, &scope, &zoned, &all).await?;
    rolled_under_changing_leaders(&scope, &zoned, &rolling).await?;

    scope.finish().await?;
    delete(&releases).await?;
    let left = left().await?;
    ensure!(!left.lines().any(is_ours), "{left}");
    Ok(())
}

/// Installs the first release of both providers.
pub(crate) async fn init(releases: &Releases) -> anyhow::Result<()> {
    let infrastructure = format!("in-memory:{}", releases.first);
    let ipam = format!("in-cluster:{}", releases.first);
    let init = [
        "init",
        "--infrastructure",
        &infrastructure,
        "--ipam",
        &ipam,
        "--wait-providers",
    ];
    releases.clusterctl(&init).await.map(drop)
}

/// Deletes both providers with their kinds and namespaces. One after the other: clusterctl cannot list the objects of one
/// provider while the kinds of another are being deleted.
pub(crate) async fn delete(releases: &Releases) -> anyhow::Result<()> {
    for provider in [["--ipam", "in-cluster"], ["--infrastructure", "in-memory"]] {
        let delete = ["delete", "--include-crd", "--include-namespace"];
        releases.clusterctl(&[&delete[..], &provider].concat()).await?;
        until("what belongs to a provider to be gone", LIMIT, async || {
            let left = left().await?;
            let left: Vec<_> = left.lines().filter(|line| of(provider[1], line)).collect();
            Ok(Look::when(left.is_empty(), || left.join("\n")))
        })
        .await?;
    }
    Ok(())
}

/// Our pods run in namespaces that enforce the restricted pod security standard.
async fn are_restricted(management: &Management) -> anyhow::Result<()> {
    for (_, name) in PROVIDERS {
        let namespace = management.get(kinds::NAMESPACE, "", name).await?;
        let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
        ensure!(level == "restricted", "{name} enforces {level}");
    }
    Ok(())
}

/// A cluster of the released class over three zones: three control plane machines, a worker in each zone, and three
/// machines in a machine pool.
async fn zoned(releases: &Releases, scope: &Scope) -> anyhow::Result<Cluster> {
    let name = "zoned";
    let mut args = vec![
        "generate",
        "cluster",
        name,
        "--target-namespace",
        &scope.namespace,
    ];
    args.extend(["--flavor", "topology", "--kubernetes-version", templates::VERSION]);
    args.extend([
        "--control-plane-machine-count",
        "3",
        "--worker-machine-count",
        "1",
    ]);
    let manifest = releases.clusterctl(&args).await?;
    let mut objects = objects(&manifest)?;
    let cluster = objects
        .iter_mut()
        .find(|object| object["kind"] == kinds::CLUSTER.2);
    let topology = &mut cluster.context("no Cluster was generated")?["spec"]["topology"];
    topology["variables"] = json!([{"name": "zones", "value": ZONES.map(|zone| json!({"name": zone}))}]);
    let workers =
        |zone: &str| json!({"class": "default-worker", "name": zone, "replicas": 1, "failureDomain": zone});
    topology["workers"] = json!({
        "machineDeployments": ZONES.map(workers),
        "machinePools": [{"class": "default-worker", "name": "pool", "replicas": 3}],
    });
    scope.management.apply(&scope.namespace, &objects).await?;
    Ok(Cluster {
        management: scope.management.clone(),
        namespace: scope.namespace.clone(),
        name: name.to_owned(),
    })
}

async fn all_settled(clusters: &[Cluster]) -> anyhow::Result<()> {
    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1)))
        .await
        .map(drop)
}

/// Each zone has machines of both roles, and the machines of the pool have no failure domain.
async fn in_every_zone(cluster: &Cluster) -> anyhow::Result<()> {
    for role in [Role::ControlPlane, Role::Worker] {
        let machines = cluster.machines(Some(role)).await?;
        let of_zones: Vec<_> = machines
            .iter()
            .filter_map(|machine| machine["spec"]["failureDomain"].as_str())
            .collect();
        let distinct: BTreeSet<_> = of_zones.iter().copied().collect();
        ensure!(distinct == ZONES.into(), "{role:?}: {of_zones:?}");
    }
    Ok(())
}

/// The address of the leading manager.
pub(crate) async fn address_of_leader(management: &Management) -> anyhow::Result<String> {
    let provider = Provider::Infrastructure;
    let leader = manager::leader(management, provider).await?;
    let pod = management
        .get(kinds::POD, provider.namespace(), &leader.pod)
        .await?;
    pod["status"]["podIP"]
        .as_str()
        .map(str::to_owned)
        .context("the leader's pod has no address")
}

/// Nodes with their uids, once they are as expected. They are read at the address of the pod, because only pods can
/// resolve the name of the endpoint.
async fn nodes_are(cluster: &Cluster, expected: Option<&[(String, String)]>) -> anyhow::Result<Nodes> {
    until("the Nodes to be there", LIMIT, async || {
        let address = address_of_leader(&cluster.management).await?;
        let nodes = cluster.workload_at(&address).await?.node_identities().await?;
        Ok(if expected.is_none_or(|expected| expected == nodes) {
            Look::Done(nodes)
        } else {
            Look::NotYet(format!("{nodes:?}"))
        })
    })
    .await
}

type Nodes = Vec<(String, String)>;

/// The next release replaces this one while clusters run. They stay available, and Cluster API still manages them.
async fn upgraded(
    releases: &Releases,
    scope: &Scope,
    zoned: &Cluster,
    all: &[Cluster],
) -> anyhow::Result<()> {
    let before = nodes_are(zoned, None).await?;
    ensure!(before.len() == 9, "{before:?}");
    let witness = Witness::follow(scope, all);
    let infrastructure = format!("in-memory:{}", releases.next);
    let ipam = format!("in-cluster:{}", releases.next);
    let upgrade = [
        "upgrade",
        "apply",
        "--infrastructure",
        &infrastructure,
        "--ipam",
        &ipam,
    ];
    releases
        .clusterctl(&[&upgrade[..], &["--wait-providers"]].concat())
        .await?;
    for (label, namespace) in PROVIDERS {
        let provider = scope.management.get(PROVIDER, namespace, label).await?;
        ensure!(
            provider["version"] == *releases.next,
            "{label} is {}",
            provider["version"]
        );
    }
    nodes_are(zoned, Some(&before)).await?;
    // Cluster API still reaches the clusters. Otherwise it would not see changes of machines. The pool grows: when it
    // shrinks, Cluster API may look for the Node of a machine that is gone, and the cluster is not available meanwhile.
    pool(zoned, 4).await?;
    zoned.settled(3, 7).await?;
    witness.all_the_time(all.len())
}

/// Sets the number of machines of the pool.
async fn pool(cluster: &Cluster, replicas: u32) -> anyhow::Result<()> {
    let pools = json!([{"class": "default-worker", "name": "pool", "replicas": replicas}]);
    let patch = json!({"spec": {"topology": {"workers": {"machinePools": pools}}}});
    cluster.patch(kinds::CLUSTER, &cluster.name, &patch).await
}

/// Leaders are deleted one after the other, while every cluster replaces its workers.
async fn rolled_under_changing_leaders(
    scope: &Scope,
    zoned: &Cluster,
    rolling: &[Cluster],
) -> anyhow::Result<()> {
    let management = &scope.management;
    let provider = Provider::Infrastructure;
    manager::scale(management, provider, 2).await?;
    let of_all = async || -> anyhow::Result<BTreeSet<String>> {
        let machines =
            try_join_all(rolling.iter().map(|cluster| cluster.machines(Some(Role::Worker)))).await?;
        let names = machines
            .iter()
            .flatten()
            .map(|machine| format!("{} {}", machine["kind"], uid(machine)));
        Ok(names.collect())
    };
    let before = of_all().await?;
    let nodes = nodes_are(zoned, None).await?;

    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let rollout = json!({"spec": {"rollout": {"after": now}}});
    try_join_all((rolling.iter()).map(|cluster| {
        let workers = cluster.workers();
        let rollout = &rollout;
        async move { cluster.patch(kinds::MACHINE_DEPLOYMENT, &workers, rollout).await }
    }))
    .await?;
    // A leader is deleted at the beginning and in the middle.
    for still in [ROLLING, ROLLING / 2] {
        until(
            &format!("{still} workers at most to be left"),
            LIMIT,
            async || {
                let old = of_all().await?.intersection(&before).count();
                Ok(Look::when(old <= still, || format!("{old} are left")))
            },
        )
        .await?;
        let leads = async || Ok(Look::Done(manager::leader(management, provider).await?));
        let leader = until("the leader's process to be known", LIMIT, leads).await?;
        management
            .delete(kinds::POD, provider.namespace(), &leader.pod)
            .await?;
        manager::another_leads(management, provider, &leader).await?;
    }
    until("all workers to be replaced", LIMIT, async || {
        let now = of_all().await?;
        let old = now.intersection(&before).count();
        let machines = now.len();
        Ok(Look::when(old == 0 && machines == ROLLING, || {
            format!("{old} old ones of {machines}")
        }))
    })
    .await?;
    all_settled(rolling).await?;
    zoned.settled(3, 7).await?;
    nodes_are(zoned, Some(&nodes)).await?;
    for cluster in rolling {
        // No object is stuck: all belong to existing machines.
        let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
        let lines: Vec<_> = machines.iter().map(state::line).collect();
        ensure!(machines.len() == 2, "{}:\n{}", cluster.name, lines.join("\n"));
    }
    Ok(())
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// All existing objects, one a line: kind, namespace, name, and provider.
pub(super) async fn left() -> anyhow::Result<String> {
    let resources = kubectl(&["api-resources", "--verbs=list", "--output=name"]).await?;
    // Events are in the namespace too, but they expire.
    let lasting: Vec<_> = resources
        .lines()
        .filter(|resource| !resource.starts_with("events"))
        .collect();
    let columns = "--output=custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name,L:.metadata.labels.cluster\\.x-k8s\\.io/provider";
    kubectl(&[
        "get",
        &lasting.join(","),
        "--all-namespaces",
        "--no-headers",
        columns,
    ])
    .await
}

/// Whether a line of [`left`] names one of our objects: by label, namespace, or name.
pub(super) fn is_ours(line: &str) -> bool {
    ["in-memory", "in-cluster"]
        .iter()
        .any(|provider| of(provider, line))
}

/// Whether a line names an object of this provider.
fn of(provider: &str, line: &str) -> bool {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (label, namespace) = PROVIDERS
        .into_iter()
        .find(|(label, _)| label.ends_with(provider))
        .expect("one of our providers is asked for");
    fields.contains(&label) || fields.iter().any(|field| field.starts_with(namespace))
}
