//! Decides about a cluster. Pure: from objects, a plan and the time to actions.

mod action;
mod cluster;
mod condition;
mod control_plane;
mod deletion;
mod deployment;
mod health_check;
mod machine;
mod machine_status;
mod paused;
mod pool;
mod replicas;
mod scale;
#[cfg(test)]
mod tests;
mod topology;

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::core::Machine;

use self::machine_status::{is_deleting, is_new, node};
pub(crate) use self::{
    action::{Action, OwnerAction, PoolAction},
    topology::refused,
};
use crate::{observe::Observed, wanted::Wanted};

/// The decision that follows from an observation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) actions: Vec<Action>,
    /// Whether to decide again soon: the workload cluster is not watched, and nothing tells that a drain is over.
    pub(crate) polls: bool,
}

/// Whether the workload cluster can be read: once a control plane machine may answer.
pub(crate) fn asks_workload(observed: &Observed) -> bool {
    observed.cluster.metadata.deletion_timestamp.is_none()
        && !paused::is_paused(&observed.cluster)
        && observed.secret("kubeconfig").is_some()
        && (observed.cluster.is_control_plane_initialized()
            || observed
                .machines
                .iter()
                .any(|machine| !machine.spec.provider_id.is_empty()))
}

/// Whether the workload cluster has to be read again soon, because something is about to happen there: a Node joins or
/// goes, or the first API server comes up.
fn waits_for_workload(observed: &Observed) -> bool {
    let initialized = observed.cluster.is_control_plane_initialized();
    let waits_for_node = |machine: &Machine| {
        !machine.spec.provider_id.is_empty()
            && !is_deleting(machine)
            && (!initialized || node(machine).is_none() || is_new(machine))
    };
    let leaves_node = |machine: &Machine| {
        is_deleting(machine) && node(machine).is_some() && observed.infrastructure_of(machine).is_none()
    };
    asks_workload(observed)
        && observed
            .machines
            .iter()
            .any(|machine| waits_for_node(machine) || leaves_node(machine))
}

/// Decides what to do next.
pub(crate) fn decide(wanted: &Wanted, observed: &Observed, now: Timestamp) -> Decision {
    let only = |actions| Decision {
        actions,
        polls: false,
    };
    if paused::is_paused(&observed.cluster) {
        return only(paused::report(observed, now));
    }
    let drains = observed
        .machines
        .iter()
        .any(|machine| deletion::is_draining(machine, now));
    if observed.cluster.metadata.deletion_timestamp.is_some() {
        return Decision {
            actions: deletion::delete_cluster(observed, now),
            polls: drains,
        };
    }
    let plan = match wanted {
        Wanted::Plan(plan) => plan,
        Wanted::Topology(Ok(plan)) => match topology::provide(plan, observed) {
            Some(action) => return only(vec![action]),
            None => plan,
        },
        Wanted::Topology(Err(error)) => {
            return only(
                topology::report_failure(observed, &error.to_string(), now)
                    .into_iter()
                    .collect(),
            );
        }
    };
    let plan = &scale::scaled(plan, observed);
    let (findings, mut actions) = health_check::look(observed, now);
    actions.extend(health_check::provide(plan, observed));
    actions.extend(control_plane::provide(plan, observed, now));
    actions.extend(deployment::provide(plan, observed, now));
    actions.extend(cluster::provide(plan, observed));
    for machine in &observed.machines {
        if is_deleting(machine) {
            actions.extend(deletion::delete_machine(observed, machine, now));
        } else {
            actions.extend(machine::provide(
                observed,
                machine,
                findings.get(&machine.name_any()),
                now,
            ));
        }
    }
    let is_topology = matches!(wanted, Wanted::Topology(_));
    actions.extend(cluster::report(plan, observed, is_topology, now));
    Decision {
        actions,
        polls: waits_for_workload(observed) || drains,
    }
}
