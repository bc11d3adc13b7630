//! The rules that hold in every world, whatever happens. Pure functions of the objects that clients can see.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt, api::ObjectMeta};
use nephele_api::{
    cloud::v1alpha1::{self as cloud, Fault, SimulatedCloud, StepStatus},
    conditions::{self, types},
    core::{Cluster, Machine, MachinePool},
    infrastructure::v1beta2::{
        InMemoryCluster, InMemoryMachine, InMemoryMachinePool,
        pool_machine::{FAILURE_DOMAIN_ANNOTATION, POOL_NAME_LABEL, REVISION_ANNOTATION, VERSION_ANNOTATION},
        termination::TERMINATE_ANNOTATION,
    },
    ipam::v1beta2::{IPAddress, IPAddressClaim},
    labels,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    moves::Uids,
    scenario::{Scenario, Step},
    script,
};

/// The precision that a time loses in a status with whole seconds, and a little more.
const WHOLE_SECONDS: SignedDuration = SignedDuration::from_millis(1_100);
/// The annotations that the provider writes to the InMemoryMachines of pools.
const OF_POOL_MACHINES: [&str; 3] = [VERSION_ANNOTATION, FAILURE_DOMAIN_ANNOTATION, REVISION_ANNOTATION];

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The number of the step during or after which it was seen.
    pub step: usize,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}

/// A cluster by namespace and name.
pub(crate) type ClusterKey = (String, String);

/// The objects that clients see at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) clusters: Vec<Arc<Cluster>>,
    pub(crate) infrastructure: Vec<Arc<InMemoryCluster>>,
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) instances: Vec<Arc<InMemoryMachine>>,
    pub(crate) machine_pools: Vec<Arc<MachinePool>>,
    pub(crate) instance_pools: Vec<Arc<InMemoryMachinePool>>,
    pub(crate) claims: Vec<Arc<IPAddressClaim>>,
    pub(crate) addresses: Vec<Arc<IPAddress>>,
    pub(crate) clouds: Vec<Arc<SimulatedCloud>>,
    pub(crate) faults: Vec<Arc<Fault>>,
    pub(crate) scripts: Vec<Arc<cloud::Scenario>>,
    /// Secrets, by the cluster in their label and by name.
    pub(crate) secrets: Vec<(ClusterKey, String)>,
    /// The Nodes of clusters that answer.
    pub(crate) nodes: BTreeMap<ClusterKey, Vec<Arc<Node>>>,
    /// The names of ConfigMaps that clients have written, for clusters that answer.
    pub(crate) notes: BTreeMap<ClusterKey, BTreeSet<String>>,
    /// The ports that are served, once for each manager that serves them.
    pub(crate) ports: Vec<u16>,
}

/// The values seen so far that may not change.
#[derive(Debug, Default)]
pub(crate) struct Auditor {
    /// Whether the objects of workload clusters are kept over restarts.
    keeps_state: bool,
    /// Whether managers of some clusters and of all clusters use the same port range. They do not see each other's
    /// clusters, so clusters of two namespaces may have the same port.
    shares_ports: bool,
    /// The quota of machines in a namespace; 0 means no limit.
    quota: u32,
    /// Whether the clock is set back in this world: a stage that began in the future begins again.
    is_set_back: bool,
    /// By the uid of the InMemoryCluster.
    endpoints: BTreeMap<String, String>,
    /// By the uid of the InMemoryMachine.
    provider_ids: BTreeMap<String, String>,
    /// By the uid of the InMemoryMachine.
    addresses: BTreeMap<String, Vec<String>>,
    /// By the uid of the InMemoryMachine.
    nodes: BTreeMap<String, NodeIdentity>,
    /// How long a machine took to boot, by its cluster, its set and its number in the set.
    boots: BTreeMap<(ClusterKey, String, i64), SignedDuration>,
    /// The namespaces in which a fault has kept machines from booting, or whose cloud had another clock or seed: there
    /// machines do not take as long as was drawn before.
    held: BTreeSet<String>,
    /// The steps of the Scenarios of users, by the uid of the Scenario.
    scripts: BTreeMap<String, Vec<StepStatus>>,
    /// The ports of leaked load balancers that their clouds listed when they were last looked at. None where a status may be
    /// written late.
    leaked_ports: Option<BTreeSet<u16>>,
    /// The namespaces in which users set clocks, also back: there Scenarios do not count on.
    set_clocks: BTreeSet<String>,
    /// The namespaces whose clock stood still or was slow: the time of their clouds may be behind that of objects.
    slow_clocks: BTreeSet<String>,
}

