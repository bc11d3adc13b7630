//! Which InMemoryMachine belongs to which cluster.

use std::collections::{BTreeMap, BTreeSet};

use nephele_model::{ClusterId, MachineId};
use parking_lot::Mutex;

/// Machines by cluster, as the first list and the machine reconciler found them, so that a change of a cluster triggers
/// its machines without a search through all machines. The reconciler adds a machine before it reads the machine's
/// cluster, so that no later change of the cluster misses the machine. Owned by the machine reconciler.
#[derive(Default)]
pub(crate) struct MachineIndex(Mutex<Maps>);

/// Each the inverse of the other.
#[derive(Debug, Default, PartialEq, Eq)]
struct Maps {
    by_cluster: BTreeMap<ClusterId, BTreeSet<String>>,
    cluster_of: BTreeMap<(String, String), ClusterId>,
}

impl MachineIndex {
    /// Records that the machine of this name, in the cluster's namespace, belongs to the cluster and to no other.
    pub(crate) fn note(&self, id: &ClusterId, machine: &str) {
        let mut maps = self.0.lock();
        if maps
            .by_cluster
            .get(id)
            .is_some_and(|machines| machines.contains(machine))
        {
            return;
        }
        maps.forget(&id.namespace, machine);
        maps.by_cluster
            .entry(id.clone())
            .or_default()
            .insert(machine.to_owned());
        maps.cluster_of
            .insert((id.namespace.clone(), machine.to_owned()), id.clone());
    }

    /// The machines of a cluster. Machines that no longer exist are removed: an object without our finalizer disappears
    /// without a reconcile.
    pub(crate) fn of(&self, id: &ClusterId, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let mut maps = self.0.lock();
        let noted: Vec<String> = maps.by_cluster.get(id).into_iter().flatten().cloned().collect();
        let (there, gone): (Vec<_>, Vec<_>) = noted.into_iter().partition(|machine| is_there(machine));
        for machine in gone {
            maps.forget(&id.namespace, &machine);
        }
        there
    }

    /// The machines of a namespace, in time that does not depend on those of others.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<String> {
        let maps = self.0.lock();
        let from = maps.cluster_of.range((namespace.to_owned(), String::new())..);
        from.take_while(|((of, _), _)| of == namespace)
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    /// The cluster of a machine, if it is recorded.
    pub(crate) fn cluster_of(&self, namespace: &str, machine: &str) -> Option<ClusterId> {
        self.0
            .lock()
            .cluster_of
            .get(&(namespace.to_owned(), machine.to_owned()))
            .cloned()
    }

    /// All machines that are recorded.
    pub(crate) fn all(&self) -> Vec<MachineId> {
        let maps = self.0.lock();
        let id = |((_, name), cluster): (&(String, String), &ClusterId)| MachineId {
            cluster: cluster.clone(),
            name: name.clone(),
        };
        maps.cluster_of.iter().map(id).collect()
    }

    /// Removes the machine of this name.
    pub(crate) fn forget(&self, namespace: &str, machine: &str) {
        self.0.lock().forget(namespace, machine);
    }
}

impl Maps {
    fn forget(&mut self, namespace: &str, machine: &str) {
        let Some(id) = self
            .cluster_of
            .remove(&(namespace.to_owned(), machine.to_owned()))
        else {
            return;
        };
        if let Some(machines) = self.by_cluster.get_mut(&id) {
            machines.remove(machine);
            if machines.is_empty() {
                self.by_cluster.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ClusterId {
        ClusterId {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    #[test]
    fn a_machine_belongs_to_the_cluster_it_was_noted_for_last() {
        let known = MachineIndex::default();
        for (cluster, machine) in [("a", "m1"), ("a", "m2"), ("b", "m3"), ("b", "m1"), ("b", "m1")] {
            known.note(&id(cluster), machine);
        }
        assert_eq!(known.of(&id("a"), |_| true), ["m2"]);
        assert_eq!(known.of(&id("b"), |_| true), ["m1", "m3"]);
        assert_eq!(known.of(&id("c"), |_| true), [""; 0]);
        for namespace in ["aaa", "zzz"] {
            known.note(
                &ClusterId {
                    namespace: namespace.into(),
                    name: "a".into(),
                },
                "m0",
            );
        }
        assert_eq!(known.in_namespace("default"), ["m1", "m2", "m3"]);
        assert_eq!(known.in_namespace("none"), [""; 0]);
    }

    #[test]
    fn machines_that_went_leave_nothing_behind() {
        let known = MachineIndex::default();
        for machine in ["m1", "m2", "m3"] {
            known.note(&id("a"), machine);
        }
        known.forget("default", "m1");
        known.forget("other", "m2");
        assert_eq!(known.of(&id("a"), |machine| machine != "m3"), ["m2"]);
        known.forget("default", "m2");
        assert_eq!(*known.0.lock(), Maps::default());
    }
}
