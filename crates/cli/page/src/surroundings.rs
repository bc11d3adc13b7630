//! The objects by what others ask for, so that a thousand machines do not take a million comparisons.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{
    cloud::v1alpha1::Fault,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    labels,
};

use crate::objects::Objects;

/// The objects, found by namespace and name.
pub(crate) struct Surroundings<'a> {
    pub(crate) objects: &'a Objects,
    in_memory_machines: HashMap<(&'a str, &'a str), &'a InMemoryMachine>,
    in_memory_clusters: HashMap<(&'a str, &'a str), &'a InMemoryCluster>,
    /// The Faults that affect a machine or a load balancer now. The first name is that of the cluster; the second one is
    /// that of the machine, or empty.
    affected: HashMap<(&'a str, &'a str, &'a str), Vec<&'a Fault>>,
    /// The Kubernetes versions of control planes, by namespace and cluster.
    versions: HashMap<(&'a str, &'a str), BTreeSet<&'a str>>,
    /// The number of the last record of the journal that concerns a machine, or the load balancer of a cluster.
    records: HashMap<(&'a str, &'a str, &'a str), u64>,
}

impl<'a> Surroundings<'a> {
    /// Finds the objects of `objects`.
    pub(crate) fn new(objects: &'a Objects) -> Self {
        let mut affected: HashMap<_, Vec<&Fault>> = HashMap::new();
        for fault in &objects.faults {
            let namespace = fault.metadata.namespace.as_deref().unwrap_or_default();
            for hit in fault.status.iter().flat_map(|status| &status.affected) {
                let key = (namespace, hit.cluster.as_str(), hit.machine.as_str());
                affected.entry(key).or_default().push(fault);
            }
        }
        let mut versions: HashMap<_, BTreeSet<&str>> = HashMap::new();
        for machine in &objects.machines {
            if labels::is_control_plane(&machine.metadata) && !machine.spec.version.is_empty() {
                let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
                let cluster = (namespace, machine.spec.cluster_name.as_str());
                versions.entry(cluster).or_default().insert(&machine.spec.version);
            }
        }
        let mut records = HashMap::new();
        for line in &objects.journal {
            let place = (line.namespace.as_str(), line.cluster.as_str(), line.name.as_str());
            records.insert(place, line.sequence);
        }
        Self {
            objects,
            in_memory_machines: objects
                .in_memory_machines
                .iter()
                .map(|machine| (name(&machine.metadata), &**machine))
                .collect(),
            in_memory_clusters: objects
                .in_memory_clusters
                .iter()
                .map(|cluster| (name(&cluster.metadata), &**cluster))
                .collect(),
            affected,
            versions,
            records,
        }
    }

    /// The InMemoryMachine of this name.
    pub(crate) fn in_memory_machine(&self, namespace: &str, name: &str) -> Option<&'a InMemoryMachine> {
        self.in_memory_machines.get(&(namespace, name)).copied()
    }

    /// The InMemoryCluster of this name.
    pub(crate) fn in_memory_cluster(&self, namespace: &str, name: &str) -> Option<&'a InMemoryCluster> {
        self.in_memory_clusters.get(&(namespace, name)).copied()
    }

    /// The Faults that affect a machine now, or with an empty name of a machine those that affect the cluster.
    pub(crate) fn faults<'b>(
        &'b self,
        namespace: &'b str,
        cluster: &'b str,
        machine: &'b str,
    ) -> &'b [&'a Fault] {
        self.affected
            .get(&(namespace, cluster, machine))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The Kubernetes versions of a control plane: two during an upgrade.
    pub(crate) fn versions(&self, namespace: &str, cluster: &str) -> String {
        let versions = self.versions.get(&(namespace, cluster));
        let versions: Vec<&str> = versions.into_iter().flatten().copied().collect();
        versions.join(" → ")
    }

    /// The number of the last record that concerns a machine, or with an empty name the load balancer of the cluster.
    pub(crate) fn last_record(&self, namespace: &str, cluster: &str, machine: &str) -> u64 {
        self.records
            .get(&(namespace, cluster, machine))
            .copied()
            .unwrap_or_default()
    }
}

/// The namespace of an object, and its name.
fn name(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}
