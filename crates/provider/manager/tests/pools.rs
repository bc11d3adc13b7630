//! The whole manager over an in-process management API: machines with addresses from pools. The manager both creates
//! and binds the claims.

use std::time::Duration;

use kube::ResourceExt;
use nephele_api::{
    conditions::{self, types},
    core::Cluster,
    infrastructure::v1beta2::{
        ClaimedAddress, ClusterNetwork, ClusterNetworkStatus, InMemoryCluster, InMemoryMachine,
        MachineNetwork, PoolReference,
    },
    ipam::{
        v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_manager::{Config, Manager, Options};
use nephele_testkit::{ManagementApi, objects};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn options() -> Options {
    Options {
        health_address: String::new(),
        diagnostics_address: String::new(),
        bind_address: "127.0.0.1".into(),
        workload_ports: "15100-15199".into(),
        ..Options::default()
    }
}

fn pool(name: &str, addresses: &str, prefix: i32) -> InClusterIPPool {
    let spec = InClusterIPPoolSpec {
        addresses: vec![addresses.into()],
        prefix,
        ..InClusterIPPoolSpec::default()
    };
    let mut pool = InClusterIPPool::new(name, spec);
    pool.metadata.namespace = Some(objects::NAMESPACE.into());
    pool
}

fn reference(name: &str) -> PoolReference {
    let api_group = "ipam.cluster.x-k8s.io".into();
    let kind = "InClusterIPPool".into();
    PoolReference {
        api_group,
        kind,
        name: name.into(),
    }
}

/// A worker on both pools of machines.
async fn machine(api: &ManagementApi, name: &str) -> InMemoryMachine {
    let machine = api.create(&objects::worker("demo", name)).await;
    let mut object = objects::in_memory_machine(&machine);
    let addresses_from_pools = ["v4", "v6"].map(reference).into();
    object.spec.network = Some(MachineNetwork { addresses_from_pools });
    api.create(&object).await
}

fn addresses(machine: &InMemoryMachine) -> Vec<String> {
    let status = machine.status.clone().unwrap_or_default();
    status
        .addresses
        .into_iter()
        .map(|address| address.address)
        .collect()
}

async fn ready(api: &ManagementApi, name: &str) -> InMemoryMachine {
    api.eventually::<InMemoryMachine>(name, "to be ready", |machine| {
        let status = machine.status.clone().unwrap_or_default();
        conditions::is_true(&status.conditions, types::READY)
    })
    .await
}

#[tokio::test]
async fn the_last_machine_says_which_pool_is_one_address_short_and_boots_when_it_grows() {
    let api = ManagementApi::start();
    let shutdown = CancellationToken::new();
    let config = Config::new(options()).expect("valid");
    let manager = Manager::build(config, api.client()).expect("nothing is listened on");
    let manager = tokio::spawn(manager.run(shutdown.clone()));
    for pool in [
        pool("load-balancers", "10.20.1.10", 24),
        pool("v4", "10.20.0.10-10.20.0.11", 24),
        pool("v6", "fd00:20::/64", 64),
    ] {
        api.create(&pool).await;
    }

    let cluster = api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    let control_plane_address_from_pool = Some(reference("load-balancers"));
    object.spec.network = Some(ClusterNetwork {
        control_plane_address_from_pool,
    });
    api.create(&object).await;
    let object = api
        .eventually("demo", "to be provisioned", InMemoryCluster::is_provisioned)
        .await;
    let address = ClaimedAddress {
        address: "10.20.1.10".into(),
        prefix: Some(24),
        gateway: String::new(),
    };
    let network = ClusterNetworkStatus {
        control_plane_address: Some(address),
    };
    assert_eq!(object.status.and_then(|status| status.network), Some(network));
    api.patch_status::<Cluster>("demo", &json!(objects::provisioned(true)))
        .await;

    for (name, expected) in [
        ("w0", ["10.20.0.10", "fd00:20::1", "w0"]),
        ("w1", ["10.20.0.11", "fd00:20::2", "w1"]),
    ] {
        machine(&api, name).await;
        assert_eq!(addresses(&ready(&api, name).await), expected);
    }
    machine(&api, "w2").await;
    let message = "Waiting for IPAddressClaim w2-0-0 of InClusterIPPool v4: PoolExhausted: ";
    api.eventually::<InMemoryMachine>("w2", message, |machine| {
        let status = machine.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, types::READY);
        ready.is_some_and(|ready| ready.message.contains(message))
    })
    .await;
    let grown = json!({ "spec": { "addresses": ["10.20.0.10-10.20.0.12"] } });
    api.patch::<InClusterIPPool>("v4", &grown).await;
    assert_eq!(
        addresses(&ready(&api, "w2").await),
        ["10.20.0.12", "fd00:20::3", "w2"]
    );

    for name in ["w0", "w1", "w2"] {
        api.delete::<InMemoryMachine>(name).await;
        api.eventually_gone::<InMemoryMachine>(name).await;
    }
    api.delete::<InMemoryCluster>("demo").await;
    api.eventually_gone::<InMemoryCluster>("demo").await;
    let claims = api
        .api::<IPAddressClaim>()
        .list(&Default::default())
        .await
        .expect("a list");
    let left = api
        .api::<IPAddress>()
        .list(&Default::default())
        .await
        .expect("a list");
    let names: Vec<_> = claims
        .iter()
        .map(IPAddressClaim::name_any)
        .chain(left.iter().map(IPAddress::name_any))
        .collect();
    assert_eq!(names, [""; 0]);
    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), manager).await;
    ended
        .expect("an end in bounded time")
        .expect("no panic")
        .expect("an orderly end");
}
