//! The objects of the management API that decisions need, kept up to date by one watch of each kind.
//!
//! A round reads its cluster from here and sends no request for it. What this process writes is noted at once
//! ([`Cache::note`]), because the watch brings it only later: a round that does not see what the last one did would do it
//! again.

use std::{collections::BTreeMap, mem::take, sync::Arc};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, runtime::watcher::Event};
use nephele_api::{
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool},
    labels,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::kinds::{KubeadmControlPlane, MachineDeployment, MachineHealthCheck, MachineSet};

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// A state of an object.
#[derive(Clone, Debug)]
pub(crate) struct Known<T> {
    pub(crate) key: Key,
    uid: String,
    /// The resource version. Those of one kind are numbers that can be compared: Kubernetes says so since 1.35, and they
    /// were etcd's revisions before.
    version: u64,
    /// The cluster that it belongs to.
    cluster: Option<Key>,
    /// None when it cannot be read. Then it counts as absent, as for those who own the kind.
    object: Option<T>,
    /// Whether a part of it was taken from an earlier state, because this process does not read that part of an answer.
    is_partial: bool,
}

impl<T> Known<T> {
    /// An object that belongs to the cluster of this name in its namespace.
    pub(crate) fn new(metadata: &ObjectMeta, cluster: Option<&str>, object: Option<T>) -> Self {
        let key = Key::of(metadata);
        let version = metadata
            .resource_version
            .as_deref()
            .and_then(|version| version.parse().ok());
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            version: version.unwrap_or_default(),
            cluster: cluster.map(|name| Key::new(&key.namespace, name)),
            key,
            object,
            is_partial: false,
        }
    }

    /// An object that has the label of its cluster.
    pub(crate) fn labelled(object: T) -> Self
    where
        T: Resource,
    {
        let metadata = object.meta().clone();
        Self::new(
            &metadata,
            labels::value(&metadata, labels::CLUSTER_NAME),
            Some(object),
        )
    }
}

/// The objects of one kind, by name and by the cluster that they belong to.
pub(crate) struct Cache<T>(Mutex<Held<T>>);

struct Held<T> {
    objects: BTreeMap<Key, Arc<Known<T>>>,
    of_cluster: BTreeMap<Key, BTreeMap<String, Arc<Known<T>>>>,
    /// The objects of the list that is being read.
    listing: BTreeMap<Key, Known<T>>,
    is_listed: bool,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        let (objects, of_cluster, listing) = Default::default();
        Self(Mutex::new(Held {
            objects,
            of_cluster,
            listing,
            is_listed: false,
        }))
    }
}

impl<T: Clone> Cache<T> {
    /// The object of this name.
    pub(crate) fn get(&self, key: &Key) -> Option<T> {
        self.0.lock().objects.get(key)?.object.clone()
    }

    /// The objects of a cluster, by name.
    pub(crate) fn of_cluster(&self, cluster: &Key) -> Vec<T> {
        let held = self.0.lock();
        let known = held
            .of_cluster
            .get(cluster)
            .into_iter()
            .flat_map(BTreeMap::values);
        known.filter_map(|known| known.object.clone()).collect()
    }

    /// The keys of the objects that are as wanted.
    pub(crate) fn keys(&self, wanted: impl Fn(&Key, &T) -> bool) -> Vec<Key> {
        let held = self.0.lock();
        let wanted = |known: &&Arc<Known<T>>| {
            known
                .object
                .as_ref()
                .is_some_and(|object| wanted(&known.key, object))
        };
        held.objects
            .values()
            .filter(wanted)
            .map(|known| known.key.clone())
            .collect()
    }
}

impl<T> Cache<T> {
    /// Takes the state of an object that this process has written. Returns whether it is news.
    fn note(&self, known: Known<T>) -> bool {
        self.0.lock().put(known)
    }

