//! What has to hold in every world, whatever happens: judged from what clients can see, by pure functions of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use nephele_api::conditions::{self, types};
use nephele_api::core::{Cluster, Machine};
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine};
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim};
use nephele_api::labels;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the step in or after which it was seen.
    pub step: usize,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

/// A cluster by namespace and name.
pub(crate) type ClusterKey = (String, String);

/// What clients see at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) infrastructure: Vec<InMemoryCluster>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) instances: Vec<InMemoryMachine>,
    pub(crate) claims: Vec<IPAddressClaim>,
    pub(crate) addresses: Vec<IPAddress>,
    /// Secrets by the cluster that they are labelled with, and name.
    pub(crate) secrets: Vec<(ClusterKey, String)>,
    /// The Nodes of clusters that answer.
    pub(crate) nodes: BTreeMap<ClusterKey, Vec<Node>>,
    /// The names of what clients have written to clusters that answer.
    pub(crate) notes: BTreeMap<ClusterKey, BTreeSet<String>>,
    /// The ports that are served, once for each manager that serves them.
    pub(crate) ports: Vec<u16>,
}

/// What has been seen so far and may not change.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    /// Whether the objects of clusters are kept over restarts.
    keeps_state: bool,
    /// By the uid of the InMemoryCluster.
    endpoints: BTreeMap<String, String>,
    /// By the uid of the InMemoryMachine.
    provider_ids: BTreeMap<String, String>,
    /// By the uid of the InMemoryMachine.
    addresses: BTreeMap<String, Vec<String>>,
    /// By the uid of the InMemoryMachine.
    nodes: BTreeMap<String, NodeIdentity>,
}

/// What a Node keeps for as long as its machine lives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeIdentity {
    pod_networks: Vec<String>,
    /// Only where objects are kept over restarts.
    uid: Option<String>,
}

/// The key of a labelled object's cluster.
pub(crate) fn cluster_of<K: kube::Resource>(object: &K) -> Option<ClusterKey> {
    let name = labels::value(object.meta(), labels::CLUSTER_NAME)?;
    Some((object.meta().namespace.clone()?, name.to_owned()))
}

pub(crate) fn key_of<K: kube::Resource>(object: &K) -> ClusterKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Where an InMemoryCluster is published.
pub(crate) fn endpoint(object: &InMemoryCluster) -> Option<(String, u16)> {
    let endpoint = object.spec.control_plane_endpoint.as_ref()?;
    let port = u16::try_from(endpoint.port).ok().filter(|port| *port != 0)?;
    Some((endpoint.host.clone(), port))
}

/// Whether a machine says that everything on it is up.
pub(crate) fn is_ready(instance: &InMemoryMachine) -> bool {
    instance.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, types::READY))
}

impl Auditor {
    /// An auditor that has seen nothing yet.
    pub(crate) fn new(keeps_state: bool) -> Self {
        Self { keeps_state, ..Self::default() }
    }

    /// Compares what is seen now with what must hold, and with what was seen before.
    ///
    /// # Errors
    /// With the first thing that must not be.
    pub(crate) fn look(&mut self, seen: &Seen) -> Result<(), String> {
        self.endpoints(seen)?;
        self.instances(seen)?;
        self.nodes(seen)?;
        claimed_addresses(seen)?;
        once(seen.ports.iter().map(|port| (port.to_string(), "a listener".to_owned())), "port")
    }

    fn endpoints(&mut self, seen: &Seen) -> Result<(), String> {
        let mut published = Vec::new();
        for object in &seen.infrastructure {
            let name = object.name_any();
            let uid = object.uid().unwrap_or_default();
            let now = endpoint(object).map(|(host, port)| format!("{host}:{port}"));
            match (self.endpoints.get(&uid), &now) {
                (Some(before), now) if now.as_ref() != Some(before) => {
                    return Err(format!("the endpoint of {name} was {before} and is {now:?}"));
                }
                (None, Some(now)) => drop(self.endpoints.insert(uid, now.clone())),
                _ => {}
            }
            if object.metadata.deletion_timestamp.is_none() {
                published.extend(now.map(|now| (now, name)));
            }
        }
        once(published.into_iter(), "endpoint")
    }

