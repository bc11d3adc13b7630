//! From loose objects to what can be acted on. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use nephele_api::conditions::{self, types};
use nephele_api::core::Machine;
use nephele_api::infrastructure::v1beta2::{Component, InMemoryMachine};
use nephele_api::labels;
use nephele_api::start_up::{StartupDuration, StartupJitter};
use nephele_cloud::{MachineAddress, MachineId, MachineSpec, Role, Stage, StartUp};
use nephele_kit::{is_externally_managed, paused_message};

use super::fetch::Fetched;

/// What the objects come to.
pub(super) enum Validated {
    /// Somebody else looks after it.
    ExternallyManaged,
    /// No Machine has claimed it yet.
    WithoutOwner(Option<MachineId>),
    /// What owns it is not there (yet).
    Orphaned(Option<MachineId>),
    /// It is to be left alone; the message says why.
    Paused(String),
    /// It is to be there.
    Wanted(Box<Wanted>),
}

/// A machine that is to be there, and what it may have to wait for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) spec: MachineSpec,
    pub(super) infrastructure_provisioned: bool,
    pub(super) control_plane_initialized: bool,
    pub(super) bootstrapped: bool,
    /// Whether the cloud knows the cluster, and its authorities.
    pub(super) cluster_known: bool,
    pub(super) authorities_set: bool,
    /// Whether it was provisioned before: then nothing is waited for again.
    pub(super) provisioned: bool,
}

pub(super) fn validate(object: &InMemoryMachine, fetched: Fetched) -> Validated {
    let Fetched { owned, machine, cluster_id, cluster, observed } = fetched;
    if is_externally_managed(&object.metadata) {
        return Validated::ExternallyManaged;
    }
    let id = cluster_id.map(|cluster| MachineId { cluster, name: object.name_any() });
    if !owned {
        return Validated::WithoutOwner(id);
    }
    let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
    if let Some(message) = paused_message("InMemoryMachine", &object.metadata, paused) {
        return Validated::Paused(message);
    }
    let (Some(machine), Some(cluster), Some(id)) = (machine, cluster, id.clone()) else {
        return Validated::Orphaned(id);
    };
    Validated::Wanted(Box::new(Wanted {
        spec: spec(object, &machine, id),
        infrastructure_provisioned: cluster.is_infrastructure_provisioned(),
        control_plane_initialized: cluster.is_control_plane_initialized(),
        bootstrapped: machine.data_secret_name().is_some(),
        cluster_known: observed.is_some(),
        authorities_set: observed.is_some_and(|observed| observed.authorities_set),
        provisioned: object.is_provisioned(),
    }))
}

fn spec(object: &InMemoryMachine, machine: &Machine, id: MachineId) -> MachineSpec {
    let status = object.status.clone().unwrap_or_default();
    let role = if labels::is_control_plane(&machine.metadata) { Role::ControlPlane } else { Role::Worker };
    let behaviour = object.spec.behaviour.clone().unwrap_or_default();
    let parts = [
        (Stage::Vm, &behaviour.vm),
        (Stage::Node, &behaviour.node),
        (Stage::Etcd, &behaviour.etcd),
        (Stage::ApiServer, &behaviour.api_server),
    ];
    let start_up =
        parts.into_iter().filter_map(|(stage, part)| Some((stage, start_up(part.as_ref()?)?))).collect();
    let reached: BTreeMap<_, _> = Stage::of(role)
        .iter()
        .filter_map(|stage| {
            Some((*stage, conditions::true_since(&status.conditions, condition_type(*stage))?))
        })
        .collect();
    let addresses = status.addresses.into_iter();
    MachineSpec {
        role,
        version: machine.spec.version.clone(),
        zone: text(&machine.spec.failure_domain).or_else(|| text(&status.failure_domain)),
        instance_type: text(&object.spec.instance_type),
        start_up,
        addresses: addresses.map(|a| MachineAddress { kind: a.kind, address: a.address }).collect(),
        reached,
        id,
    }
}

/// How long a part takes to start. The schema has checked both texts; what slips past it counts as no delay, so that one
/// odd object holds nobody up.
fn start_up(component: &Component) -> Option<StartUp> {
    let provisioning = &component.provisioning;
    let duration = StartupDuration::parse(&provisioning.startup_duration).ok()?.get();
    let jitter = StartupJitter::parse(&provisioning.startup_jitter).map_or(0.0, StartupJitter::get);
    Some(StartUp { duration, jitter })
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The condition that says how far a stage is.
pub(super) fn condition_type(stage: Stage) -> &'static str {
    match stage {
        Stage::Vm => types::VM_PROVISIONED,
        Stage::Node => types::NODE_PROVISIONED,
        Stage::Etcd => types::ETCD_PROVISIONED,
        Stage::ApiServer => types::API_SERVER_PROVISIONED,
    }
}
