//! Checks the objects and turns them into values to act on. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{
        Component, InMemoryMachine, Provisioning,
        creation_record::MachineHardware,
        pool_machine::{FAILURE_DOMAIN_ANNOTATION, POOL_NAME_LABEL, annotation},
    },
    labels,
};
use nephele_cloud::{Allocation, Hardware, Latency, MachineAddress, MachineSpec, Software};
use nephele_controller::is_externally_managed;
use nephele_model::{Caller, CloudError, ClusterId, MachineId, Market, Role, Stage};

use super::{
    bootstrap,
    fetch::Fetched,
    recorded::{cloud, has_booted, origin, zone},
    software,
};
use crate::{
    claims::{self, Claim},
    resolved_cloud::ResolvedCloud,
    rests::{why_rests, why_unreadable},
};

/// The result of the checks.
#[derive(Debug, PartialEq)]
pub(super) enum Validated {
    /// The InMemoryMachine is externally managed.
    ExternallyManaged,
    /// The InMemoryMachine has no owner yet.
    WithoutOwner(Option<MachineId>),
    /// Its Machine or its Cluster does not exist (yet).
    Orphaned(Option<MachineId>),
    /// The object is paused; the message says why.
    Paused {
        message: String,
        /// The machine, if its creation began before: it keeps running.
        begun: Option<Box<Wanted>>,
    },
    /// The machine should run.
    Wanted(Box<Wanted>),
}

/// A machine that should run, and everything that it may have to wait for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) spec: MachineSpec,
    /// The claims whose addresses it boots with.
    pub(super) claims: Vec<Claim>,
    /// A mistake of the user.
    pub(super) mistake: Option<Mistake>,
    pub(super) infrastructure_provisioned: bool,
    pub(super) control_plane_initialized: bool,
    pub(super) bootstrapped: bool,
    /// The state of the cluster in the cloud.
    pub(super) simulated: Simulated,
    /// Whether it was provisioned before: then it does not wait again.
    pub(super) provisioned: bool,
    /// Whether the cloud has the machine.
    pub(super) exists: bool,
    /// Whether its instance is gone for good.
    pub(super) has_vanished: bool,
}

impl Wanted {
    /// Whether extensions are called before its creation. The cloud may have a machine without a start time in the
    /// status, because the status is written later.
    pub(super) fn is_asked_about(&self) -> bool {
        !self.has_begun() && !self.exists
    }

    /// Whether its creation has begun, now or before a restart.
    pub(super) fn has_begun(&self) -> bool {
        self.provisioned || self.spec.started_at.is_some()
    }
}

/// The state in the cloud of a machine's cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Simulated {
    /// The cloud does not have the cluster yet, for example right after a restart.
    No,
    /// The cluster has no certificate authorities, which a control plane needs.
    WithoutAuthorities,
    /// The certificate authorities cannot be used; the message says why.
    WithBadAuthorities(String),
    /// The cluster has everything that a machine needs.
    Yes,
}

/// A mistake that a user can make in a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The cluster has failure domains, but not this one.
    FailureDomain { wanted: String, known: Vec<String> },
    /// The cloud does not have the instance type, image or version, or the cloud does not exist.
    Unknown(CloudError),
}

pub(super) fn validate(object: &InMemoryMachine, mut fetched: Fetched) -> Validated {
    if is_externally_managed(&object.metadata) {
        return Validated::ExternallyManaged;
    }
    let id = fetched.id.take().map(|cluster| MachineId {
        cluster,
        name: object.name_any(),
    });
    // One that has lost its owner and is being deleted rests while it is paused, like any other.
    if !fetched.owned && object.metadata.deletion_timestamp.is_none() {
        return match why_unreadable(&object.metadata) {
            Some(message) => Validated::Paused { message, begun: None },
            None => Validated::WithoutOwner(id),
        };
    }
    let machine = fetched.machine.take();
    let cluster = fetched.cluster.take();
    let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
    let paused = why_rests("InMemoryMachine", &object.metadata, paused);
    let found = machine.zip(cluster).zip(id.clone());
    let wanted = found
        .map(|((machine, cluster), id)| Box::new(wanted(object, &machine, &cluster, id.cluster, fetched)));
    match (paused, wanted) {
        (Some(message), wanted) => {
            let begun = wanted.filter(|wanted| wanted.has_begun() && !object.has_ended());
            let begun = begun.map(|wanted| {
                Box::new(Wanted {
                    spec: kept(object, wanted.spec.clone()),
                    ..*wanted
                })
            });
            Validated::Paused { message, begun }
        }
        (None, Some(wanted)) => Validated::Wanted(wanted),
        (None, None) => Validated::Orphaned(id),
    }
}

