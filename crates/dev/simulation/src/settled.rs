//! Whether a world has reached the state that was asked for. Pure functions of the objects that clients can see.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use nephele_api::{
    cloud::v1alpha1::SimulatedCloud,
    conditions::{self, reasons, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
    labels,
};

use crate::{
    audit::{ClusterKey, Seen, cluster_of, endpoint, has_begun, is_ready, key_of},
    owners::names_another_version,
    scenario::{Scenario, Scope},
};

/// The state of a cluster that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: ClusterKey,
    pub(crate) control_plane: usize,
    pub(crate) workers: usize,
    /// The number of machines in its MachinePool.
    pub(crate) pool: usize,
    pub(crate) version: String,
    pub(crate) paused: bool,
    pub(crate) deleted: bool,
    /// Whether a fault may have ended instances of workers for good. While the cluster is paused, nothing says so.
    pub(crate) may_lack_workers: bool,
    /// The names of ConfigMaps that clients wrote to the cluster successfully.
    pub(crate) notes: BTreeSet<String>,
}

/// Whether everything of a cluster is up.
pub(crate) fn is_available(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    conditions::is_true(conditions.unwrap_or_default(), nephele_fake_capi::AVAILABLE)
}

/// The differences between the state that was asked for and the state that is seen; empty when there are none.
pub(crate) fn unsettled(asked: &Asked, seen: &Seen, scenario: &Scenario, scope: Scope) -> Vec<String> {
    let cluster = seen
        .clusters
        .iter()
        .find(|cluster| key_of(&***cluster) == asked.key);
    let infrastructure = seen
        .infrastructure
        .iter()
        .find(|object| key_of(&***object) == asked.key);
    let owner = infrastructure.and_then(|object| owner_of_port(object, seen, scope));
    let mut missing = match cluster {
        // Nothing is written to a paused cluster, and without its port it cannot be served.
        _ if asked.paused && owner.is_some() => Vec::new(),
        _ if asked.paused => paused(asked, seen),
        _ if asked.deleted => leftovers(&asked.key, seen),
        None => vec!["it has no Cluster".to_owned()],
        Some(_) if owner.is_some() => without_port(infrastructure.map(|object| &**object)),
        Some(_) if is_full(&asked.key.0, seen, scenario.quota) => paused(asked, seen),
        Some(cluster) => unavailable(asked, cluster, seen),
    };
    if missing.is_empty()
        && scenario.keeps_state
        && !asked.deleted
        && !infrastructure.is_some_and(|object| shares_endpoint(object, seen))
        && let Some(there) = seen.notes.get(&asked.key)
    {
        let lost = asked.notes.difference(there);
        missing.extend(lost.map(|note| format!("ConfigMap {note} was written and is gone")));
    }
    let (namespace, name) = &asked.key;
    missing
        .into_iter()
        .map(|what| format!("{namespace}/{name}: {what}"))
        .collect()
}

/// What a cloud counts wrongly: leaked instances or load balancers, although it was told to delete them, or more or fewer
/// machines than there are. Nothing is written for machines of paused clusters, so a namespace that `is_still` is not looked at.
pub(crate) fn miscounted(
    cloud: &SimulatedCloud,
    seen: &Seen,
    is_still: impl Fn(&str) -> bool,
) -> Option<String> {
    let namespace = cloud.namespace().unwrap_or_default();
    let status = cloud.status.clone().unwrap_or_default();
    let machines = seen.instances.iter().filter(|object| has_begun(object));
    let machines = machines
        .filter(|object| object.namespace().as_ref() == Some(&namespace))
        .count() as i64;
    let listed = status.leaked_instances.len() + status.leaked_load_balancers.len();
    let counted = (status.instances, status.leaked, listed);
    (counted != (Some(machines), Some(0), 0) && !is_still(&namespace)).then(|| {
        format!(
            "{namespace}: for {machines} machines, its cloud counts (machines, leaked, listed) {counted:?}"
        )
    })
}

/// The cluster that has the port of `object`, if there is one: one that had it before, else the older one.
fn owner_of_port<'a>(object: &InMemoryCluster, seen: &'a Seen, scope: Scope) -> Option<&'a InMemoryCluster> {
    let port = endpoint(object)?;
    let turn = |object: &InMemoryCluster| {
        (
            !object.is_provisioned(),
            object.creation_timestamp(),
            object.namespace(),
            object.name_any(),
        )
    };
    let mut others = seen.infrastructure.iter().map(|other| &**other);
    others.find(|other| {
        // A manager of some clusters does not see the others, which are in another namespace.
        let is_known = scope == Scope::All || other.namespace() == object.namespace();
        is_known && endpoint(other).as_ref() == Some(&port) && turn(other) < turn(object)
    })
}

