//! The address pools of the demo.

use anyhow::Context as _;
use kube::{Api, Client, Resource as _, ResourceExt as _, api::PostParams};
use nephele_api::{
    infrastructure::v1beta2::PoolReference,
    ipam,
    ipam::v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
};

const NAMESPACE: &str = "default";

/// Addresses of machines. There is one pool for each IP family: machines with addresses from both are dual-stack.
pub(super) const MACHINES_V4: &str = "machines-v4";
pub(super) const MACHINES_V6: &str = "machines-v6";
/// Addresses of load balancers.
pub(super) const LOAD_BALANCERS: &str = "load-balancers";

/// A reference to a pool, as clusters have it.
pub(super) fn reference(name: &str) -> PoolReference {
    let kind = InClusterIPPool::kind(&()).into_owned();
    PoolReference {
        api_group: ipam::GROUP.to_owned(),
        kind,
        name: name.to_owned(),
    }
}

/// Creates the pools.
pub(super) async fn create(client: &Client) -> anyhow::Result<()> {
    let api: Api<InClusterIPPool> = Api::namespaced(client.clone(), NAMESPACE);
    for pool in pools() {
        let created = api.create(&PostParams::default(), &pool).await;
        created.with_context(|| format!("failed to create InClusterIPPool {}", pool.name_any()))?;
    }
    Ok(())
}

/// Small pools, so that people can see them fill up: if a cluster is scaled up far enough, its last machine shows why
/// it waits.
fn pools() -> [InClusterIPPool; 3] {
    let pool = |name: &str, addresses: &str, prefix: i32, gateway: &str| {
        let spec = InClusterIPPoolSpec {
            addresses: vec![addresses.to_owned()],
            prefix,
            gateway: gateway.to_owned(),
            ..InClusterIPPoolSpec::default()
        };
        let mut pool = InClusterIPPool::new(name, spec);
        pool.metadata.namespace = Some(NAMESPACE.to_owned());
        pool
    };
    [
        pool(MACHINES_V4, "10.20.0.10-10.20.0.99", 24, "10.20.0.1"),
        pool(MACHINES_V6, "fd00:20::/64", 64, "fd00:20::1"),
        pool(LOAD_BALANCERS, "10.20.1.10-10.20.1.19", 24, "10.20.1.1"),
    ]
}