/// The specification of a paused machine: it runs what it ran, and no update begins.
fn kept(object: &InMemoryMachine, spec: MachineSpec) -> MachineSpec {
    let update = spec.update.filter(|update| update.is_accepted);
    let spec = MachineSpec { update, ..spec };
    match software::recorded(object) {
        Some(Software {
            version,
            image,
            etcd_image_tag,
            files,
        }) => MachineSpec {
            version,
            image,
            etcd_image_tag,
            files,
            ..spec
        },
        None => spec,
    }
}

/// The result for a machine that has a Machine and a Cluster. `fetched` is the rest of what was read.
fn wanted(
    object: &InMemoryMachine,
    machine: &Machine,
    cluster: &Cluster,
    cluster_id: ClusterId,
    fetched: Fetched,
) -> Wanted {
    let Fetched {
        exists,
        has_vanished,
        observed,
        resolved_cloud,
        described,
        claims,
        authorities_fault,
        ..
    } = fetched;
    let simulated = match (observed.filter(|_| resolved_cloud.is_some()), authorities_fault) {
        (None, _) => Simulated::No,
        (Some(observed), _) if observed.authorities_set => Simulated::Yes,
        (Some(_), Some(fault)) => Simulated::WithBadAuthorities(fault),
        (Some(_), None) => Simulated::WithoutAuthorities,
    };
    let spec = in_cloud(object, machine, cluster_id, resolved_cloud.as_deref(), &claims);
    let booted = has_booted(object);
    let unknown = described.and_then(Result::err).map(Mistake::Unknown);
    let misplaced = misplaced(wanted_zone(object, machine), cluster);
    let mistake = misplaced.or(unknown).filter(|_| !booted);
    Wanted {
        spec,
        claims,
        mistake,
        infrastructure_provisioned: cluster.is_infrastructure_provisioned(),
        control_plane_initialized: cluster.is_control_plane_initialized(),
        bootstrapped: machine.data_secret_name().is_some(),
        simulated,
        provisioned: object.is_provisioned(),
        exists,
        has_vanished,
    }
}

/// A machine in the cloud where it was made, else in that of its cluster.
pub(crate) fn in_cloud(
    object: &InMemoryMachine,
    machine: &Machine,
    cluster: ClusterId,
    of_cluster: Option<&ResolvedCloud>,
    claims: &[Claim],
) -> MachineSpec {
    let spec = spec(object, machine, cluster, claims);
    let known = || of_cluster.map(|resolved_cloud| resolved_cloud.cloud_spec().to_owned());
    let cloud_spec = cloud(object).or_else(known).unwrap_or_default();
    match object.origin() {
        // A machine keeps its hardware, even when the cloud has changed.
        Some(origin) => MachineSpec {
            cloud_spec,
            hardware: hardware(object),
            region: text(&origin.region),
            ..spec
        },
        None => MachineSpec {
            cloud_spec,
            region: of_cluster.and_then(|resolved_cloud| resolved_cloud.region(spec.zone.as_deref()?)),
            ..spec
        },
    }
}

