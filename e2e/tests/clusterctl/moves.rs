//! Clusters move to another management cluster and back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::Context;
use nephele_e2e::{
    Bare, Cluster, Look, Management, Scope, Shape,
    ipam::POOLS,
    management::{Kind, kinds},
    state,
};
use serde_json::{Value, json};

use crate::clusterctl::identity::Identity;

/// The namespace of both providers on the other management cluster. It is not the default of either provider.
const ELSEWHERE: &str = "nephele-elsewhere";

/// Kinds whose objects all move.
const MOVED: [Kind; 18] = [
    kinds::CLUSTER,
    kinds::CLUSTER_CLASS,
    kinds::CONTROL_PLANE,
    kinds::MACHINE_DEPLOYMENT,
    kinds::MACHINE_SET,
    kinds::MACHINE_POOL,
    kinds::MACHINE,
    kinds::KUBEADM_CONFIG,
    kinds::IN_MEMORY_CLUSTER,
    kinds::IN_MEMORY_CLUSTER_TEMPLATE,
    kinds::IN_MEMORY_MACHINE,
    kinds::IN_MEMORY_MACHINE_TEMPLATE,
    kinds::IN_MEMORY_MACHINE_POOL,
    kinds::IN_MEMORY_MACHINE_POOL_TEMPLATE,
    kinds::CLAIM,
    kinds::ADDRESS,
    kinds::IP_POOL,
    kinds::SIMULATED_CLOUD,
];

#[tokio::test]
async fn clusters_move_there_and_back_and_out_of_a_folder_and_are_the_same() -> anyhow::Result<()> {
    let (source, target) = tokio::try_join!(
        Bare::up("move-source", None),
        Bare::up("move-target", Some(ELSEWHERE))
    )?;
    let scope = Scope::on(source.management.clone(), "move").await?;
    let namespace = scope.namespace.clone();
    let here = clusters(&scope).await?;
    let there = here
        .each_ref()
        .map(|cluster| cluster_on(cluster, &target.management));
    settled(&here, 1).await?;
    let before = identities(&here).await?;
    let everything = objects(&source.management, &namespace).await?;
    everything_belongs_to_something_that_moves(&everything)?;

    // Both managers listen on the same host, and a cluster of the other one was published with the port of one that moves.
    let [plain, ..] = &here;
    let keeper = published_as(&Scope::on(target.management.clone(), "keeper").await?, plain).await?;
    move_to(&source, &target, &namespace).await?;
    nothing_is_left(&source.management, &namespace).await?;
    port_belongs_to(&there[0], &keeper).await?;
    keeper.delete().await?;
    settled(&there, 1).await?;
    same(&identities(&there).await?, &before);
    assert_eq!(
        names(&objects(&target.management, &namespace).await?),
        names(&everything)
    );
    // The moved cluster works. The machines that are added there move back too.
    let [plain, ..] = &there;
    plain.scale_workers(2).await?;
    plain.settled(1, 2).await?;
    let grown = identities(&there).await?;

    move_to(&target, &source, &namespace).await?;
    nothing_is_left(&target.management, &namespace).await?;
    settled(&here, 2).await?;
    same(&identities(&here).await?, &grown);
    let [plain, ..] = &here;
    plain.scale_workers(1).await?;
    plain.settled(1, 1).await?;

    // A management cluster is lost, but its objects were backed up.
    let kept = identities(&here).await?;
    let folder = std::env::temp_dir().join(&namespace);
    let copy = folder.to_str().context("the path of a folder is not text")?;
    fs::create_dir_all(&folder).context("failed to make a folder")?;
    source
        .clusterctl(&["move", "--namespace", &namespace, "--to-directory", copy])
        .await?;
    source.down().await?;
    target.clusterctl(&["move", "--from-directory", copy]).await?;
    settled(&there, 1).await?;
    same(&identities(&there).await?, &kept);
    fs::remove_dir_all(&folder).context("failed to remove a folder")?;

    Scope {
        management: target.management.clone(),
        namespace,
    }
    .finish()
    .await?;
    target.down().await
}