/// Whether two clusters are published with the same endpoint, so that a request may reach either.
pub(crate) fn shares_endpoint(object: &InMemoryCluster, seen: &Seen) -> bool {
    let published = seen.infrastructure.iter().filter_map(|other| endpoint(other));
    endpoint(object).is_some_and(|port| published.filter(|other| *other == port).count() > 1)
}

/// The problem of a cluster that does not report that another cluster has its port.
fn without_port(object: Option<&InMemoryCluster>) -> Vec<String> {
    let conditions = object
        .and_then(|object| object.status.clone())
        .unwrap_or_default()
        .conditions;
    let available = conditions::find(&conditions, types::LOAD_BALANCER_AVAILABLE);
    if available.is_some_and(|available| available.reason == reasons::PORT_UNAVAILABLE) {
        return Vec::new();
    }
    vec!["another cluster has its port, but it does not report that".to_owned()]
}

/// Whether the quota of a namespace is used up: then other machines wait.
fn is_full(namespace: &str, seen: &Seen, quota: u32) -> bool {
    // Nothing is written to a machine of a paused cluster, also not that its creation has begun.
    let is_paused = |object: &InMemoryMachine| {
        let of = cluster_of(object);
        seen.clusters
            .iter()
            .any(|cluster| Some(key_of(&**cluster)) == of && cluster.is_paused())
    };
    let begun = seen
        .instances
        .iter()
        .filter(|object| has_begun(object) || is_paused(object));
    let begun = begun
        .filter(|object| object.namespace().as_deref() == Some(namespace))
        .count();
    quota > 0 && begun >= usize::try_from(quota).unwrap_or(usize::MAX)
}

/// The objects that a deleted cluster has left behind.
fn leftovers(key: &ClusterKey, seen: &Seen) -> Vec<String> {
    fn names<K: kube::Resource<DynamicType = ()>>(objects: &[Arc<K>], key: &ClusterKey) -> Vec<String> {
        let of_cluster = |object: &&K| key_of(*object) == *key || cluster_of(*object).as_ref() == Some(key);
        objects
            .iter()
            .map(|object| &**object)
            .filter(of_cluster)
            .map(|object| format!("{} {}", K::kind(&()), object.name_any()))
            .collect()
    }
    let secrets = seen.secrets.iter().filter(|(cluster, _)| cluster == key);
    let left = [
        names(&seen.clusters, key),
        names(&seen.infrastructure, key),
        names(&seen.machine_pools, key),
        names(&seen.instance_pools, key),
        names(&seen.machines, key),
        names(&seen.instances, key),
        names(&seen.claims, key),
        names(&seen.addresses, key),
        secrets.map(|(_, name)| format!("Secret {name}")).collect(),
    ];
    left.concat()
        .into_iter()
        .map(|object| format!("{object} is left behind"))
        .collect()
}

/// The parts of a paused cluster that do not run.
fn paused(asked: &Asked, seen: &Seen) -> Vec<String> {
    let mine = |instance: &&InMemoryMachine| {
        // Its status may still say that it is ready: nothing is written to a paused object.
        let stays = instance.metadata.deletion_timestamp.is_none() && instance.termination().is_none();
        let stays = stays && (!asked.may_lack_workers || labels::is_control_plane(&instance.metadata));
        stays && cluster_of(*instance).as_ref() == Some(&asked.key) && is_ready(instance)
    };
    let ready: Vec<_> = seen
        .instances
        .iter()
        .map(|instance| &**instance)
        .filter(mine)
        .collect();
    if !ready
        .iter()
        .any(|instance| labels::is_control_plane(&instance.metadata))
    {
        return Vec::new();
    }
    not_running(&asked.key, &ready, seen)
}

/// Machines that are ready but have no Node.
fn not_running(key: &ClusterKey, ready: &[&InMemoryMachine], seen: &Seen) -> Vec<String> {
    let Some(nodes) = seen.nodes.get(key) else {
        return vec!["its API server does not answer".to_owned()];
    };
    let known: BTreeSet<_> = nodes
        .iter()
        .filter_map(|node| node.spec.as_ref()?.provider_id.clone())
        .collect();
    let lost = ready
        .iter()
        .filter(|instance| !known.contains(&instance.spec.provider_id));
    lost.map(|instance| format!("{} has no Node", instance.name_any()))
        .collect()
}