    fn instances(&mut self, seen: &Seen) -> Result<(), String> {
        let mut by_cluster: BTreeMap<ClusterKey, Vec<(String, String)>> = BTreeMap::new();
        let mut provider_ids = Vec::new();
        for object in &seen.instances {
            let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
            let provider_id = object.spec.provider_id.clone();
            if let Some(before) = self.provider_ids.get(&uid)
                && *before != provider_id
            {
                return Err(format!("the providerID of {name} was {before} and is {provider_id}"));
            }
            let status = object.status.clone().unwrap_or_default();
            let mut addresses: Vec<_> =
                status.addresses.into_iter().filter(|address| address.kind == "InternalIP").collect();
            addresses.sort_by(|one, other| one.address.cmp(&other.address));
            let addresses: Vec<_> = addresses.into_iter().map(|address| address.address).collect();
            if let Some(before) = self.addresses.get(&uid)
                && !addresses.is_empty()
                && *before != addresses
            {
                return Err(format!("the addresses of {name} were {before:?} and are {addresses:?}"));
            }
            // What goes may have given back already what its object still shows.
            let stays = object.metadata.deletion_timestamp.is_none();
            if let Some(cluster) = cluster_of(object).filter(|_| stays) {
                let held = addresses.iter().map(|address| (address.clone(), name.clone()));
                by_cluster.entry(cluster).or_default().extend(held);
            }
            if !addresses.is_empty() {
                self.addresses.insert(uid.clone(), addresses);
            }
            if !provider_id.is_empty() {
                self.provider_ids.insert(uid, provider_id.clone());
                provider_ids.extend(stays.then_some((provider_id, name)));
            }
        }
        once(provider_ids.into_iter(), "providerID")?;
        by_cluster.into_values().try_for_each(|held| once(held.into_iter(), "address"))
    }

    fn nodes(&mut self, seen: &Seen) -> Result<(), String> {
        for (cluster, nodes) in &seen.nodes {
            let networks = nodes.iter().flat_map(|node| {
                let name = node.name_any();
                pod_networks(node).into_iter().map(move |network| (network, name.clone()))
            });
            once(networks, "pod network")?;
            for node in nodes {
                let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
                let is_its = |instance: &&InMemoryMachine| {
                    cluster_of(*instance).as_ref() == Some(cluster)
                        && Some(&instance.spec.provider_id) == provider_id.as_ref()
                        && is_ready(instance)
                        && instance.metadata.deletion_timestamp.is_none()
                };
                let Some(uid) = seen.instances.iter().find(is_its).and_then(ResourceExt::uid) else {
                    continue;
                };
                let identity = NodeIdentity {
                    pod_networks: pod_networks(node),
                    uid: node.uid().filter(|_| self.keeps_state),
                };
                let name = node.name_any();
                match self.nodes.get(&uid) {
                    Some(before) if *before != identity => {
                        return Err(format!("Node {name} was {before:?} and is {identity:?}"));
                    }
                    _ => drop(self.nodes.insert(uid, identity)),
                }
            }
        }
        Ok(())
    }
}

fn pod_networks(node: &Node) -> Vec<String> {
    node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone()).unwrap_or_default()
}

