//! A management API with the controllers, and helpers that create objects and wait for states.

use std::num::NonZeroU16;

use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::{
    Client, Resource, ResourceExt as _,
    api::{Api, DeleteParams, Patch, PatchParams, PostParams},
};
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, ClusterSpec, ObjectReference},
    ipam::{
        GROUP, PoolKind,
        v1alpha2::{
            GlobalInClusterIPPool, IPAddressCounts, InClusterIPPool, InClusterIPPoolSpec,
            InClusterPrefixPool, InClusterPrefixPoolSpec, PoolStatus,
        },
        v1beta2::{IPAddress, IPAddressClaim, IPAddressClaimSpec},
    },
};
use nephele_controller::Clock;
use nephele_ipam_controller::{Metrics, OverlapPolicy, Settings};
use nephele_testkit::{Backstage, ManagementApi, Stage, eventually_of, objects::NAMESPACE};
use prometheus::Registry;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// A second namespace, besides the default one.
pub(crate) const OTHER: &str = "other";

pub(crate) struct World {
    pub(crate) api: ManagementApi,
    pub(crate) registry: Registry,
    running: Stage,
}

pub(crate) fn settings() -> Settings {
    Settings {
        watch_namespace: None,
        watch_filter: None,
        concurrency: NonZeroU16::new(64).expect("not zero"),
        reclaim_orphans: false,
        overlap: OverlapPolicy::Off,
        seed: "test".into(),
    }
}

/// Starts the controllers of one process with any client.
pub(crate) fn controllers(client: Client, clock: Clock, settings: Settings) -> (Registry, Stage) {
    let Backstage {
        client,
        registry,
        services,
        shutdown,
    } = Backstage::of(client, clock);
    let metrics = Metrics::register(&registry).expect("a new registry");
    let run = nephele_ipam_controller::run(client, services, metrics, settings, shutdown.clone());
    (registry, Stage::of(shutdown, run))
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(settings()).await
    }

    pub(crate) async fn start_with(settings: Settings) -> Self {
        let api = ManagementApi::start();
        let other = Namespace {
            metadata: ObjectMeta {
                name: Some(OTHER.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(api.client())
            .create(&PostParams::default(), &other)
            .await
            .expect("a namespace");
        Self::over(api, settings)
    }

    pub(crate) fn over(api: ManagementApi, settings: Settings) -> Self {
        let client = api.client();
        Self::through(api, client, settings)
    }

    /// Starts controllers that reach the management API through this client.
    pub(crate) fn through(api: ManagementApi, client: Client, settings: Settings) -> Self {
        let (registry, running) = controllers(client, api.clock(), settings);
        Self {
            api,
            registry,
            running,
        }
    }

    /// Stops the controllers, which lose all state in memory.
    pub(crate) async fn stop(self) -> ManagementApi {
        self.running.stop().await;
        self.api
    }

    pub(crate) async fn restart(self) -> Self {
        Self::over(self.stop().await, settings())
    }

    // --- Helpers that create and change objects.

    pub(crate) async fn pool(&self, name: &str, spec: InClusterIPPoolSpec) -> InClusterIPPool {
        self.pool_in(NAMESPACE, name, spec).await
    }

    pub(crate) async fn pool_in(
        &self,
        namespace: &str,
        name: &str,
        spec: InClusterIPPoolSpec,
    ) -> InClusterIPPool {
        let mut pool = InClusterIPPool::new(name, spec);
        pool.metadata.namespace = Some(namespace.into());
        self.create_in(namespace, &pool).await
    }

    pub(crate) async fn global_pool(&self, name: &str, spec: InClusterIPPoolSpec) -> GlobalInClusterIPPool {
        let pool = GlobalInClusterIPPool::new(name, spec);
        Api::all(self.api.client())
            .create(&PostParams::default(), &pool)
            .await
            .expect("a global pool")
    }

    pub(crate) async fn prefix_pool(&self, name: &str, spec: InClusterPrefixPoolSpec) -> InClusterPrefixPool {
        let mut pool = InClusterPrefixPool::new(name, spec);
        pool.metadata.namespace = Some(NAMESPACE.into());
        self.create_in(NAMESPACE, &pool).await
    }

    pub(crate) async fn claim(&self, name: &str, kind: PoolKind, pool: &str) -> IPAddressClaim {
        self.create_in(NAMESPACE, &claim(name, kind, pool)).await
    }

    pub(crate) async fn create_in<K>(&self, namespace: &str, object: &K) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let mut object = object.clone();
        object.meta_mut().namespace = Some(namespace.into());
        let created = self
            .api_in::<K>(namespace)
            .create(&PostParams::default(), &object)
            .await;
        created.unwrap_or_else(|error| panic!("{} is not taken: {error}", object.name_any()))
    }

    pub(crate) fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.api.client(), namespace)
    }

    pub(crate) async fn cluster(&self, name: &str, paused: Option<bool>, annotated: bool) -> Cluster {
        let mut cluster = Cluster {
            metadata: ObjectMeta {
                name: Some(name.into()),
                ..ObjectMeta::default()
            },
            spec: ClusterSpec {
                paused,
                ..ClusterSpec::default()
            },
            status: None,
        };
        if annotated {
            cluster
                .annotations_mut()
                .insert(nephele_controller::PAUSED_ANNOTATION.into(), String::new());
        }
        self.create_in(NAMESPACE, &cluster).await
    }

    /// Sets or removes the annotation that pauses an object.
    pub(crate) async fn set_paused<K>(&self, name: &str, paused: bool)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let value = if paused { json!("") } else { Value::Null };
        let patch =
            json!({ "metadata": { "annotations": { nephele_controller::PAUSED_ANNOTATION: value } } });
        self.api.patch::<K>(name, &patch).await;
    }

    // --- Helpers that wait for states.

    /// Waits until the claim has its address, and returns its IPAddress.
    pub(crate) async fn bound(&self, name: &str) -> IPAddress {
        self.bound_in(NAMESPACE, name).await
    }

    pub(crate) async fn bound_in(&self, namespace: &str, name: &str) -> IPAddress {
        let claim = self
            .eventually::<IPAddressClaim>(namespace, name, "to be bound", |claim| {
                claim.address_name().is_some() && is_ready(claim)
            })
            .await;
        let address = claim.address_name().expect("it is bound");
        self.api_in(namespace)
            .get(address)
            .await
            .expect("the IPAddress is there before it is told of")
    }

    /// Waits until the claim reports that it waits for this reason, and returns the message.
    pub(crate) async fn waits(&self, name: &str, expected: &str) -> String {
        let claim = self
            .eventually::<IPAddressClaim>(NAMESPACE, name, expected, |claim| {
                ready(claim).is_some_and(|ready| ready.status == "False" && ready.reason == expected)
            })
            .await;
        ready(&claim).expect("just seen").message.clone()
    }

    /// Waits until an object satisfies `wanted`.
    pub(crate) async fn eventually<K>(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool + Send + Sync,
    ) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let is_so = |object: Option<&K>| object.is_some_and(&wanted);
        let found = eventually_of(&self.api_in(namespace), name, what, is_so).await;
        found.expect("an absent object is not as wanted")
    }

    pub(crate) async fn gone<K>(&self, namespace: &str, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        eventually_of(&self.api_in::<K>(namespace), name, "to be gone", |object| {
            object.is_none()
        })
        .await;
    }

    /// Waits until the pool has these counts: total, used, free, out of range.
    pub(crate) async fn counts(&self, pool: &str, wanted: [i64; 4]) {
        let wanted = counts(wanted);
        let is = |pool: &InClusterIPPool| counted(pool.status.as_ref()) == Some(wanted);
        self.eventually::<InClusterIPPool>(NAMESPACE, pool, "to count so", is)
            .await;
    }

    pub(crate) async fn delete<K>(&self, namespace: &str, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let deleted = self
            .api_in::<K>(namespace)
            .delete(name, &DeleteParams::default())
            .await;
        deleted.unwrap_or_else(|error| panic!("{namespace}/{name} is not deleted: {error}"));
    }

    /// Removes the finalizers of an object by force.
    pub(crate) async fn strip<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.api
            .patch::<K>(name, &json!({ "metadata": { "finalizers": null } }))
            .await;
    }

    pub(crate) async fn addresses(&self) -> Vec<IPAddress> {
        Api::<IPAddress>::all(self.api.client())
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list")
            .items
    }

    pub(crate) async fn patch_global<K>(&self, name: &str, patch: &Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        Api::<K>::all(self.api.client())
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }
}

