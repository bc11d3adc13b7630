//! What a Fault would hit, before it exists. The matcher of the cloud says it; this makes it words and marks. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use nephele_api::{
    cloud::v1alpha1::{FaultSpec, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    ipam::v1beta2::IPAddressClaim,
};
use nephele_model::FaultEffect;

use crate::{
    draft::Draft,
    elements::{machine_id, path},
    machine_view::Seen,
    objects::{Key, Objects},
    surroundings::Surroundings,
};

/// How many names are shown.
const NAMES_MAX: usize = 20;

/// The objects of a namespace that decide what a Fault there selects.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The clusters of the cloud.
    pub clusters: Vec<Arc<InMemoryCluster>>,
    /// The machines of these clusters.
    pub machines: Vec<Arc<InMemoryMachine>>,
    /// The Clusters that own `clusters`.
    pub owning_clusters: Vec<Arc<Cluster>>,
    /// The Machines that own `machines`.
    pub owning_machines: Vec<Arc<Machine>>,
    /// The clouds that clusters name.
    pub clouds: Vec<Arc<SimulatedCloud>>,
    /// The claims on pools of addresses.
    pub claims: Vec<Arc<IPAddressClaim>>,
    /// The time at which the Fault would begin.
    pub now: Timestamp,
}

/// What a Fault would select, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Clusters, of which it hits the API server or the load balancer.
    pub clusters: Vec<String>,
    /// InMemoryMachines, as the cloud names machines.
    pub machines: Vec<String>,
    /// The operations that it makes fail or wait.
    pub operations: Vec<&'static str>,
    /// IPAddressClaims, if it is a Fault of addresses.
    pub claims: Vec<String>,
    /// Which claims such a Fault hits, in words.
    pub moment: &'static str,
}

/// The matcher of the cloud: what a Fault would select among these objects, or why it cannot be used.
pub type Matcher = fn(&FaultSpec, &Candidates) -> Result<Selected, String>;

/// What the palette says of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preview {
    /// It cannot be used.
    Mistake(String),
    /// It hits IPAddressClaims, and the page cannot list these.
    NoClaims,
    Claims(Box<Claims>),
    Hits(Box<Hits>),
}

/// Which claims a draft of a Fault of addresses would hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) selected: usize,
    pub(crate) of: usize,
    /// The names of some of what is selected.
    pub(crate) some: Vec<String>,
    /// Which claims it hits, in words.
    pub(crate) moment: &'static str,
    /// How many of these it hits at most.
    pub(crate) count: Option<i32>,
    /// If it hits nothing: the field without which it would hit most, and how many that are.
    pub(crate) excluded_by: Option<(&'static str, usize)>,
}

/// What a draft would hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) machines: Share,
    pub(crate) clusters: Share,
    pub(crate) operations: Vec<&'static str>,
    /// How many of these it hits at most.
    pub(crate) count: Option<i32>,
    /// If it hits nothing: the field without which it would hit most, and how many that are.
    pub(crate) excluded_by: Option<(&'static str, usize)>,
    /// The ids of the elements of what it hits.
    pub(crate) ids: Vec<String>,
}

/// A part of the objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) selected: usize,
    pub(crate) of: usize,
    /// Some of what is selected: the name, and where the page shows it.
    pub(crate) some: Vec<(String, String)>,
}

impl Share {
    fn new(kind: &str, keys: &[Key], of: usize) -> Self {
        let some = keys.iter().take(NAMES_MAX);
        Self {
            selected: keys.len(),
            of,
            some: some.map(|key| (key.name.clone(), path(kind, key))).collect(),
        }
    }
}

impl Preview {
    /// What a draft would hit in a namespace, if the Fault began now.
    pub(crate) fn new(
        draft: &Draft,
        objects: &Objects,
        namespace: &str,
        now: Timestamp,
        matcher: Matcher,
    ) -> Self {
        let spec = match draft.fault(namespace) {
            Ok(fault) => fault.spec,
            Err(error) => return Self::Mistake(error.to_string()),
        };
        let is_of_addresses = spec.effect.as_ref().is_some_and(FaultEffect::is_of_addresses);
        if is_of_addresses && objects.claims.is_none() {
            return Self::NoClaims;
        }
        let candidates = Candidates::of(objects, namespace, now);
        let selected = match matcher(&spec, &candidates) {
            Ok(selected) => selected,
            Err(why) => return Self::Mistake(why),
        };
        let count = spec.budget.count;
        let is_nothing =
            selected.machines.is_empty() && selected.clusters.is_empty() && selected.claims.is_empty();
        let excluded_by = is_nothing
            .then(|| excluded_by(draft, &candidates, namespace, matcher))
            .flatten();
        if is_of_addresses {
            return Self::Claims(Box::new(Claims {
                selected: selected.claims.len(),
                of: candidates.claims.len(),
                some: selected.claims.into_iter().take(NAMES_MAX).collect(),
                moment: selected.moment,
                count,
                excluded_by,
            }));
        }
        let around = Surroundings::new(objects);
        let all = Seen::all(&around);
        let keys: BTreeMap<&str, &Key> = all
            .iter()
            .filter(|seen| seen.key.namespace == namespace)
            .filter_map(|seen| Some((seen.instance()?, &seen.key)))
            .collect();
        let machines = selected.machines.iter();
        let machines: Vec<_> = machines
            .filter_map(|name| keys.get(name.as_str()).copied().cloned())
            .collect();
        let clusters = selected.clusters.iter();
        let clusters: Vec<_> = clusters.map(|name| Key::new(namespace, name)).collect();
        let ids = machines
            .iter()
            .map(machine_id)
            .chain(clusters.iter().map(|key| format!("cluster:{key}")));
        let ids = ids.collect();
        Self::Hits(Box::new(Hits {
            machines: Share::new("machine", &machines, candidates.machines.len()),
            clusters: Share::new("cluster", &clusters, candidates.clusters.len()),
            operations: selected.operations,
            count,
            excluded_by,
            ids,
        }))
    }
}

/// The field without which a draft would select most, and how much that is.
fn excluded_by(
    draft: &Draft,
    candidates: &Candidates,
    namespace: &str,
    matcher: Matcher,
) -> Option<(&'static str, usize)> {
    let wider = draft.wider();
    let selected = wider.into_iter().filter_map(|(field, wider)| {
        let selected = matcher(&wider.fault(namespace).ok()?.spec, candidates).ok()?;
        let Selected {
            clusters,
            machines,
            claims,
            ..
        } = selected;
        Some((field, machines.len() + clusters.len() + claims.len()))
    });
    selected
        .filter(|(_, selected)| *selected > 0)
        .max_by_key(|(_, selected)| *selected)
}

impl Candidates {
    fn of(objects: &Objects, namespace: &str, now: Timestamp) -> Self {
        fn in_namespace<K: kube::Resource>(objects: &[Arc<K>], namespace: &str) -> Vec<Arc<K>> {
            let is_there = |object: &&Arc<K>| object.meta().namespace.as_deref() == Some(namespace);
            objects.iter().filter(is_there).cloned().collect()
        }
        Self {
            clusters: in_namespace(&objects.in_memory_clusters, namespace),
            machines: in_namespace(&objects.in_memory_machines, namespace),
            owning_clusters: in_namespace(&objects.clusters, namespace),
            owning_machines: in_namespace(&objects.machines, namespace),
            clouds: in_namespace(&objects.clouds, namespace),
            claims: in_namespace(objects.claims.as_deref().unwrap_or_default(), namespace),
            now,
        }
    }
}

#[cfg(test)]
mod tests;