/// The addresses of bound claims. What a late request still makes is for a claim that is gone, and is taken back.
fn claimed_addresses(seen: &Seen) -> Result<(), String> {
    let held = seen.claims.iter().filter_map(|claim| {
        let name = claim.address_name()?;
        let is_its = |address: &&IPAddress| {
            let mut owners = address.owner_references().iter();
            address.namespace() == claim.namespace()
                && address.name_any() == name
                && owners.any(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
        };
        let address = seen.addresses.iter().find(is_its)?;
        let (pool, namespace) = (&address.spec.pool_ref.name, address.namespace().unwrap_or_default());
        let stays = claim.metadata.deletion_timestamp.is_none();
        stays.then(|| (format!("{} of {namespace}/{pool}", address.spec.address), claim.name_any()))
    });
    once(held, "address of a pool")
}

/// Fails when two have the same.
fn once(held: impl Iterator<Item = (String, String)>, what: &str) -> Result<(), String> {
    let mut holders = BTreeMap::new();
    for (thing, holder) in held {
        if let Some(other) = holders.insert(thing.clone(), holder.clone()) {
            return Err(format!("{what} {thing} is that of {other} and of {holder}"));
        }
    }
    Ok(())
}

/// What a user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: ClusterKey,
    pub(crate) control_plane: usize,
    pub(crate) workers: usize,
    pub(crate) version: String,
    pub(crate) paused: bool,
    pub(crate) deleted: bool,
    /// Names of what clients wrote to the cluster and were told is kept.
    pub(crate) notes: BTreeSet<String>,
}

/// What keeps the world from being as it was asked for; nothing when it is.
pub(crate) fn unsettled(asked: &Asked, seen: &Seen, keeps_state: bool) -> Vec<String> {
    let cluster = seen.clusters.iter().find(|cluster| key_of(*cluster) == asked.key);
    let mut missing = match cluster {
        _ if asked.paused => paused(asked, seen),
        _ if asked.deleted => leftovers(&asked.key, seen),
        None => vec!["it has no Cluster".to_owned()],
        Some(cluster) => unavailable(asked, cluster, seen),
    };
    if missing.is_empty()
        && keeps_state
        && !asked.deleted
        && let Some(there) = seen.notes.get(&asked.key)
    {
        let lost = asked.notes.difference(there);
        missing.extend(lost.map(|note| format!("ConfigMap {note} was written and is gone")));
    }
    let (namespace, name) = &asked.key;
    missing.into_iter().map(|what| format!("{namespace}/{name}: {what}")).collect()
}

/// What a deleted cluster has left behind.
fn leftovers(key: &ClusterKey, seen: &Seen) -> Vec<String> {
    fn names<K: kube::Resource<DynamicType = ()>>(objects: &[K], key: &ClusterKey) -> Vec<String> {
        let of_cluster = |object: &&K| key_of(*object) == *key || cluster_of(*object).as_ref() == Some(key);
        objects
            .iter()
            .filter(of_cluster)
            .map(|object| format!("{} {}", K::kind(&()), object.name_any()))
            .collect()
    }
    let secrets = seen.secrets.iter().filter(|(cluster, _)| cluster == key);
    let left = [
        names(&seen.clusters, key),
        names(&seen.infrastructure, key),
        names(&seen.machines, key),
        names(&seen.instances, key),
        names(&seen.claims, key),
        secrets.map(|(_, name)| format!("Secret {name}")).collect(),
    ];
    left.concat().into_iter().map(|object| format!("{object} is left of it")).collect()
}

/// What a paused cluster has that does not run.
fn paused(asked: &Asked, seen: &Seen) -> Vec<String> {
    let mine = |instance: &&InMemoryMachine| {
        cluster_of(*instance).as_ref() == Some(&asked.key) && is_ready(instance)
    };
    let ready: Vec<_> = seen.instances.iter().filter(mine).collect();
    if !ready.iter().any(|instance| labels::is_control_plane(&instance.metadata)) {
        return Vec::new();
    }
    not_running(&asked.key, &ready, seen)
}

/// Machines that say they are up and have no Node.
fn not_running(key: &ClusterKey, ready: &[&InMemoryMachine], seen: &Seen) -> Vec<String> {
    let Some(nodes) = seen.nodes.get(key) else { return vec!["its API server does not answer".to_owned()] };
    let known: BTreeSet<_> =
        nodes.iter().filter_map(|node| node.spec.as_ref()?.provider_id.clone()).collect();
    let lost = ready.iter().filter(|instance| !known.contains(&instance.spec.provider_id));
    lost.map(|instance| format!("{} has no Node", instance.name_any())).collect()
}