/// The spec of a pool with these addresses.
pub(crate) fn spec(addresses: &[&str], prefix: i32, gateway: &str) -> InClusterIPPoolSpec {
    InClusterIPPoolSpec {
        addresses: addresses.iter().map(|entry| (*entry).to_owned()).collect(),
        prefix,
        gateway: gateway.into(),
        ..InClusterIPPoolSpec::default()
    }
}

/// The spec of a pool with these prefixes and this length of allocated prefixes.
pub(crate) fn prefixes(prefixes: &[&str], length: i32) -> InClusterPrefixPoolSpec {
    InClusterPrefixPoolSpec {
        prefixes: prefixes.iter().map(|entry| (*entry).to_owned()).collect(),
        allocation_prefix_length: length,
        ..InClusterPrefixPoolSpec::default()
    }
}

pub(crate) fn claim(name: &str, kind: PoolKind, pool: &str) -> IPAddressClaim {
    let reference = ObjectReference {
        api_group: GROUP.into(),
        kind: kind.as_str().into(),
        name: pool.into(),
    };
    let mut claim = IPAddressClaim::new(
        name,
        IPAddressClaimSpec {
            cluster_name: String::new(),
            pool_ref: reference,
        },
    );
    claim.metadata.namespace = Some(NAMESPACE.into());
    claim
}

/// An IPAddress that is created by hand.
pub(crate) fn reservation(name: &str, pool: &str, address: &str) -> IPAddress {
    let spec = json!({
        "claimRef": { "name": name },
        "poolRef": { "apiGroup": GROUP, "kind": "InClusterIPPool", "name": pool },
        "address": address,
        "prefix": 24,
    });
    IPAddress::new(name, serde_json::from_value(spec).expect("a spec"))
}

pub(crate) fn ready(claim: &IPAddressClaim) -> Option<&Condition> {
    conditions::find(&claim.status.as_ref()?.conditions, types::READY)
}

pub(crate) fn is_ready(claim: &IPAddressClaim) -> bool {
    ready(claim).is_some_and(|ready| ready.status == "True")
}

/// Counts from total, used, free, out of range.
pub(crate) fn counts([total, used, free, out_of_range]: [i64; 4]) -> IPAddressCounts {
    IPAddressCounts {
        total,
        free,
        used,
        out_of_range,
    }
}

pub(crate) fn counted(status: Option<&PoolStatus>) -> Option<IPAddressCounts> {
    status?.ip_addresses
}