/// The values of a Node that do not change while its machine exists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeIdentity {
    pod_networks: Vec<String>,
    /// Only when objects are kept over restarts.
    uid: Option<String>,
}

impl NodeIdentity {
    /// Whether `now` may be the same Node as this one.
    fn is_that_of(&self, now: &Self) -> bool {
        self.pod_networks == now.pod_networks && (self.uid.is_none() || self.uid == now.uid)
    }
}

/// The key of a labelled object's cluster.
pub(crate) fn cluster_of<K: kube::Resource>(object: &K) -> Option<ClusterKey> {
    let name = labels::value(object.meta(), labels::CLUSTER_NAME)?;
    Some((object.meta().namespace.clone()?, name.to_owned()))
}

pub(crate) fn key_of<K: kube::Resource>(object: &K) -> ClusterKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The published endpoint of an InMemoryCluster.
pub(crate) fn endpoint(object: &InMemoryCluster) -> Option<(String, u16)> {
    let endpoint = object.spec.control_plane_endpoint.as_ref()?;
    let port = u16::try_from(endpoint.port).ok().filter(|port| *port != 0)?;
    Some((endpoint.host.clone(), port))
}

/// Whether the Ready condition of a machine is true.
pub(crate) fn is_ready(instance: &InMemoryMachine) -> bool {
    instance
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, types::READY))
}

