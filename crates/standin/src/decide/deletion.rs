//! Deletion in core's order: workers, control plane, infrastructure, Cluster
//! (`core/reconcilers/cluster/cluster_controller.go`); for a Machine its infrastructure, its Node, the Machine
//! (`core/reconcilers/machine/machine_controller.go`).

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::conditions;
use nephele_api::core::{ClusterStatus, Machine};
use nephele_api::labels;

use super::{Action, machine, pool};
use crate::AVAILABLE;
use crate::names::{CLUSTER_FINALIZER, MACHINE_FINALIZER};
use crate::observe::Observed;

const DELETING: &str = "Deleting";

pub(super) fn delete_cluster(observed: &Observed, now: Timestamp) -> Vec<Action> {
    let mut actions: Vec<_> = report(observed, now).into_iter().collect();
    actions.extend(pool::delete(observed));
    if observed.machines.is_empty() && observed.pool.is_none() {
        match &observed.infrastructure {
            Some(infrastructure) if infrastructure.metadata.deletion_timestamp.is_none() => {
                actions.push(Action::DeleteInfrastructure);
            }
            Some(_) => {}
            None if observed.cluster.finalizers().iter().any(|held| held == CLUSTER_FINALIZER) => {
                return vec![Action::ReleaseCluster];
            }
            None => return Vec::new(),
        }
        return actions;
    }
    let is_worker = |machine: &Machine| !labels::is_control_plane(&machine.metadata);
    let workers_left = observed.machines.iter().any(is_worker);
    for machine in &observed.machines {
        if machine::is_deleting(machine) {
            actions.extend(delete_machine(observed, machine));
        } else if pool::is_member(machine) && observed.infrastructure_pool.is_some() {
            // The InMemoryMachinePool deletes its Machines.
        } else if is_worker(machine) || !workers_left {
            actions.push(Action::DeleteMachine(machine.name_any()));
        }
    }
    actions
}

/// The next step of a Machine that is being deleted. When the whole cluster is deleted, its Nodes are ignored.
pub(super) fn delete_machine(observed: &Observed, machine: &Machine) -> Vec<Action> {
    let name = machine.name_any();
    let mut actions = Vec::new();
    let mut status = machine.status.clone().unwrap_or_default();
    if status.phase != DELETING {
        DELETING.clone_into(&mut status.phase);
        actions.push(Action::ReportMachine { machine: name.clone(), status });
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
        actions.push(Action::DeleteNode { machine: name.clone(), node: node.to_owned() });
    }
    if machine.finalizers().iter().any(|held| held == MACHINE_FINALIZER) {
        actions.push(Action::ReleaseMachine(name));
    }
    actions
}

fn report(observed: &Observed, now: Timestamp) -> Option<Action> {
    let old = observed.cluster.status.clone().unwrap_or_default();
    let mut status = ClusterStatus { phase: DELETING.to_owned(), ..old.clone() };
    let gone =
        conditions::condition(AVAILABLE, conditions::FALSE, "NotAvailable", "The cluster is being deleted");
    conditions::set(&mut status.conditions, gone, now);
    (status != old).then_some(Action::ReportCluster(status))
}