/// A cluster with the endpoint of another one.
async fn published_as(scope: &Scope, other: &Cluster) -> anyhow::Result<Cluster> {
    let (host, port) = other.endpoint().await?;
    let endpoint = json!({"host": host, "port": port});
    let publish = |object: &mut Value| {
        if object["kind"] == "InMemoryCluster" {
            object["spec"]["controlPlaneEndpoint"] = endpoint.clone();
        }
    };
    let cluster = scope.plain_with("keeper", Shape::new(1, 0), publish).await?;
    // The manager of the other management cluster, on the same host, still listens on it.
    is_refused(&cluster, &format!("failed to listen on port {port}")).await?;
    Ok(cluster)
}

/// Waits until another cluster of the management cluster has the port of a cluster.
async fn port_belongs_to(cluster: &Cluster, owner: &Cluster) -> anyhow::Result<()> {
    let (_, port) = cluster.endpoint().await?;
    let owner = if owner.namespace == cluster.namespace {
        format!("cluster {}/{}", owner.namespace, owner.name)
    } else {
        "a cluster of another namespace".to_owned()
    };
    is_refused(
        cluster,
        &format!("failed to listen on port {port}: it belongs to {owner}"),
    )
    .await
}

/// Waits until a cluster says that it cannot have its port.
async fn is_refused(cluster: &Cluster, expected: &str) -> anyhow::Result<()> {
    let look = async || {
        let object = cluster.infrastructure().await?;
        let says = |condition: &Value| {
            condition["reason"] == "PortUnavailable"
                && condition["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(expected))
        };
        let is_refused = state::condition(&object, "LoadBalancerAvailable").is_some_and(says);
        Ok(Look::when(is_refused, || state::line(&object)))
    };
    cluster.until("the port is refused", look).await
}

/// One cluster in a SimulatedCloud with addresses from pools, one of a class, and one with a machine pool.
async fn clusters(scope: &Scope) -> anyhow::Result<[Cluster; 3]> {
    let namespaced = pool_reference(kinds::IP_POOL, "workers");
    let global_name = format!("{}-control-planes", scope.namespace);
    let global = pool_reference(kinds::GLOBAL_IP_POOL, &global_name);
    let range = |addresses: &str| json!({"addresses": [addresses], "prefix": 24, "gateway": "10.40.0.1"});
    scope
        .pool(kinds::IP_POOL, "workers", range("10.40.0.10-10.40.0.50"))
        .await?;
    scope
        .pool(
            kinds::GLOBAL_IP_POOL,
            &global_name,
            range("10.40.0.60-10.40.0.90"),
        )
        .await?;
    let cloud = json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": kinds::SIMULATED_CLOUD.2,
        "metadata": {"name": "north"},
        "spec": {
            "regions": [{"name": "here", "zones": [{"name": "north-1a"}]}],
            "instanceTypes": [{"name": "m.large", "cpu": 16, "memory": "64Gi", "architecture": "arm64"}],
        },
    });
    scope.management.apply(&scope.namespace, &[cloud]).await?;
    let plain = scope.plain_with("plain", Shape::new(1, 1), |object| {
        let of_workers = state::name(object).ends_with("-workers");
        if object["kind"] == "InMemoryMachineTemplate" {
            let pool = if of_workers { &namespaced } else { &global };
            object["spec"]["template"]["spec"] =
                json!({"instanceType": "m.large", "network": {"addressesFromPools": [pool]}});
        } else if object["kind"] == "InMemoryCluster" {
            object["spec"] = json!({
                "cloudRef": {"name": "north"}, "network": {"controlPlaneAddressFromPool": namespaced},
            });
        }
    });
    let of_class = scope.of_class("of-class", Shape::new(1, 1));
    let with_pool = scope.with_machine_pool("with-pool", Shape::new(1, 1));
    let (plain, of_class, with_pool) = tokio::try_join!(plain, of_class, with_pool)?;
    Ok([plain, of_class, with_pool])
}

