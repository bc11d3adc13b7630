//! Deletion in core's order: workers, control plane, infrastructure, Cluster
//! (`core/reconcilers/cluster/cluster_controller.go`); for a Machine its infrastructure, its Node, the Machine
//! (`core/reconcilers/machine/machine_controller.go`).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use nephele_api::{
    conditions,
    core::{ClusterStatus, Machine},
    labels,
};

use super::{
    action::{Action, OwnerAction},
    control_plane, deployment, machine_status as machine, pool,
};
use crate::{
    names::{CLUSTER_FINALIZER, MACHINE_FINALIZER},
    observe::Observed,
    phases::AVAILABLE,
};

const DELETING: &str = "Deleting";
/// How long a drain takes at least.
const DRAIN: SignedDuration = SignedDuration::from_secs(3);

pub(super) fn delete_cluster(observed: &Observed, now: Timestamp) -> Vec<Action> {
    let mut actions: Vec<_> = report(observed, now).into_iter().collect();
    actions.extend(pool::delete(observed));
    let is_going = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let deployments = observed
        .deployments
        .iter()
        .filter(|known| !is_going(&known.metadata));
    actions.extend(deployments.map(|known| Action::Owner(OwnerAction::DeleteDeployment(known.name_any()))));
    actions.extend(deployment::go(observed));
    let is_worker = |machine: &Machine| !labels::is_control_plane(&machine.metadata);
    let workers_left = observed.machines.iter().any(is_worker)
        || !observed.deployments.is_empty()
        || !observed.sets.is_empty()
        || observed.pool.is_some();
    if let Some(control_plane) = observed.control_plane.as_ref().filter(|_| !workers_left) {
        match is_going(&control_plane.metadata) {
            true => actions.extend(control_plane::go(observed)),
            false => actions.push(Action::Owner(OwnerAction::DeleteControlPlane)),
        }
    }
    if observed.machines.is_empty() && !workers_left && observed.control_plane.is_none() {
        match &observed.infrastructure {
            Some(infrastructure) if infrastructure.metadata.deletion_timestamp.is_none() => {
                actions.push(Action::DeleteInfrastructure);
            }
            Some(_) => {}
            None if observed
                .cluster
                .finalizers()
                .iter()
                .any(|held| held == CLUSTER_FINALIZER) =>
            {
                return vec![Action::ReleaseCluster];
            }
            None => return Vec::new(),
        }
        return actions;
    }
    for machine in &observed.machines {
        if machine::is_deleting(machine) {
            actions.extend(delete_machine(observed, machine, now));
        } else if is_owned(observed, machine) {
            // Its owner deletes it.
        } else if pool::is_member(machine) && observed.infrastructure_pool.is_some() {
            // The InMemoryMachinePool deletes its Machines.
        } else if is_worker(machine) || !workers_left {
            actions.push(Action::DeleteMachine(machine.name_any()));
        }
    }
    actions
}

/// Whether Cluster API would still drain the Node of an unhealthy Machine. Nothing is drained here, but who looks at Machines
/// once in a second should see that one goes.
pub(super) fn is_draining(machine: &Machine, now: Timestamp) -> bool {
    let since = machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    machine::is_to_be_remediated(machine) && since.is_some_and(|since| now.duration_since(since) < DRAIN)
}

/// Whether an owner is there that deletes the Machine.
fn is_owned(observed: &Observed, machine: &Machine) -> bool {
    match labels::is_control_plane(&machine.metadata) {
        true => observed.control_plane.is_some(),
        false => observed.sets.iter().any(|set| deployment::is_of(machine, set)),
    }
}

/// The next step of a Machine that is being deleted. When the whole cluster is deleted, its Nodes are ignored.
pub(super) fn delete_machine(observed: &Observed, machine: &Machine, now: Timestamp) -> Vec<Action> {
    let name = machine.name_any();
    let mut actions = Vec::new();
    let is_draining = is_draining(machine, now);
    let stage = match observed.infrastructure_of(machine) {
        Some(_) if is_draining => "DrainingNode",
        Some(_) => "WaitingForInfrastructureDeletion",
        None => "DeletingNode",
    };
    let old = machine.status.clone().unwrap_or_default();
    let mut status = old.clone();
    machine::report_deletion(&mut status, stage, now);
    if status != old {
        actions.push(Action::ReportMachine {
            machine: name.clone(),
            status,
        });
    }
    if is_draining {
        return actions;
    }
    if let Some(infrastructure) = observed.infrastructure_of(machine) {
        if infrastructure.metadata.deletion_timestamp.is_none() {
            actions.push(Action::DeleteInfrastructureMachine(name));
        }
        return actions;
    }
    if observed.cluster.metadata.deletion_timestamp.is_none()
        && let Some(node) = machine::node(machine)
        && let Some(workload) = &observed.workload
        && workload.nodes.iter().any(|other| other.name_any() == node)
    {
        actions.push(Action::DeleteNode {
            machine: name.clone(),
            node: node.to_owned(),
        });
    }
    if machine.finalizers().iter().any(|held| held == MACHINE_FINALIZER) {
        actions.push(Action::ReleaseMachine(name));
    }
    actions
}

fn report(observed: &Observed, now: Timestamp) -> Option<Action> {
    let old = observed.cluster.status.clone().unwrap_or_default();
    let mut status = ClusterStatus {
        phase: DELETING.to_owned(),
        ..old.clone()
    };
    let gone = conditions::condition(
        AVAILABLE,
        conditions::FALSE,
        "NotAvailable",
        "The cluster is being deleted",
    );
    conditions::set(&mut status.conditions, gone, now);
    (status != old).then_some(Action::ReportCluster(status))
}