    /// Takes the event of a watch. Returns the clusters whose objects it has changed; none for a list.
    pub(crate) fn take(&self, event: Event<Known<T>>) -> Vec<Key> {
        let mut held = self.0.lock();
        match event {
            Event::Apply(known) => {
                let before = held
                    .objects
                    .get(&known.key)
                    .and_then(|before| before.cluster.clone());
                let before = before.filter(|before| known.cluster.as_ref() != Some(before));
                let clusters = before.into_iter().chain(known.cluster.clone()).collect();
                if held.put(known) { clusters } else { Vec::new() }
            }
            Event::Delete(known) => {
                held.remove(&known.key, &known.uid);
                known.cluster.into_iter().collect()
            }
            Event::Init => {
                held.listing.clear();
                Vec::new()
            }
            Event::InitApply(known) => {
                held.listing.insert(known.key.clone(), known);
                Vec::new()
            }
            Event::InitDone => {
                let listing = take(&mut held.listing);
                let gone = held
                    .objects
                    .values()
                    .filter(|known| !listing.contains_key(&known.key));
                for known in gone.cloned().collect::<Vec<_>>() {
                    held.remove(&known.key, &known.uid);
                }
                for known in listing.into_values() {
                    held.put(known);
                }
                held.is_listed = true;
                Vec::new()
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.0.lock().is_listed
    }
}

impl<T> Held<T> {
    /// Takes an object, unless this state of it or a later one is known. Returns whether it was taken.
    fn put(&mut self, known: Known<T>) -> bool {
        if let Some(before) = self.objects.get(&known.key).cloned() {
            let is_known =
                before.version > known.version || before.version == known.version && !before.is_partial;
            if before.uid == known.uid && is_known {
                return false;
            }
            self.remove(&before.key, &before.uid);
        }
        let known = Arc::new(known);
        if let Some(cluster) = &known.cluster {
            let of_cluster = self.of_cluster.entry(cluster.clone()).or_default();
            of_cluster.insert(known.key.name.clone(), Arc::clone(&known));
        }
        self.objects.insert(known.key.clone(), known);
        true
    }

    /// Removes exactly this object, not a later one of the same name.
    fn remove(&mut self, key: &Key, uid: &str) {
        if self.objects.get(key).is_none_or(|known| known.uid != uid) {
            return;
        }
        let Some(cluster) = self.objects.remove(key).and_then(|known| known.cluster.clone()) else {
            return;
        };
        if let Some(of_cluster) = self.of_cluster.get_mut(&cluster) {
            of_cluster.remove(&key.name);
            if of_cluster.is_empty() {
                self.of_cluster.remove(&cluster);
            }
        }
    }
}

/// A Cluster, with its `spec.topology` as the user wrote it: one that cannot be read must not hide the Cluster.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) cluster: Cluster,
    pub(crate) topology: Option<Value>,
}

/// Every kind that decisions need.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) clusters: Cache<Played>,
    pub(crate) classes: Cache<Value>,
    pub(crate) infrastructure: Cache<InMemoryCluster>,
    /// Secrets that belong to a cluster.
    pub(crate) secrets: Cache<Secret>,
    pub(crate) control_planes: Cache<KubeadmControlPlane>,
    pub(crate) deployments: Cache<MachineDeployment>,
    pub(crate) sets: Cache<MachineSet>,
    pub(crate) health_checks: Cache<MachineHealthCheck>,
    pub(crate) machines: Cache<Machine>,
    pub(crate) infrastructure_machines: Cache<InMemoryMachine>,
    pub(crate) pools: Cache<MachinePool>,
    pub(crate) infrastructure_pools: Cache<InMemoryMachinePool>,
}

impl Caches {
    /// Whether the first lists of all kinds are complete. Before that, what is absent here may exist.
    pub(crate) fn are_listed(&self) -> bool {
        self.clusters.is_listed()
            && self.classes.is_listed()
            && self.infrastructure.is_listed()
            && self.secrets.is_listed()
            && self.control_planes.is_listed()
            && self.deployments.is_listed()
            && self.sets.is_listed()
            && self.health_checks.is_listed()
            && self.machines.is_listed()
            && self.infrastructure_machines.is_listed()
            && self.pools.is_listed()
            && self.infrastructure_pools.is_listed()
    }
}

/// A kind that this process writes.
pub(crate) trait Written: Resource {
    /// Notes the state that a write has answered with. Returns whether it is news.
    fn note(self, caches: &Caches) -> bool;
}

impl Written for Cluster {
    fn note(self, caches: &Caches) -> bool {
        // A user may have changed the topology meanwhile.
        let known = caches.clusters.get(&Key::of(&self.metadata));
        let topology = known.and_then(|known| known.topology);
        let known = Known {
            is_partial: true,
            ..played(self, topology)
        };
        caches.clusters.note(known)
    }
}

impl Written for MachineHealthCheck {
    fn note(self, caches: &Caches) -> bool {
        caches.health_checks.note(checking(self))
    }
}

pub(crate) fn played(cluster: Cluster, topology: Option<Value>) -> Known<Played> {
    let metadata = cluster.metadata.clone();
    Known::new(
        &metadata,
        metadata.name.as_deref(),
        Some(Played { cluster, topology }),
    )
}

/// A health check, which belongs to the cluster whose Machines it checks. Its label is missing at first.
pub(crate) fn checking(check: MachineHealthCheck) -> Known<MachineHealthCheck> {
    let metadata = check.metadata.clone();
    let cluster = check.spec.cluster_name.clone();
    Known::new(&metadata, Some(&cluster), Some(check))
}