fn spec(object: &InMemoryMachine, machine: &Machine, cluster: ClusterId, claims: &[Claim]) -> MachineSpec {
    let status = object.status.clone().unwrap_or_default();
    let origin = origin(object);
    let role = if labels::is_control_plane(&machine.metadata) {
        Role::ControlPlane
    } else {
        Role::Worker
    };
    // The conditions of an instance that was terminated do not say what it had reached until then.
    let recorded = object
        .origin()
        .filter(|_| origin.is_some() || object.termination().is_some());
    let reached = Stage::of(role).iter().filter_map(|stage| {
        let before = || recorded.as_ref()?.reached.get(stage.as_str()).map(|time| time.0);
        let known = conditions::true_since(&status.conditions, condition_type(*stage));
        Some((*stage, known.or_else(before)?))
    });
    let Software {
        version,
        image,
        etcd_image_tag,
        files,
    } = software::software(object, machine);
    let kubeadm = object.origin().and_then(|origin| origin.kubeadm);
    MachineSpec {
        id: MachineId {
            cluster,
            name: object.name_any(),
        },
        labels: machine.labels().clone(),
        role,
        caller: caller(machine),
        version,
        // A machine stays in the zone where it was placed.
        zone: zone(object).or_else(|| wanted_zone(object, machine)),
        region: None,
        cloud_spec: String::new(),
        instance_type: text(&object.spec.instance_type),
        market: Market::of(&object.spec.market),
        hardware: None,
        image,
        etcd_image_tag,
        files,
        kubeadm: kubeadm.map(|recorded| Box::new(bootstrap::from_api(recorded))),
        update: software::update(object),
        start_up: start_up(object),
        allocation: allocation_with(object, Some(machine), claims),
        started_at: status
            .start_time
            .or_else(|| origin.as_ref().map(|origin| origin.start_time.clone()))
            .map(|time| time.0),
        reached: reached.collect(),
        is_deregistered: object.is_deregistered(),
        etcd_member_removed: role == Role::ControlPlane && is_etcd_member_removed(machine),
    }
}

/// Who calls the cloud about a machine.
fn caller(machine: &Machine) -> Caller {
    let is_of_pool = labels::value(&machine.metadata, POOL_NAME_LABEL).is_some();
    if is_of_pool {
        Caller::MachinePool
    } else {
        Caller::Machine
    }
}

/// The addresses, pod networks and number of a machine that are already published. The cloud chooses the rest.
pub(super) fn allocation_with(
    object: &InMemoryMachine,
    machine: Option<&Machine>,
    claims: &[Claim],
) -> Allocation {
    let addresses = addresses(object, claims);
    let origin = object.origin();
    let pod_cidrs = origin
        .as_ref()
        .map(|origin| origin.pod_cidrs.clone())
        .unwrap_or_default();
    let known = origin.and_then(|origin| origin.seed_key);
    let known = known.and_then(|known| Some((known.owner_set, u32::try_from(known.ordinal).ok()?)));
    let (owner_set, ordinal) = match known {
        Some((owner_set, ordinal)) => (owner_set, Some(ordinal)),
        None => (machine.map(set_of).unwrap_or_default(), None),
    };
    Allocation {
        addresses,
        pod_cidrs,
        owner_set,
        ordinal,
    }
}

/// The hardware of a machine, if it was made before.
pub(crate) fn hardware(object: &InMemoryMachine) -> Option<Hardware> {
    let known = |MachineHardware {
                     architecture,
                     operating_system,
                     capacity,
                 }| Hardware {
        architecture,
        operating_system,
        capacity,
    };
    Some(object.origin()?.hardware.map(known).unwrap_or_default())
}

/// The published addresses, pod networks and number of a machine, without those of unbound claims.
pub(crate) fn allocation(object: &InMemoryMachine, machine: Option<&Machine>) -> Allocation {
    allocation_with(object, machine, &[])
}

/// The set of interchangeable machines that a Machine belongs to, by a name without a random part if there is one.
fn set_of(machine: &Machine) -> String {
    if labels::is_control_plane(&machine.metadata) {
        return "control-plane".to_owned();
    }
    let sets = [
        (labels::TOPOLOGY_DEPLOYMENT_NAME, "topology/machinedeployment"),
        (labels::TOPOLOGY_POOL_NAME, "topology/machinepool"),
        (labels::DEPLOYMENT_NAME, "machinedeployment"),
        (POOL_NAME_LABEL, "machinepool"),
        (labels::SET_NAME, "machineset"),
    ];
    let named = sets.iter().find_map(|(label, kind)| {
        let name = labels::value(&machine.metadata, label)?;
        Some(format!("{kind}/{name}"))
    });
    named.unwrap_or_else(|| format!("machine/{}", machine.name_any()))
}

