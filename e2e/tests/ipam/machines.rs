//! Machines with addresses from pools.

use std::collections::BTreeSet;

use nephele_e2e::{
    Cluster, Look, Scope, Shape,
    ipam::{Counts, GROUP},
    management::kinds,
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

/// Gives the machines of a cluster an address from each of these pools.
fn from_pools(pools: &[&str]) -> impl Fn(&mut Value) {
    let pools: Vec<_> = (pools.iter())
        .map(|name| json!({"apiGroup": GROUP, "kind": kinds::IP_POOL.2, "name": name}))
        .collect();
    move |object| {
        if object["kind"] == "InMemoryMachineTemplate" {
            object["spec"]["template"]["spec"]["network"] = json!({"addressesFromPools": pools});
        }
    }
}

#[tokio::test]
async fn cluster_on_a_dual_stack_pair_of_pools_becomes_available() -> anyhow::Result<()> {
    let scope = Scope::new("dual-stack").await?;
    let v4 = json!({"addresses": ["10.22.0.10-10.22.0.30"], "prefix": 24, "gateway": "10.22.0.1"});
    scope.pool(kinds::IP_POOL, "v4", v4).await?;
    scope
        .pool(
            kinds::IP_POOL,
            "v6",
            json!({"addresses": ["fd22::10-fd22::24"], "prefix": 64}),
        )
        .await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 2), from_pools(&["v4", "v6"]))
        .await?;
    cluster.settled(1, 2).await?;
    for pool in ["v4", "v6"] {
        scope.counts(kinds::IP_POOL, pool, Counts::of(21, 3)).await?;
    }

    let mut expected: Vec<_> = (0..3)
        .map(|index| [format!("10.22.0.{}", 10 + index)])
        .map(Vec::from)
        .collect();
    let of_machines = machine_addresses(&cluster).await?;
    let (v4, v6): (BTreeSet<_>, BTreeSet<_>) = of_machines
        .iter()
        .map(|addresses| (addresses[0].clone(), addresses[1].clone()))
        .unzip();
    assert_eq!(v4, expected.drain(..).flatten().collect(), "{of_machines:?}");
    assert_eq!(
        v6,
        ["fd22::10", "fd22::11", "fd22::12"].map(str::to_owned).into(),
        "{of_machines:?}"
    );
    until(
        "the Nodes to have the addresses of their Machines",
        LIMIT,
        async || {
            let mut of_nodes: Vec<_> = cluster
                .workload()
                .await?
                .nodes()
                .await?
                .iter()
                .map(internal)
                .collect();
            of_nodes.sort();
            Ok(Look::when(of_nodes == of_machines, || {
                format!("{of_nodes:?}, not {of_machines:?}")
            }))
        },
    )
    .await?;

    // A deleted machine releases its addresses.
    cluster.scale_workers(1).await?;
    cluster.settled(1, 1).await?;
    for pool in ["v4", "v6"] {
        scope.counts(kinds::IP_POOL, pool, Counts::of(21, 2)).await?;
    }
    cluster.delete().await?;
    scope.nothing_is_left().await?;
    for pool in ["v4", "v6"] {
        scope.counts(kinds::IP_POOL, pool, Counts::of(21, 0)).await?;
    }
    assert_eq!(
        scope.management.names(kinds::CLAIM, &scope.namespace).await?,
        [""; 0]
    );
    scope.finish().await
}

#[tokio::test]
async fn machine_without_an_address_says_why_and_recovers_when_the_pool_grows() -> anyhow::Result<()> {
    let scope = Scope::new("short").await?;
    let pool = |last: u8| json!({"addresses": [format!("10.23.0.10-10.23.0.{last}")], "prefix": 24});
    scope.pool(kinds::IP_POOL, "pool", pool(12)).await?;
    // One control plane machine and three workers need one address more than the pool has.
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 3), from_pools(&["pool"]))
        .await?;
    let machine = cluster
        .until(
            "the last Machine to say that the pool has no address",
            async || {
                let machines = cluster.machines(None).await?;
                let says = |machine: &&Value| {
                    let condition = state::condition(machine, "InfrastructureReady");
                    condition.is_some_and(|condition| {
                        let message = condition["message"].as_str().unwrap_or_default();
                        condition["status"] == "False"
                            && message.contains("PoolExhausted")
                            && message.contains("InClusterIPPool")
                            && message.contains("has no address left")
                    })
                };
                let short: Vec<_> = machines.iter().filter(says).map(state::name).collect();
                let [machine] = *short.as_slice() else {
                    return Ok(Look::NotYet(format!("{short:?}")));
                };
                // The other machines are ready.
                let ready = machines
                    .iter()
                    .filter(|machine| state::is(machine, "Ready", "True"))
                    .count();
                if (ready, machines.len()) != (3, 4) {
                    return Ok(Look::NotYet(format!("{ready} of {} are ready", machines.len())));
                }
                Ok(Look::Done(machine.to_owned()))
            },
        )
        .await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(3, 3)).await?;

    scope.apply_pool(kinds::IP_POOL, "pool", pool(20)).await?;
    cluster.settled(1, 3).await?;
    let machine = cluster.object(kinds::MACHINE, &machine).await?;
    assert_eq!(internal_of(&machine["status"]["addresses"]), ["10.23.0.13"]);
    scope.finish().await
}

#[tokio::test]
async fn load_balancer_shows_the_address_of_its_pool() -> anyhow::Result<()> {
    let scope = Scope::new("balancer").await?;
    scope
        .pool(
            kinds::IP_POOL,
            "pool",
            json!({"addresses": ["10.24.0.10"], "prefix": 24}),
        )
        .await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 0), |object| {
            if object["kind"] == "InMemoryCluster" {
                let pool = json!({"apiGroup": GROUP, "kind": kinds::IP_POOL.2, "name": "pool"});
                object["spec"] = json!({"network": {"controlPlaneAddressFromPool": pool}});
            }
        })
        .await?;
    cluster.settled(1, 0).await?;
    let shown = cluster.infrastructure().await?["status"]["network"]["controlPlaneAddress"].take();
    assert_eq!(shown, json!({"address": "10.24.0.10", "prefix": 24}));
    cluster.delete().await?;
    scope.nothing_is_left().await?;
    scope.counts(kinds::IP_POOL, "pool", Counts::of(1, 0)).await?;
    scope.finish().await
}

/// The addresses of each Machine, in order.
async fn machine_addresses(cluster: &Cluster) -> anyhow::Result<Vec<Vec<String>>> {
    let machines = cluster.machines(None).await?;
    let mut addresses: Vec<_> = machines
        .iter()
        .map(|machine| internal_of(&machine["status"]["addresses"]))
        .collect();
    addresses.sort();
    anyhow::ensure!(
        addresses.iter().all(|addresses| addresses.len() == 2),
        "{addresses:?}"
    );
    Ok(addresses)
}

fn internal_of(addresses: &Value) -> Vec<String> {
    let internal = addresses
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item["type"] == "InternalIP");
    internal
        .filter_map(|item| item["address"].as_str())
        .map(str::to_owned)
        .collect()
}

fn internal(node: &k8s_openapi::api::core::v1::Node) -> Vec<String> {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    addresses
        .filter(|item| item.type_ == "InternalIP")
        .map(|item| item.address.clone())
        .collect()
}