fn unavailable(asked: &Asked, cluster: &Cluster, seen: &Seen) -> Vec<String> {
    let Asked { key, control_plane, workers, version, .. } = asked;
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
    if !conditions::is_true(&status.conditions, nephele_standin::AVAILABLE) {
        let message = conditions::find(&status.conditions, nephele_standin::AVAILABLE);
        missing
            .push(format!("it is not available: {}", message.map(|c| c.message.clone()).unwrap_or_default()));
    }
    let machines: Vec<_> =
        seen.machines.iter().filter(|machine| cluster_of(*machine).as_ref() == Some(key)).collect();
    let instances: Vec<_> =
        seen.instances.iter().filter(|instance| cluster_of(*instance).as_ref() == Some(key)).collect();
    let is_control_plane = |machine: &&&Machine| labels::is_control_plane(&machine.metadata);
    let found = machines.iter().filter(is_control_plane).count();
    if (found, machines.len()) != (*control_plane, control_plane + workers) {
        missing.push(format!(
            "it has {found} Machines of the control plane of {}, not {control_plane} of {}",
            machines.len(),
            control_plane + workers
        ));
    }
    if instances.len() != machines.len() {
        missing.push(format!("it has {} InMemoryMachines", instances.len()));
    }
    let other = machines.iter().filter(|machine| machine.spec.version != *version);
    missing
        .extend(other.map(|machine| format!("{} has version {}", machine.name_any(), machine.spec.version)));
    for instance in &instances {
        if !is_ready(instance) {
            let conditions = instance.status.clone().unwrap_or_default().conditions;
            let ready = conditions::find(&conditions, types::READY);
            let message =
                ready.map(|ready| format!("{} {}", ready.reason, ready.message)).unwrap_or_default();
            missing.push(format!("{} is not ready: {message}", instance.name_any()));
        }
    }
    missing.extend(not_running(key, &instances, seen));
    let nodes = seen.nodes.get(key).map(Vec::as_slice).unwrap_or_default();
    if nodes.len() != instances.len() {
        missing.push(format!("it has {} Nodes for {} InMemoryMachines", nodes.len(), instances.len()));
    }
    let kubelet = |node: &Node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone());
    let old = nodes.iter().filter(|node| kubelet(node).as_ref() != Some(version));
    missing.extend(old.map(|node| format!("Node {} runs {:?}", node.name_any(), kubelet(node))));
    missing
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use nephele_api::infrastructure::v1beta2::ControlPlaneEndpoint;

    use super::*;

    fn published(name: &str, uid: &str, port: i32) -> InMemoryCluster {
        let mut object = InMemoryCluster {
            metadata: ObjectMeta { name: Some(name.into()), uid: Some(uid.into()), ..ObjectMeta::default() },
            ..InMemoryCluster::default()
        };
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint { host: "h".into(), port });
        object
    }

    #[test]
    fn an_endpoint_that_changes_or_is_there_twice_is_a_violation() {
        let seen = |objects: Vec<InMemoryCluster>| Seen { infrastructure: objects, ..Seen::default() };
        let mut auditor = Auditor::default();
        assert_eq!(
            auditor.look(&seen(vec![published("a", "1", 20_000), published("b", "2", 20_001)])),
            Ok(())
        );
        let changed = auditor.look(&seen(vec![published("a", "1", 20_002)]));
        assert_eq!(changed, Err("the endpoint of a was h:20000 and is Some(\"h:20002\")".into()));
        let twice = auditor.look(&seen(vec![published("b", "2", 20_001), published("c", "3", 20_001)]));
        assert_eq!(twice, Err("endpoint h:20001 is that of b and of c".into()));
        // Another object of the name may have another endpoint.
        assert_eq!(auditor.look(&seen(vec![published("a", "4", 20_005)])), Ok(()));
    }
}