macro_rules! written {
    ($($kind:ty => $cache:ident),+ $(,)?) => {
        $(impl Written for $kind {
            fn note(self, caches: &Caches) -> bool {
                caches.$cache.note(Known::labelled(self))
            }
        })+
    };
}

written! {
    InMemoryCluster => infrastructure,
    Secret => secrets,
    KubeadmControlPlane => control_planes,
    MachineDeployment => deployments,
    MachineSet => sets,
    Machine => machines,
    InMemoryMachine => infrastructure_machines,
    MachinePool => pools,
    InMemoryMachinePool => infrastructure_pools,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Machine of the cluster, or without one.
    fn machine(name: &str, uid: &str, version: u64, cluster: Option<&str>) -> Known<Machine> {
        let labels = cluster.map(|cluster| [(labels::CLUSTER_NAME.to_owned(), cluster.to_owned())].into());
        let metadata = ObjectMeta {
            namespace: Some("default".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            labels,
            ..ObjectMeta::default()
        };
        Known::labelled(Machine {
            metadata,
            ..Machine::default()
        })
    }

    fn in_default(name: &str) -> Key {
        Key::new("default", name)
    }

    /// The resource versions of the machines of the cluster, by name.
    fn versions(cache: &Cache<Machine>, cluster: &str) -> Vec<(String, String)> {
        let machines = cache
            .of_cluster(&in_default(cluster))
            .into_iter()
            .map(|machine| machine.metadata);
        machines
            .map(|found| (found.name.unwrap(), found.resource_version.unwrap()))
            .collect()
    }

    #[test]
    fn a_watch_does_not_bring_back_what_a_write_has_replaced() {
        let cache = Cache::default();
        assert_eq!(
            cache.take(Event::Apply(machine("m", "u", 1, Some("c")))),
            [in_default("c")]
        );
        assert!(cache.note(machine("m", "u", 3, Some("c"))));
        let late = [machine("m", "u", 2, Some("c")), machine("m", "u", 3, Some("c"))];
        let news = late.map(|late| cache.take(Event::Apply(late)));
        assert_eq!(
            (news, versions(&cache, "c")),
            ([vec![], vec![]], vec![("m".into(), "3".into())])
        );
    }

    #[test]
    fn an_object_of_the_same_name_is_another_object() {
        let cache = Cache::default();
        cache.take(Event::Apply(machine("m", "old", 9, Some("c"))));
        cache.take(Event::Apply(machine("m", "new", 10, Some("c"))));
        cache.take(Event::Delete(machine("m", "old", 9, Some("c"))));
        assert_eq!(versions(&cache, "c"), [("m".into(), "10".into())]);
    }

    #[test]
    fn an_object_that_changes_its_cluster_touches_both() {
        let cache = Cache::default();
        cache.take(Event::Apply(machine("m", "u", 1, Some("c"))));
        let touched = cache.take(Event::Apply(machine("m", "u", 2, Some("d"))));
        assert_eq!(touched, [in_default("c"), in_default("d")]);
        assert_eq!((versions(&cache, "c"), versions(&cache, "d").len()), (vec![], 1));
    }

    #[test]
    fn a_list_replaces_what_was_known() {
        let cache = Cache::default();
        cache.take(Event::Apply(machine("gone", "u", 1, Some("c"))));
        cache.note(machine("kept", "v", 7, Some("c")));
        cache.take(Event::Init);
        cache.take(Event::InitApply(machine("kept", "v", 5, Some("c"))));
        assert!(!cache.is_listed());
        cache.take(Event::InitDone);
        assert_eq!(
            (cache.is_listed(), versions(&cache, "c")),
            (true, vec![("kept".into(), "7".into())])
        );
    }

    #[test]
    fn a_topology_that_changed_before_a_write_is_seen() {
        let caches = Caches::default();
        let cluster = |version: &str| Cluster {
            metadata: ObjectMeta {
                namespace: Some("default".into()),
                name: Some("c".into()),
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            ..Cluster::default()
        };
        caches
            .clusters
            .take(Event::Apply(played(cluster("1"), Some("old".into()))));
        assert!(cluster("3").note(&caches));
        let events =
            ["2", "3", "3"].map(|version| Event::Apply(played(cluster(version), Some("new".into()))));
        let news = events.map(|event| !caches.clusters.take(event).is_empty());
        let topology = caches
            .clusters
            .get(&in_default("c"))
            .and_then(|played| played.topology);
        assert_eq!((news, topology), ([false, true, false], Some("new".into())));
    }
}