impl Auditor {
    /// An auditor that has seen nothing yet.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let Scenario {
            trouble,
            keeps_state,
            shares_ports,
            quota,
            ..
        } = *scenario;
        // A manager may die after it created a machine, and its delayed status write may arrive late. The next manager
        // does not know of that machine.
        let told_late = trouble || scenario.steps.iter().any(|step| matches!(step, Step::Freeze(_)));
        let is_set_back = scenario.steps.iter().any(|step| matches!(step, Step::Jump(..0)));
        let quota = if told_late { 0 } else { quota };
        let leaked_ports = (!told_late).then(BTreeSet::new);
        Self {
            keeps_state,
            shares_ports,
            quota,
            is_set_back,
            leaked_ports,
            ..Self::default()
        }
    }

    /// Everything was moved to another management cluster, where objects have these new uids. Workload clusters stay
    /// the same except for the uids of Nodes, because their objects are created again.
    pub(crate) fn moved(&mut self, uids: &Uids) {
        fn renamed<T>(of: &mut BTreeMap<String, T>, uids: &Uids) {
            let before = std::mem::take(of).into_iter();
            of.extend(before.filter_map(|(uid, value)| Some((uids.get(&uid)?.clone(), value))));
        }
        renamed(&mut self.endpoints, uids);
        renamed(&mut self.provider_ids, uids);
        renamed(&mut self.addresses, uids);
        renamed(&mut self.nodes, uids);
        self.nodes.values_mut().for_each(|node| node.uid = None);
    }

    /// Checks the objects that are seen now against the rules, and against the values seen before.
    ///
    /// # Errors
    /// With the first broken rule.
    pub(crate) fn look(&mut self, seen: &Seen) -> Result<(), String> {
        self.endpoints(seen)?;
        self.instances(seen)?;
        self.nodes(seen)?;
        if !self.is_set_back {
            self.boots(seen)?;
        }
        self.quota(seen)?;
        annotations(seen)?;
        claimed_addresses(seen)?;
        self.scripts(seen)?;
        leaked_resources(seen)?;
        self.leaked_ports(seen)?;
        if !self.is_set_back {
            self.inherited(seen)?;
        }
        once(
            seen.ports
                .iter()
                .map(|port| (port.to_string(), "a listener".to_owned())),
            "port",
        )
    }

    /// No cluster gets the port of a leaked load balancer that its cloud has listed before and still keeps. A cluster whose
    /// deletion has not ended may still show the port that its own load balancer had.
    fn leaked_ports(&mut self, seen: &Seen) -> Result<(), String> {
        let Some(known) = &mut self.leaked_ports else {
            return Ok(());
        };
        let keeping = seen
            .clouds
            .iter()
            .filter(|cloud| cloud.spec.leaked_instances != "Delete");
        let listed = keeping.flat_map(|cloud| cloud.status.clone().unwrap_or_default().leaked_load_balancers);
        let listed: BTreeSet<_> = listed
            .filter_map(|leaked| u16::try_from(leaked.port?).ok())
            .collect();
        let given = seen
            .infrastructure
            .iter()
            .filter(|object| object.metadata.deletion_timestamp.is_none());
        for (name, (_, port)) in given.filter_map(|object| Some((object.name_any(), endpoint(object)?))) {
            if known.contains(&port) && listed.contains(&port) {
                return Err(format!("{name} has port {port} of a leaked load balancer"));
            }
        }
        *known = listed;
        Ok(())
    }

    /// No SimulatedCloud and no Fault tells of a time before it existed: one that a user deletes and creates again begins
    /// with nothing.
    fn inherited(&self, seen: &Seen) -> Result<(), String> {
        let is_told = |metadata: &ObjectMeta| {
            metadata
                .namespace
                .as_ref()
                .is_some_and(|namespace| !self.slow_clocks.contains(namespace))
        };
        for cloud in seen.clouds.iter().filter(|cloud| is_told(&cloud.metadata)) {
            let status = cloud.status.clone().unwrap_or_default();
            let told = cloud::SimulatedCloudStatus {
                paused_spec: None,
                ..status
            };
            nothing_before(
                &cloud.metadata,
                &serde_json::to_value(told).expect("a status is JSON"),
            )?;
        }
        for fault in seen.faults.iter().filter(|fault| is_told(&fault.metadata)) {
            let told = cloud::FaultStatus {
                paused_spec: None,
                ..fault.status.clone().unwrap_or_default()
            };
            nothing_before(
                &fault.metadata,
                &serde_json::to_value(told).expect("a status is JSON"),
            )?;
        }
        Ok(())
    }

    fn scripts(&mut self, seen: &Seen) -> Result<(), String> {
        for object in &seen.scripts {
            let steps = object.status.clone().unwrap_or_default().steps;
            let known = self.scripts.entry(object.uid().unwrap_or_default()).or_default();
            let counts_on = !self.set_clocks.contains(&object.namespace().unwrap_or_default());
            if let Some(what) = script::wrong(known, &steps, counts_on) {
                return Err(format!("Scenario {}: {what}", object.name_any()));
            }
            *known = steps;
        }
        Ok(())
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
                let among = if self.shares_ports {
                    object.namespace()
                } else {
                    None
                };
                published.extend(now.map(|now| (now + among.as_deref().unwrap_or_default(), name)));
            }
        }
        once(published.into_iter(), "endpoint")
    }

    fn instances(&mut self, seen: &Seen) -> Result<(), String> {
        let mut by_cluster: BTreeMap<ClusterKey, Vec<(String, String)>> = BTreeMap::new();
        let mut provider_ids = Vec::new();
        for object in &seen.instances {
            let name = object.name_any();
            let uid = object.uid().unwrap_or_default();
            let provider_id = object.spec.provider_id.clone();
            if let Some(before) = self.provider_ids.get(&uid)
                && *before != provider_id
            {
                return Err(format!(
                    "the providerID of {name} was {before} and is {provider_id}"
                ));
            }
            let status = object.status.clone().unwrap_or_default();
            let mut addresses: Vec<_> = status
                .addresses
                .into_iter()
                .filter(|address| address.kind == "InternalIP")
                .collect();
            addresses.sort_by(|one, other| one.address.cmp(&other.address));
            let addresses: Vec<_> = addresses.into_iter().map(|address| address.address).collect();
            if let Some(before) = self.addresses.get(&uid)
                && !addresses.is_empty()
                && *before != addresses
            {
                return Err(format!(
                    "the addresses of {name} were {before:?} and are {addresses:?}"
                ));
            }
            // A machine that is being deleted may have released the addresses that its object still shows.
            let stays = object.metadata.deletion_timestamp.is_none();
            if let Some(cluster) = cluster_of(&**object).filter(|_| stays) {
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
        by_cluster
            .into_values()
            .try_for_each(|held| once(held.into_iter(), "address"))
    }

    fn nodes(&mut self, seen: &Seen) -> Result<(), String> {
        for (cluster, nodes) in &seen.nodes {
            let networks = nodes.iter().flat_map(|node| {
                let name = node.name_any();
                pod_networks(node)
                    .into_iter()
                    .map(move |network| (network, name.clone()))
            });
            once(networks, "pod network")?;
            for node in nodes {
                let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
                let is_its = |instance: &&Arc<InMemoryMachine>| {
                    cluster_of(&***instance).as_ref() == Some(cluster)
                        && Some(&instance.spec.provider_id) == provider_id.as_ref()
                        && is_ready(instance)
                        && instance.metadata.deletion_timestamp.is_none()
                };
                let Some(uid) = seen.instances.iter().find(is_its).and_then(|found| found.uid()) else {
                    continue;
                };
                let name = node.name_any();
                // A fault lets a machine have a second Node, which has a name of its own.
                let is_its_name = seen
                    .instances
                    .iter()
                    .any(|instance| instance.uid().as_ref() == Some(&uid) && instance.name_any() == name);
                if !is_its_name {
                    continue;
                }
                let identity = NodeIdentity {
                    pod_networks: pod_networks(node),
                    uid: node.uid().filter(|_| self.keeps_state),
                };
                match self.nodes.get(&uid) {
                    Some(before) if !before.is_that_of(&identity) => {
                        return Err(format!("Node {name} was {before:?} and is {identity:?}"));
                    }
                    _ => drop(self.nodes.insert(uid, identity)),
                }
            }
        }
        Ok(())
    }
}

impl Auditor {
    /// From now on machines of this namespace do not take as long to boot as was drawn before.
    pub(crate) fn hold(&mut self, namespace: &str) {
        self.held.insert(namespace.to_owned());
    }

    /// From now on the clocks of this namespace may be set back.
    pub(crate) fn set_clock(&mut self, namespace: &str) {
        self.set_clocks.insert(namespace.to_owned());
    }

    /// From now on the clocks of this namespace may fall behind.
    pub(crate) fn slow_clock(&mut self, namespace: &str) {
        self.slow_clocks.insert(namespace.to_owned());
    }

    /// Random draws for a machine depend on its cluster, its set and its number in the set, but not on its name.
    fn boots(&mut self, seen: &Seen) -> Result<(), String> {
        for object in &seen.instances {
            let Some((cluster, origin)) = cluster_of(&**object).zip(object.origin()) else {
                continue;
            };
            if self.held.contains(&cluster.0) {
                continue;
            }
            let (Some(key), Some(booted)) = (origin.seed_key, origin.reached.get("vm")) else {
                continue;
            };
            let took = booted.0.duration_since(origin.start_time.0);
            let what = format!("number {} of {}", key.ordinal, key.owner_set);
            let before = *self
                .boots
                .entry((cluster, key.owner_set, key.ordinal))
                .or_insert(took);
            if (before - took).abs() > WHOLE_SECONDS {
                let name = object.name_any();
                return Err(format!(
                    "{name}, {what}, took {took:#} to boot, and {before:#} before"
                ));
            }
        }
        Ok(())
    }

    /// No namespace has more machines than its quota.
    fn quota(&self, seen: &Seen) -> Result<(), String> {
        let mut count: BTreeMap<String, u32> = BTreeMap::new();
        for object in seen
            .instances
            .iter()
            .filter(|object| self.quota > 0 && has_begun(object))
        {
            let count = count.entry(object.namespace().unwrap_or_default()).or_default();
            *count += 1;
            if *count > self.quota {
                let name = object.name_any();
                return Err(format!(
                    "{name} is one machine more than the {} of its namespace",
                    self.quota
                ));
            }
        }
        Ok(())
    }
}

/// Whether an InMemoryMachine has a simulated machine, according to the object.
pub(crate) fn has_begun(object: &InMemoryMachine) -> bool {
    let started = object
        .status
        .as_ref()
        .is_some_and(|status| status.start_time.is_some());
    // A move leaves the status behind, and none is written while the object is paused.
    let has_begun = started || object.has_origin();
    has_begun && object.metadata.deletion_timestamp.is_none() && object.termination().is_none()
}

/// Objects have only the annotations that users and Cluster API write, and those of machines of pools.
fn annotations(seen: &Seen) -> Result<(), String> {
    let clusters = seen.clusters.iter().map(|object| &object.metadata);
    let infrastructure = seen.infrastructure.iter().map(|object| &object.metadata);
    let machines = seen.machines.iter().map(|object| &object.metadata);
    let instances = seen.instances.iter().map(|object| &object.metadata);
    for metadata in clusters.chain(infrastructure).chain(machines).chain(instances) {
        let is_known = |name: &str| {
            let of_pool = labels::value(metadata, POOL_NAME_LABEL).is_some();
            name == TERMINATE_ANNOTATION || of_pool && OF_POOL_MACHINES.contains(&name)
        };
        let mut names = metadata.annotations.iter().flatten().map(|(name, _)| name);
        if let Some(unknown) = names.find(|name| !is_known(name)) {
            let object = metadata.name.as_deref().unwrap_or_default();
            return Err(format!("{object} has the annotation {unknown}"));
        }
    }
    Ok(())
}

/// No cloud lists a leaked instance or load balancer twice, also when several of one machine or cluster leaked.
fn leaked_resources(seen: &Seen) -> Result<(), String> {
    let listed = seen.clouds.iter().flat_map(|cloud| {
        let owner = key_of(&**cloud);
        let status = cloud.status.clone().unwrap_or_default();
        status.leaked_instances.into_iter().map(move |leaked| {
            let since = leaked.since.map(|since| since.0);
            let instance = format!("{} of {} since {since:?}", leaked.name, leaked.cluster);
            (format!("{instance} of {}/{}", owner.0, owner.1), leaked.fault)
        })
    });
    once(listed, "leaked instance")?;
    let listed = seen.clouds.iter().flat_map(|cloud| {
        let owner = key_of(&**cloud);
        let status = cloud.status.clone().unwrap_or_default();
        status.leaked_load_balancers.into_iter().map(move |leaked| {
            let since = leaked.since.map(|since| since.0);
            (
                format!(
                    "that of {} since {since:?} of {}/{}",
                    leaked.cluster, owner.0, owner.1
                ),
                leaked.fault,
            )
        })
    });
    once(listed, "leaked load balancer")
}

/// Fails when a time in what an object tells is from before the object.
fn nothing_before(metadata: &ObjectMeta, told: &Value) -> Result<(), String> {
    let created = metadata.creation_timestamp.as_ref().map(|created| created.0);
    match told {
        Value::Object(fields) => fields
            .values()
            .try_for_each(|told| nothing_before(metadata, told)),
        Value::Array(items) => items.iter().try_for_each(|told| nothing_before(metadata, told)),
        Value::String(text) => match text.parse::<Timestamp>() {
            Ok(time) if created.is_some_and(|created| time < created) => {
                let name = metadata.name.as_deref().unwrap_or_default();
                Err(format!("{name} tells of {time}, and was created at {created:?}"))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn pod_networks(node: &Node) -> Vec<String> {
    node.spec
        .as_ref()
        .and_then(|spec| spec.pod_cidrs.clone())
        .unwrap_or_default()
}

/// The addresses of bound claims are unique. A late request may create an IPAddress for a claim that is gone; that
/// address is released.
fn claimed_addresses(seen: &Seen) -> Result<(), String> {
    let held = seen.claims.iter().filter_map(|claim| {
        let name = claim.address_name()?;
        let is_its = |address: &&Arc<IPAddress>| {
            let mut owners = address.owner_references().iter();
            address.namespace() == claim.namespace()
                && address.name_any() == name
                && owners.any(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
        };
        let address = seen.addresses.iter().find(is_its)?;
        let pool = &address.spec.pool_ref.name;
        let namespace = address.namespace().unwrap_or_default();
        let stays = claim.metadata.deletion_timestamp.is_none();
        stays.then(|| {
            (
                format!("{} of {namespace}/{pool}", address.spec.address),
                claim.name_any(),
            )
        })
    });
    once(held, "address of a pool")
}

/// Fails when two holders have the same thing.
fn once(held: impl Iterator<Item = (String, String)>, what: &str) -> Result<(), String> {
    let mut holders = BTreeMap::new();
    for (thing, holder) in held {
        if let Some(other) = holders.insert(thing.clone(), holder.clone()) {
            return Err(format!("{what} {thing} belongs to {other} and to {holder}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use nephele_api::infrastructure::v1beta2::ControlPlaneEndpoint;

    use super::*;

    fn published(name: &str, uid: &str, port: i32) -> InMemoryCluster {
        let mut object = InMemoryCluster {
            metadata: ObjectMeta {
                name: Some(name.into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            },
            ..InMemoryCluster::default()
        };
        object.spec.control_plane_endpoint = Some(ControlPlaneEndpoint {
            host: "h".into(),
            port,
        });
        object
    }

    #[test]
    fn an_endpoint_that_changes_or_is_there_twice_is_a_violation() {
        let seen = |objects: Vec<InMemoryCluster>| Seen {
            infrastructure: objects.into_iter().map(Arc::new).collect(),
            ..Seen::default()
        };
        let mut auditor = Auditor::default();
        assert_eq!(
            auditor.look(&seen(vec![
                published("a", "1", 20_000),
                published("b", "2", 20_001)
            ])),
            Ok(())
        );
        let changed = auditor.look(&seen(vec![published("a", "1", 20_002)]));
        assert_eq!(
            changed,
            Err("the endpoint of a was h:20000 and is Some(\"h:20002\")".into())
        );
        let twice = auditor.look(&seen(vec![
            published("b", "2", 20_001),
            published("c", "3", 20_001),
        ]));
        assert_eq!(twice, Err("endpoint h:20001 belongs to b and to c".into()));
        // Another object of the same name may have another endpoint.
        assert_eq!(auditor.look(&seen(vec![published("a", "4", 20_005)])), Ok(()));
    }

    fn machine(name: &str, origin: &serde_json::Value) -> InMemoryMachine {
        let object = serde_json::json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "InMemoryMachine",
            "metadata": { "name": name, "uid": name, "namespace": "n", "labels": { labels::CLUSTER_NAME: "c" } },
            "spec": { "instance": { "machine": name, "origin": origin } },
            "status": { "startTime": "2026-03-04T05:06:07Z" },
        });
        serde_json::from_value(object).expect("an InMemoryMachine")
    }

    fn booted(name: &str, ordinal: i64, at: &str) -> InMemoryMachine {
        let start = "2026-03-04T05:06:07.000000Z";
        let key = serde_json::json!({ "set": "s", "ordinal": ordinal });
        machine(
            name,
            &serde_json::json!({ "startTime": start, "drawKey": key, "reached": { "vm": at } }),
        )
    }

    fn with_machines(machines: impl IntoIterator<Item = InMemoryMachine>) -> Seen {
        Seen {
            instances: machines.into_iter().map(Arc::new).collect(),
            ..Seen::default()
        }
    }

    #[test]
    fn what_is_drawn_for_a_machine_is_drawn_again_for_the_next_one_of_its_number() {
        let mut auditor = Auditor::default();
        let ten = booted("a", 0, "2026-03-04T05:06:17.300000Z");
        assert_eq!(auditor.look(&with_machines([ten])), Ok(()));
        let others = [
            booted("b", 0, "2026-03-04T05:06:18.000000Z"),
            booted("c", 1, "2026-03-04T05:06:20.000000Z"),
        ];
        assert_eq!(auditor.look(&with_machines(others)), Ok(()));
        let other = booted("d", 0, "2026-03-04T05:06:19.000000Z");
        let what = "d, number 0 of s, took 12s to boot, and 10s 300ms before";
        assert_eq!(auditor.look(&with_machines([other])), Err(what.into()));
    }

    #[test]
    fn a_machine_beyond_the_quota_and_an_annotation_of_ours_are_violations() {
        let mut auditor = Auditor {
            quota: 1,
            ..Auditor::default()
        };
        let none = serde_json::json!(null);
        let one = machine("a", &none);
        let other = machine("b", &none);
        let mut going = machine("c", &none);
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(auditor.look(&with_machines([one.clone(), going])), Ok(()));
        let what = "b is one machine more than the 1 of its namespace";
        assert_eq!(
            auditor.look(&with_machines([one.clone(), other])),
            Err(what.into())
        );
        let mut marked = one;
        let annotation = |name: &str| Some([(name.to_owned(), String::new())].into());
        marked.metadata.annotations = annotation(TERMINATE_ANNOTATION);
        assert_eq!(auditor.look(&with_machines([marked.clone()])), Ok(()));
        marked.metadata.annotations = annotation(VERSION_ANNOTATION);
        let what = format!("a has the annotation {VERSION_ANNOTATION}");
        assert_eq!(auditor.look(&with_machines([marked])), Err(what));
    }
}
