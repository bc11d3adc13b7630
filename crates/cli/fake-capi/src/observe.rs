//! What a decision about a cluster needs. Missing objects are `None`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt as _;
use nephele_api::{
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
};
use serde_json::Value;

use crate::{
    cache::{Caches, Key, Played},
    kinds::{KubeadmControlPlane, MachineDeployment, MachineHealthCheck, MachineSet},
    names,
};

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) cluster: Cluster,
    /// The Cluster's `spec.topology`, as the user wrote it: one that cannot be read must not hide the Cluster.
    pub(crate) topology: Option<Value>,
    /// The ClusterClass of the topology, if it is there.
    pub(crate) class: Option<Value>,
    pub(crate) infrastructure: Option<InMemoryCluster>,
    /// The Secrets of the cluster, by name.
    pub(crate) secrets: BTreeMap<String, Secret>,
    pub(crate) control_plane: Option<KubeadmControlPlane>,
    pub(crate) deployments: Vec<MachineDeployment>,
    pub(crate) sets: Vec<MachineSet>,
    /// The health checks of its machines, also those that users created.
    pub(crate) health_checks: Vec<MachineHealthCheck>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) infrastructure_machines: Vec<InMemoryMachine>,
    pub(crate) pool: Option<MachinePool>,
    pub(crate) infrastructure_pool: Option<InMemoryMachinePool>,
    /// The state of the workload cluster; none when it was not read or did not answer.
    pub(crate) workload: Option<Workload>,
    /// How the connection to it was in this process.
    pub(crate) probe: Probe,
}

/// The connection to a workload cluster, as far as this process knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) last_success: Option<Timestamp>,
    /// How often in a row it has not answered.
    pub(crate) failures: u32,
    /// When it was asked last.
    pub(crate) last_attempt: Option<Timestamp>,
}

/// The objects in a workload cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workload {
    /// Whether the ConfigMap `kubeadm-config` exists, which means that the first control plane machine is up.
    pub(crate) initialized: bool,
    pub(crate) nodes: Vec<Node>,
}

impl Observed {
    pub(crate) fn name(&self) -> String {
        self.cluster.name_any()
    }

    pub(crate) fn namespace(&self) -> String {
        self.cluster.namespace().unwrap_or_default()
    }

    pub(crate) fn secret(&self, purpose: &str) -> Option<&Secret> {
        self.secrets.get(&names::secret(&self.name(), purpose))
    }

    pub(crate) fn infrastructure_of(&self, machine: &Machine) -> Option<&InMemoryMachine> {
        let name = &machine.spec.infrastructure_ref.as_ref()?.name;
        self.infrastructure_machines
            .iter()
            .find(|other| other.name_any() == *name)
    }
}

/// The namespace and name of the ClusterClass that a topology names, if an object can have them.
pub(crate) fn class_of(topology: &Value, namespace: &str) -> Option<Key> {
    let text = |pointer: &str| {
        topology
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let name = text("/classRef/name").or_else(|| text("/class"))?;
    let given = text("/classRef/namespace").or_else(|| text("/classNamespace"));
    let namespace = given.unwrap_or_else(|| namespace.to_owned());
    Some(Key { namespace, name })
}

/// Reads the objects of a cluster, but not the workload cluster: these objects decide whether it is read.
pub(crate) fn observe(caches: &Caches, key: &Key, has_pool: bool) -> Observed {
    let Some(Played { cluster, topology }) = caches.clusters.get(key) else {
        return Observed::default();
    };
    let class = topology
        .as_ref()
        .and_then(|topology| class_of(topology, &key.namespace));
    let infrastructure = cluster.spec.infrastructure_ref.as_ref();
    let infrastructure = infrastructure.map(|reference| Key::new(&key.namespace, &reference.name));
    let secrets = caches.secrets.of_cluster(key).into_iter();
    let pool = has_pool.then(|| Key::new(&key.namespace, &names::pool(&key.name)));
    Observed {
        class: class.and_then(|class| caches.classes.get(&class)),
        infrastructure: infrastructure.and_then(|key| caches.infrastructure.get(&key)),
        secrets: secrets.map(|secret| (secret.name_any(), secret)).collect(),
        control_plane: caches.control_planes.of_cluster(key).into_iter().next(),
        deployments: caches.deployments.of_cluster(key),
        sets: caches.sets.of_cluster(key),
        health_checks: caches.health_checks.of_cluster(key),
        machines: caches.machines.of_cluster(key),
        infrastructure_machines: caches.infrastructure_machines.of_cluster(key),
        pool: pool.as_ref().and_then(|key| caches.pools.get(key)),
        infrastructure_pool: pool.as_ref().and_then(|key| caches.infrastructure_pools.get(key)),
        workload: None,
        probe: Probe::default(),
        cluster,
        topology,
    }
}
