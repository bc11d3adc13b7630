//! A Machine that is not being deleted: the parts of core and of the bootstrap provider.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use nephele_api::conditions::{self, types};
use nephele_api::core::{Machine, MachineInitialization, MachineStatus, NodeReference};
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_api::labels;

use super::cluster::has_certificates;
use super::{Action, condition, pool};
use crate::observe::Observed;
use crate::{RUNNING, workload};

const NODE_READY: &str = "NodeReady";

pub(super) fn is_deleting(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

/// The Node in the Machine's status.
pub(super) fn node(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

fn holds(machine: &Machine, kind: &str) -> bool {
    machine.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, kind))
}

pub(super) fn has_ready_node(machine: &Machine) -> bool {
    node(machine).is_some() && holds(machine, NODE_READY)
}

/// Whether everything on the Machine is up.
pub(super) fn is_up(machine: &Machine) -> bool {
    !is_deleting(machine) && has_ready_node(machine) && holds(machine, types::READY)
}

/// The next actions for a Machine.
pub(super) fn provide(observed: &Observed, machine: &Machine, now: Timestamp) -> Vec<Action> {
    let name = machine.name_any();
    let mut actions = Vec::new();
    let infrastructure = observed.infrastructure_of(machine);
    // The InMemoryMachinePool creates its machines itself, and they boot with the pool's bootstrap data.
    let is_alone = !pool::is_member(machine);
    if infrastructure.is_none() && is_alone {
        actions.push(Action::CreateInfrastructureMachine(name.clone()));
    }
    if is_alone && machine.data_secret_name().is_none() && may_boot(observed, machine) {
        actions.push(Action::CreateBootstrapData(name.clone()));
    }
    if machine.spec.provider_id.is_empty()
        && let Some(infrastructure) = infrastructure.filter(|infrastructure| infrastructure.is_provisioned())
        && !infrastructure.spec.provider_id.is_empty()
    {
        let provider_id = infrastructure.spec.provider_id.clone();
        actions.push(Action::NameProvider { machine: name.clone(), provider_id });
    }
    let node = found_node(observed, machine);
    if let Some(node) = node
        && !workload::is_marked(node, &observed.cluster, machine)
    {
        actions.push(Action::AdoptNode { machine: name.clone(), node: node.name_any() });
    }
    let old = machine.status.clone().unwrap_or_default();
    let status = status(machine, infrastructure, node, old.clone(), now);
    if status != old {
        actions.push(Action::ReportMachine { machine: name, status });
    }
    actions
}

/// Whether a Machine may boot. The first control plane machine boots with `kubeadm init` as soon as the certificates
/// exist; all others join, and so wait for it.
fn may_boot(observed: &Observed, machine: &Machine) -> bool {
    let is_first = || {
        let mut control_plane =
            observed.machines.iter().filter(|other| labels::is_control_plane(&other.metadata));
        labels::is_control_plane(&machine.metadata)
            && control_plane
                .all(|other| other.name_any() == machine.name_any() || other.data_secret_name().is_none())
    };
    observed.cluster.is_infrastructure_provisioned()
        && has_certificates(observed)
        && (observed.cluster.is_control_plane_initialized() || is_first())
}

/// The Node with the Machine's provider ID.
fn found_node<'a>(observed: &'a Observed, machine: &Machine) -> Option<&'a Node> {
    let wanted = Some(machine.spec.provider_id.as_str()).filter(|id| !id.is_empty())?;
    let provider_id = |node: &Node| node.spec.as_ref()?.provider_id.clone();
    observed.workload.as_ref()?.nodes.iter().find(|node| provider_id(node).as_deref() == Some(wanted))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn status(
    machine: &Machine,
    infrastructure: Option<&InMemoryMachine>,
    node: Option<&Node>,
    old: MachineStatus,
    now: Timestamp,
) -> MachineStatus {
    let mut status = old;
    let reported = infrastructure.and_then(|infrastructure| infrastructure.status.as_ref());
    let bootstrapped = machine.data_secret_name().is_some();
    let provisioned =
        infrastructure.is_some_and(InMemoryMachine::is_provisioned) && !machine.spec.provider_id.is_empty();
    status.initialization = Some(MachineInitialization {
        infrastructure_provisioned: provisioned.then_some(true),
        bootstrap_data_secret_created: bootstrapped.then_some(true),
    });
    if let Some(reported) = reported {
        status.addresses.clone_from(&reported.addresses);
    }
    if let Some(node) = node {
        status.node_ref = Some(NodeReference { name: node.name_any() });
        let ready = condition(NODE_READY, is_ready(node), "Waiting for the Node to be ready");
        conditions::set(&mut status.conditions, ready, now);
    }
    let ready = reported.and_then(|reported| conditions::find(&reported.conditions, types::READY));
    let infrastructure_ready = ready.is_some_and(|ready| ready.status == conditions::TRUE);
    let message = ready.map_or("Waiting for the infrastructure", |ready| ready.message.as_str());
    conditions::set(
        &mut status.conditions,
        condition("InfrastructureReady", infrastructure_ready, message),
        now,
    );

    let node_ready = status.node_ref.is_some() && conditions::is_true(&status.conditions, NODE_READY);
    let message = if infrastructure_ready { "Waiting for the Node" } else { message };
    let summary = condition(types::READY, infrastructure_ready && node_ready, message);
    conditions::set(&mut status.conditions, summary, now);
    status.phase = match (bootstrapped, provisioned, &status.node_ref) {
        (_, true, Some(_)) => RUNNING,
        (_, true, None) => "Provisioned",
        (true, false, _) => "Provisioning",
        (false, false, _) => "Pending",
    }
    .to_owned();
    status
}
