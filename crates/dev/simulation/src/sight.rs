//! The objects that clients see. Only changed objects are read again, because most of them do not change between two
//! looks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt;
use nephele_api::{
    cloud::v1alpha1::{Fault, Scenario, SimulatedCloud},
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
    ipam::v1beta2::{IPAddress, IPAddressClaim},
    labels,
};
use nephele_apiserver::{GroupResource, Store};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    audit::{ClusterKey, Seen, endpoint, key_of},
    hub::Hub,
};

/// How long a cluster may take to answer: it answers at once, because there is no network in between.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1);

/// The objects that were seen last.
pub(crate) struct Sight {
    clusters: Kind<Cluster>,
    infrastructure: Kind<InMemoryCluster>,
    machines: Kind<Machine>,
    instances: Kind<InMemoryMachine>,
    machine_pools: Kind<MachinePool>,
    instance_pools: Kind<InMemoryMachinePool>,
    claims: Kind<IPAddressClaim>,
    addresses: Kind<IPAddress>,
    clouds: Kind<SimulatedCloud>,
    faults: Kind<Fault>,
    scripts: Kind<Scenario>,
    workloads: BTreeMap<ClusterKey, Workload>,
    seen: Arc<Seen>,
}

/// The objects of a kind, by namespace and name.
struct Kind<K> {
    resource: GroupResource,
    objects: BTreeMap<(Box<str>, Box<str>), Versioned<K>>,
}

/// An object with the version in which it was read.
type Versioned<K> = (u64, Arc<K>);

/// The objects in a workload cluster.
#[derive(Clone)]
struct Workload {
    /// The resourceVersion of its store, which every change increases.
    version: String,
    nodes: Vec<Arc<Node>>,
    notes: BTreeSet<String>,
}

impl<K: DeserializeOwned> Kind<K> {
    fn new(group: &str, resource: &str) -> Self {
        Self {
            resource: GroupResource::new(group, resource),
            objects: BTreeMap::new(),
        }
    }

    /// Reads changed objects. Returns whether anything has changed.
    fn read(&mut self, store: &Store) -> bool {
        let mut known = std::mem::take(&mut self.objects);
        let mut changed = false;
        for object in store.list(&self.resource, None).objects {
            let key = (object.namespace.clone(), object.name.clone());
            let known = known
                .remove(&key)
                .filter(|(version, _)| *version == object.resource_version);
            let read = known.unwrap_or_else(|| {
                changed = true;
                let read = serde_json::from_slice(&object.bytes).expect("an object of the kind");
                (object.resource_version, Arc::new(read))
            });
            self.objects.insert(key, read);
        }
        changed || !known.is_empty()
    }

    fn all(&self) -> Vec<Arc<K>> {
        self.objects
            .values()
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }
}

impl Sight {
    pub(crate) fn new() -> Self {
        Self {
            clusters: Kind::new("cluster.x-k8s.io", "clusters"),
            infrastructure: Kind::new("infrastructure.cluster.x-k8s.io", "inmemoryclusters"),
            machines: Kind::new("cluster.x-k8s.io", "machines"),
            instances: Kind::new("infrastructure.cluster.x-k8s.io", "inmemorymachines"),
            machine_pools: Kind::new("cluster.x-k8s.io", "machinepools"),
            instance_pools: Kind::new("infrastructure.cluster.x-k8s.io", "inmemorymachinepools"),
            claims: Kind::new("ipam.cluster.x-k8s.io", "ipaddressclaims"),
            addresses: Kind::new("ipam.cluster.x-k8s.io", "ipaddresses"),
            clouds: Kind::new("cloud.nephele.dev", "simulatedclouds"),
            faults: Kind::new("cloud.nephele.dev", "faults"),
            scripts: Kind::new("cloud.nephele.dev", "scenarios"),
            workloads: BTreeMap::new(),
            seen: Arc::default(),
        }
    }

    /// The objects of the last look.
    pub(crate) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