fn pool_reference((group, _, kind): Kind, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

/// The cluster on another management cluster.
fn cluster_on(cluster: &Cluster, management: &Management) -> Cluster {
    Cluster {
        management: management.clone(),
        ..cluster.clone()
    }
}

async fn settled([plain, of_class, with_pool]: &[Cluster; 3], workers: usize) -> anyhow::Result<()> {
    tokio::try_join!(
        plain.settled(1, workers),
        of_class.settled(1, 1),
        with_pool.settled(1, 1)
    )
    .map(drop)
}

async fn identities(clusters: &[Cluster; 3]) -> anyhow::Result<Vec<Identity>> {
    futures::future::try_join_all(clusters.iter().map(Identity::of)).await
}

/// Compares cluster by cluster, so that differences are readable.
fn same(after: &[Identity], before: &[Identity]) {
    for (after, before) in after.iter().zip(before) {
        assert_eq!(after, before);
    }
}

async fn move_to(from: &Bare, to: &Bare, namespace: &str) -> anyhow::Result<()> {
    let kubeconfig = to.kubeconfig();
    let kubeconfig = kubeconfig
        .to_str()
        .context("the path of a kubeconfig is not text")?;
    from.clusterctl(&["move", "--namespace", namespace, "--to-kubeconfig", kubeconfig])
        .await
        .map(drop)
}

/// All objects of a namespace that move.
async fn objects(management: &Management, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for kind in MOVED {
        objects.extend(management.list(kind, namespace, "").await?);
    }
    objects.extend(
        management
            .list(kinds::SECRET, namespace, "cluster.x-k8s.io/cluster-name")
            .await?,
    );
    Ok(objects)
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects
        .iter()
        .map(|object| format!("{} {}", object["kind"], state::name(object)))
        .collect()
}

/// Nothing is left except addresses of global pools. clusterctl copies objects with a cluster-scoped owner and never
/// deletes them: the pool exists on both sides, and so do its addresses.
async fn nothing_is_left(management: &Management, namespace: &str) -> anyhow::Result<()> {
    let mut left = objects(management, namespace).await?;
    left.retain(|object| {
        let pool = object["spec"]["poolRef"]["kind"].as_str().unwrap_or_default();
        !(object["kind"] == "IPAddress" && pool.starts_with("Global"))
    });
    assert_eq!(names(&left), BTreeSet::new());
    Ok(())
}

/// Every object has a chain of owners up to an object that clusterctl moves by itself: a Cluster, a ClusterClass, or a
/// pool or cloud, whose definitions have clusterctl's label for that.
fn everything_belongs_to_something_that_moves(objects: &[Value]) -> anyhow::Result<()> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let by_uid: BTreeMap<String, &Value> = objects.iter().map(|object| (uid(object), object)).collect();
    let moves_by_itself = |object: &Value| {
        let pools = POOLS.map(|(_, _, kind)| kind);
        let kind = object["kind"].as_str().unwrap_or_default();
        ["Cluster", "ClusterClass", kinds::SIMULATED_CLOUD.2].contains(&kind) || pools.contains(&kind)
    };
    for object in objects {
        let mut reached = vec![object];
        let mut index = 0;
        while index < reached.len() {
            let owners = reached[index]["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten();
            for owner in owners.filter_map(|owner| owner["uid"].as_str()) {
                reached.extend(
                    by_uid
                        .get(owner)
                        .filter(|owner| !reached.iter().any(|seen| *seen == **owner)),
                );
            }
            index += 1;
        }
        let chain: Vec<_> = reached.iter().map(|object| state::line(object)).collect();
        anyhow::ensure!(
            reached.into_iter().any(moves_by_itself),
            "{}",
            chain.join("\n  owned by ")
        );
    }
    Ok(())
}
