//! The four kinds of pools behind one trait.

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt, core::object::HasStatus};
use nephele_api::ipam::{
    PoolKind,
    v1alpha2::{
        GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterIPPoolSpec,
        InClusterPrefixPool, InClusterPrefixPoolSpec, PoolStatus,
    },
};
use nephele_controller::{Kind, Readable, scoped, unreadable};
use serde::Serialize;

use super::key::PoolKey;

/// The spec of a pool, by what it allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolSpec {
    /// Single addresses.
    Addresses(InClusterIPPoolSpec),
    /// IPv6 prefixes.
    Prefixes(InClusterPrefixPoolSpec),
    /// A spec that cannot be read; the message says where.
    Unreadable(String),
}

/// An object of one of the four kinds.
pub(crate) trait PoolObject: Kind + HasStatus<Status: Serialize + PartialEq> + PartialEq {
    /// The kind.
    const KIND: PoolKind;

    /// The API of this kind in `namespace`, or in all namespaces. Cluster-scoped kinds ignore `namespace`.
    fn api(client: Client, namespace: Option<&str>) -> Api<Self>;

    /// The same, for watches.
    fn readable(client: Client, namespace: Option<&str>) -> Api<Readable<Self>>;

    fn pool_spec(&self) -> PoolSpec;

    fn pool_status(&self) -> PoolStatus;

    fn set_pool_status(&mut self, status: PoolStatus);

    fn key(&self) -> PoolKey {
        PoolKey {
            kind: Self::KIND,
            namespace: self.namespace().unwrap_or_default(),
            name: self.name_any(),
        }
    }
}

macro_rules! pool_object {
    ($kind:ident, $spec:ident, $api:expr) => {
        impl PoolObject for $kind {
            const KIND: PoolKind = PoolKind::$kind;

            fn api(client: Client, namespace: Option<&str>) -> Api<Self> {
                $api(client, namespace)
            }

            fn readable(client: Client, namespace: Option<&str>) -> Api<Readable<Self>> {
                $api(client, namespace)
            }

            fn pool_spec(&self) -> PoolSpec {
                match unreadable(&self.metadata) {
                    Some(mistake) => PoolSpec::Unreadable(mistake.to_owned()),
                    None => PoolSpec::$spec(self.spec.clone()),
                }
            }

            fn pool_status(&self) -> PoolStatus {
                self.status.clone().unwrap_or_default()
            }

            fn set_pool_status(&mut self, status: PoolStatus) {
                self.status = Some(status);
            }
        }
    };
}

fn global<K>(client: Client, _: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = ()>,
{
    Api::all(client)
}

fn local<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    scoped(client, namespace)
}

pool_object!(InClusterIPPool, Addresses, local);
pool_object!(GlobalInClusterIPPool, Addresses, global);
pool_object!(InClusterPrefixPool, Prefixes, local);
pool_object!(GlobalInClusterPrefixPool, Prefixes, global);