    /// Reads everything. Returns whether anything has changed.
    pub(crate) async fn look(&mut self, store: &Store, hub: &Hub) -> bool {
        let secrets = secrets(store);
        let ports = hub.ports();
        let changed = [
            self.clusters.read(store),
            self.infrastructure.read(store),
            self.machines.read(store),
            self.instances.read(store),
            self.machine_pools.read(store),
            self.instance_pools.read(store),
            self.claims.read(store),
            self.addresses.read(store),
            self.clouds.read(store),
            self.faults.read(store),
            self.scripts.read(store),
            self.ask_clusters(hub, &ports).await,
            secrets != self.seen.secrets,
            ports != self.seen.ports,
        ];
        if !changed.contains(&true) {
            return false;
        }
        let workloads = self.workloads.iter();
        self.seen = Arc::new(Seen {
            clusters: self.clusters.all(),
            infrastructure: self.infrastructure.all(),
            machines: self.machines.all(),
            instances: self.instances.all(),
            machine_pools: self.machine_pools.all(),
            instance_pools: self.instance_pools.all(),
            claims: self.claims.all(),
            addresses: self.addresses.all(),
            clouds: self.clouds.all(),
            faults: self.faults.all(),
            scripts: self.scripts.all(),
            secrets,
            nodes: workloads
                .clone()
                .map(|(key, workload)| (key.clone(), workload.nodes.clone()))
                .collect(),
            notes: workloads
                .map(|(key, workload)| (key.clone(), workload.notes.clone()))
                .collect(),
            ports,
        });
        true
    }

    /// Reads the clusters that are served. Returns whether any of them has changed.
    async fn ask_clusters(&mut self, hub: &Hub, ports: &[u16]) -> bool {
        let mut known = std::mem::take(&mut self.workloads);
        let mut changed = false;
        for (_, object) in self.infrastructure.objects.values() {
            let Some((_, port)) = endpoint(object).filter(|(_, port)| ports.contains(port)) else {
                continue;
            };
            let key = key_of(&**object);
            let before = known.remove(&key);
            let now = ask_cluster(hub, port, before.as_ref()).await;
            changed |= now.as_ref().map(|now| &now.version) != before.as_ref().map(|before| &before.version);
            if let Some(now) = now {
                self.workloads.insert(key, now);
            }
        }
        changed || !known.is_empty()
    }

    /// Other managers serve the clusters now: all their objects are read again.
    pub(crate) fn forget_workloads(&mut self) {
        for workload in self.workloads.values_mut() {
            workload.version.clear();
        }
    }
}

/// The objects in a workload cluster; none if it does not answer.
async fn ask_cluster(hub: &Hub, port: u16, before: Option<&Workload>) -> Option<Workload> {
    let (version, _) = ask(hub, port, "/api/v1/namespaces?limit=1").await?;
    if let Some(before) = before
        && before.version == version
    {
        return Some(before.clone());
    }
    let (_, nodes) = ask(hub, port, "/api/v1/nodes").await?;
    let (_, notes) = ask(hub, port, "/api/v1/namespaces/default/configmaps").await?;
    let nodes: Vec<Node> = serde_json::from_value(nodes).ok()?;
    let notes: Vec<ConfigMap> = serde_json::from_value(notes).ok()?;
    Some(Workload {
        version,
        nodes: nodes.into_iter().map(Arc::new).collect(),
        notes: notes.iter().map(ResourceExt::name_any).collect(),
    })
}

/// A list from a workload cluster, if it answers at once: the resourceVersion and the items.
async fn ask(hub: &Hub, port: u16, path: &str) -> Option<(String, Value)> {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let response = timeout(ANSWERS_WITHIN, hub.reach(port, request))
        .await
        .ok()?
        .ok()?;
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .ok()?;
    let mut list: Value = serde_json::from_slice(&bytes).ok()?;
    let version = list["metadata"]["resourceVersion"].as_str()?.to_owned();
    Some((version, list["items"].take()))
}

/// The Secrets of clusters, by their label, without their content.
fn secrets(store: &Store) -> Vec<(ClusterKey, String)> {
    let listed = store.list(&GroupResource::new("", "secrets"), None).objects;
    let of_cluster = listed.iter().filter_map(|object| {
        let cluster = object.label(labels::CLUSTER_NAME)?.to_owned();
        Some(((object.namespace.to_string(), cluster), object.name.to_string()))
    });
    of_cluster.collect()
}
