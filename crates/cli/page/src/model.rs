//! What the screen Cloud shows, as plain values. Pure: the same objects give the same model.
//!
//! ```text
//!  Objects ──▶ Model ──▶ Elements ──▶ diff, HTML
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    cluster_view::ClusterView,
    machine_view::{MachineView, Seen, State},
    objects::{Key, Objects},
    pool_view::PoolView,
    reports::{CloudView, FaultView, Leak, Wait},
    scenario_view::ScenarioView,
    surroundings::Surroundings,
};

/// Everything on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The columns. The empty name is for machines without a zone.
    pub zones: Vec<String>,
    pub clouds: BTreeMap<Key, CloudView>,
    pub clusters: BTreeMap<Key, ClusterView>,
    /// Shared with the models before and after it while nothing about a machine changes.
    pub machines: BTreeMap<Key, Arc<MachineView>>,
    /// The machines that wait for a quota, a stock, an address or an extension.
    pub waits: BTreeMap<Key, Wait>,
    pub leaks: BTreeMap<String, Leak>,
    pub faults: BTreeMap<Key, FaultView>,
    pub scenarios: BTreeMap<Key, ScenarioView>,
    pub pools: BTreeMap<Key, PoolView>,
}

impl Model {
    /// The model of the objects in a namespace, or in all. Machines that have not changed are those of the model before.
    pub(crate) fn after(before: &Self, objects: &Objects, namespace: Option<&str>) -> Self {
        let wanted = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let around = Surroundings::new(objects);
        let mut model = Self::default();
        for cluster in &objects.clusters {
            let key = Key::of(&cluster.metadata);
            if wanted(&key) {
                model.clusters.insert(key, ClusterView::new(cluster, &around));
            }
        }
        for seen in Seen::all(&around) {
            if wanted(&seen.key) {
                let known = before.machines.get(&seen.key);
                let machine = match known.filter(|known| seen.is_shown_by(known)) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(seen.view()),
                };
                model.place(machine);
            }
        }
        for cloud in &objects.clouds {
            let key = Key::of(&cloud.metadata);
            if wanted(&key) {
                model.leaks.extend(Leak::of_cloud(cloud));
                model.clouds.insert(key, CloudView::new(cloud));
            }
        }
        for fault in &objects.faults {
            let key = Key::of(&fault.metadata);
            if wanted(&key) {
                model.leaks.extend(Leak::of_fault(fault));
                model.faults.insert(key, FaultView::new(fault));
            }
        }
        for scenario in &objects.scenarios {
            let key = Key::of(&scenario.metadata);
            if wanted(&key) {
                model.scenarios.insert(key, ScenarioView::new(scenario));
            }
        }
        for pool in &objects.pools {
            let key = Key::of(&pool.metadata);
            if wanted(&key) {
                model.pools.insert(key, PoolView::new(pool));
            }
        }
        model.zones = model.columns();
        model
    }

    /// Takes a machine into its cluster. One whose Cluster is not known yet has to wait for it.
    fn place(&mut self, machine: Arc<MachineView>) {
        let cluster = Key::new(&machine.key.namespace, &machine.cluster);
        let Some(cluster) = self.clusters.get_mut(&cluster) else {
            return;
        };
        cluster.machines += 1;
        cluster.running += usize::from(machine.state == State::Running);
        if let Some(wait) = Wait::of(&machine) {
            self.waits.insert(machine.key.clone(), wait);
        }
        self.machines.insert(machine.key.clone(), machine);
    }

    /// The zones that clusters have and machines are in. If there are any, the last column is for machines without one.
    fn columns(&self) -> Vec<String> {
        let of_clusters = self.clusters.values().flat_map(|cluster| &cluster.zones);
        let of_machines = self.machines.values().map(|machine| &machine.zone);
        let zones: BTreeSet<&String> = of_clusters
            .chain(of_machines)
            .filter(|zone| !zone.is_empty())
            .collect();
        zones.into_iter().cloned().chain([String::new()]).collect()
    }

    /// The cluster of a machine, and the column in which it stands.
    pub(crate) fn column_of(&self, machine: &MachineView) -> (Key, usize) {
        let column = self.zones.iter().position(|zone| *zone == machine.zone);
        let cluster = Key::new(&machine.key.namespace, &machine.cluster);
        (cluster, column.unwrap_or_default())
    }

    /// How many machines are up.
    #[must_use]
    pub fn running(&self) -> usize {
        self.clusters.values().map(|cluster| cluster.running).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests;