/// The addresses that a machine was published with, or else the addresses from its pools. When there are none, the
/// cloud chooses them.
fn addresses(object: &InMemoryMachine, claims: &[Claim]) -> Vec<MachineAddress> {
    let origin = origin(object);
    let published = object.status.iter().flat_map(|status| &status.addresses);
    let published = published.chain(origin.iter().flat_map(|origin| &origin.addresses));
    let published: Vec<_> = published
        .map(|a| MachineAddress {
            kind: a.kind.clone(),
            address: a.address.clone(),
        })
        .collect();
    if !published.is_empty() {
        return published;
    }
    let internal: Vec<_> = if claims.is_empty() {
        claims::given(object).iter().collect()
    } else {
        claims.iter().filter_map(Claim::address).collect()
    };
    if internal.is_empty() {
        return Vec::new();
    }
    let internal = internal.into_iter().map(|a| MachineAddress {
        kind: "InternalIP".to_owned(),
        address: a.address.clone(),
    });
    let name = MachineAddress {
        kind: "Hostname".to_owned(),
        address: object.name_any(),
    };
    internal.chain([name]).collect()
}

/// KubeadmControlPlane puts this annotation on its Machines. It removes the annotation from a Machine that is being
/// deleted once it has removed its etcd member (`reconcilePreTerminateHook` in `controlplane/kubeadm` of cluster-api).
/// Releases without this hook remove the member and then delete the Machine.
const ETCD_MEMBER_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";

/// Whether the control plane provider has removed the machine's etcd member, according to its Machine. When a Machine
/// is being deleted without the hook, its member is not asked for any more.
fn is_etcd_member_removed(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some() && !machine.annotations().contains_key(ETCD_MEMBER_HOOK)
}

/// How long each part takes to start, where the object says so. Its cloud decides about the others.
fn start_up(object: &InMemoryMachine) -> BTreeMap<Stage, Latency> {
    let behaviour = object.spec.behaviour.clone().unwrap_or_default();
    let parts = [
        (Stage::Vm, behaviour.vm),
        (Stage::Node, behaviour.node),
        (Stage::Etcd, behaviour.etcd),
        (Stage::ApiServer, behaviour.api_server),
    ];
    let latency = |component: Component| {
        let Provisioning {
            startup_duration,
            startup_jitter,
        } = component.provisioning;
        Some(Latency::jittered(&startup_duration?, startup_jitter.as_ref()))
    };
    parts
        .into_iter()
        .filter_map(|(stage, part)| Some((stage, latency(part?)?)))
        .collect()
}

/// The failure domain that a machine should be placed in, from its Machine or its pool.
fn wanted_zone(object: &InMemoryMachine, machine: &Machine) -> Option<String> {
    let of_pool = || annotation(&object.metadata, FAILURE_DOMAIN_ANNOTATION).and_then(text);
    text(&machine.spec.failure_domain).or_else(of_pool)
}

/// The mistake of a machine that asks for a failure domain which its cluster does not have. A cluster without failure
/// domains accepts all names, as the upstream in-memory provider did.
fn misplaced(wanted: Option<String>, cluster: &Cluster) -> Option<Mistake> {
    let wanted = wanted?;
    let domains = cluster
        .status
        .as_ref()
        .map(|status| status.failure_domains.as_slice())
        .unwrap_or_default();
    let mut known: Vec<String> = domains.iter().map(|domain| domain.name.clone()).collect();
    known.sort();
    (!known.is_empty() && !known.contains(&wanted)).then_some(Mistake::FailureDomain { wanted, known })
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The type of the condition for a stage.
pub(super) fn condition_type(stage: Stage) -> &'static str {
    match stage {
        Stage::Vm => types::VM_PROVISIONED,
        Stage::Node => types::NODE_PROVISIONED,
        Stage::Etcd => types::ETCD_PROVISIONED,
        Stage::ApiServer => types::API_SERVER_PROVISIONED,
    }
}

#[cfg(test)]
mod tests;