fn unavailable(asked: &Asked, cluster: &Cluster, seen: &Seen) -> Vec<String> {
    let Asked {
        key, control_plane, ..
    } = asked;
    let mut missing = Vec::new();
    let status = cluster.status.clone().unwrap_or_default();
    if cluster.metadata.deletion_timestamp.is_some() {
        missing.push("it is being deleted".to_owned());
    }
    if *control_plane == 0 {
        if !conditions::is_true(&status.conditions, "InfrastructureReady") {
            missing.push("its infrastructure is not ready".to_owned());
        }
        return missing;
    }
    if !is_available(cluster) {
        let message = conditions::find(&status.conditions, nephele_fake_capi::AVAILABLE);
        missing.push(format!(
            "it is not available: {}",
            message.map(|c| c.message.clone()).unwrap_or_default()
        ));
    }
    let machines: Vec<_> = seen
        .machines
        .iter()
        .map(|machine| &**machine)
        .filter(|machine| cluster_of(*machine).as_ref() == Some(key))
        .collect();
    let instances: Vec<_> = seen
        .instances
        .iter()
        .map(|instance| &**instance)
        .filter(|instance| cluster_of(*instance).as_ref() == Some(key))
        .collect();
    missing.extend(wrong_machines(asked, &machines));
    if instances.len() != machines.len() {
        missing.push(format!("it has {} InMemoryMachines", instances.len()));
    }
    for instance in &instances {
        if !is_ready(instance) {
            let conditions = instance.status.clone().unwrap_or_default().conditions;
            let ready = conditions::find(&conditions, types::READY);
            let message = ready
                .map(|ready| format!("{} {}", ready.reason, ready.message))
                .unwrap_or_default();
            missing.push(format!("{} is not ready: {message}", instance.name_any()));
        }
    }
    missing.extend(not_running(key, &instances, seen));
    missing.extend(outdated_owners(key, &seen.instances));
    missing.extend(outdated_owners(key, &seen.claims));
    missing.extend(outdated_owners(key, &seen.addresses));
    missing.extend(wrong_nodes(asked, instances.len(), seen));
    missing
}

/// The objects of a cluster whose owner references name a version of our kinds that is not written.
fn outdated_owners<K: Resource>(cluster: &ClusterKey, objects: &[Arc<K>]) -> Vec<String> {
    let objects = objects.iter().map(|object| &**object);
    let outdated = objects.filter(|object| cluster_of(*object).as_ref() == Some(cluster));
    let outdated = outdated.filter(|object| names_another_version(object.meta()));
    outdated
        .map(|object| format!("an owner of {} is named by another version", object.name_any()))
        .collect()
}

/// What is wrong about the numbers and versions of Machines.
fn wrong_machines(asked: &Asked, machines: &[&Machine]) -> Vec<String> {
    let Asked {
        control_plane,
        workers,
        pool,
        version,
        ..
    } = asked;
    let mut wrong = Vec::new();
    let is_control_plane = |machine: &&&Machine| labels::is_control_plane(&machine.metadata);
    let found = machines.iter().filter(is_control_plane).count();
    if (found, machines.len()) != (*control_plane, control_plane + workers + pool) {
        wrong.push(format!(
            "it has {found} Machines of the control plane of {}, not {control_plane} of {}",
            machines.len(),
            control_plane + workers + pool
        ));
    }
    // Machines of a pool have no version.
    let is_other = |version: &str, said: &str| said != version && !said.is_empty();
    let other = machines
        .iter()
        .filter(|machine| is_other(version, &machine.spec.version));
    wrong.extend(other.map(|machine| format!("{} has version {}", machine.name_any(), machine.spec.version)));
    wrong
}

/// What is wrong about the number and versions of Nodes.
fn wrong_nodes(asked: &Asked, instances: usize, seen: &Seen) -> Vec<String> {
    let Asked { key, version, .. } = asked;
    let mut wrong = Vec::new();
    let nodes = seen.nodes.get(key).map(Vec::as_slice).unwrap_or_default();
    if nodes.len() != instances {
        wrong.push(format!(
            "it has {} Nodes for {} InMemoryMachines",
            nodes.len(),
            instances
        ));
    }
    let kubelet = |node: &Node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone());
    let old = nodes
        .iter()
        .filter(|node| kubelet(node).as_ref() != Some(version));
    wrong.extend(old.map(|node| format!("Node {} runs {:?}", node.name_any(), kubelet(node))));
    wrong
}
