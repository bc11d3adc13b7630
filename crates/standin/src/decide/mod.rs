//! What to do about a cluster. Pure: from objects, a plan and the time to actions.

mod cluster;
mod deletion;
mod machine;
mod pool;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use kube::ResourceExt;
use nephele_api::conditions;
use nephele_api::core::{ClusterStatus, Endpoint, Machine, MachineStatus};

pub(crate) use self::pool::PoolAction;
use crate::certificates::Purpose;
use crate::observe::Observed;
use crate::plan::ClusterPlan;

/// One write. All of them may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Core: own and label the infrastructure cluster.
    AdoptInfrastructure,
    /// Core: take the endpoint over from the infrastructure cluster.
    PublishEndpoint(Endpoint),
    /// Kubeadm control plane: make a key pair.
    CreateKeyPair(Purpose),
    /// Kubeadm control plane: make the administrator's kubeconfig.
    CreateKubeconfig(Endpoint),
    /// Kubeadm control plane, or a MachineSet: make a Machine.
    CreateMachine {
        name: String,
        control_plane: bool,
    },
    /// The same: make the infrastructure of a Machine.
    CreateInfrastructureMachine(String),
    /// Kubeadm bootstrap: make the data that a Machine boots with, and name it.
    CreateBootstrapData(String),
    /// Core: take the provider id over from the infrastructure of a Machine.
    NameProvider {
        machine: String,
        provider_id: String,
    },
    /// Core: mark the Node of a Machine.
    AdoptNode {
        machine: String,
        node: String,
    },
    /// Core: say how a Machine is.
    ReportMachine {
        machine: String,
        status: MachineStatus,
    },
    /// Core: say how the Cluster is.
    ReportCluster(ClusterStatus),
    /// Core: delete in order.
    DeleteMachine(String),
    DeleteInfrastructureMachine(String),
    DeleteNode {
        machine: String,
        node: String,
    },
    ReleaseMachine(String),
    DeleteInfrastructure,
    ReleaseCluster,
    /// All about the MachinePool.
    Pool(PoolAction),
}

/// What follows from what was observed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) actions: Vec<Action>,
    /// Whether to ask the cluster again soon: nobody tells us when something changes in there.
    pub(crate) polls: bool,
}

/// Whether the cluster itself has to be asked before deciding. Core has its kubeconfig and looks up Nodes of Machines that
/// have a provider id but no Node that is ready; the control plane provider looks for the first API server.
pub(crate) fn asks_workload(observed: &Observed) -> bool {
    let deleting = observed.cluster.metadata.deletion_timestamp.is_some();
    let initialized = observed.cluster.is_control_plane_initialized();
    let waits_for_node = |machine: &Machine| {
        !machine.spec.provider_id.is_empty()
            && !machine::is_deleting(machine)
            && (!initialized || !machine::has_ready_node(machine))
    };
    let leaves_node = |machine: &Machine| {
        machine::is_deleting(machine)
            && machine::node(machine).is_some()
            && observed.infrastructure_of(machine).is_none()
    };
    !deleting
        && observed.secret("kubeconfig").is_some()
        && observed.machines.iter().any(|machine| waits_for_node(machine) || leaves_node(machine))
}

/// Decides what to do next.
pub(crate) fn decide(plan: &ClusterPlan, observed: &Observed, now: Timestamp) -> Decision {
    if observed.cluster.metadata.deletion_timestamp.is_some() {
        return Decision { actions: deletion::delete_cluster(observed, now), polls: false };
    }
    let mut actions = cluster::provide(plan, observed);
    for machine in &observed.machines {
        if machine::is_deleting(machine) {
            actions.extend(deletion::delete_machine(observed, machine));
        } else {
            actions.extend(machine::provide(observed, machine, now));
        }
    }
    actions.extend(cluster::report(plan, observed, now));
    Decision { actions, polls: asks_workload(observed) }
}

fn names(machines: &[Machine]) -> std::collections::BTreeSet<String> {
    machines.iter().map(ResourceExt::name_any).collect()
}

fn condition(
    kind: &str,
    holds: bool,
    message: &str,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
    // Cluster API's reasons of its summaries: the type, and Not in front of it.
    let (status, reason) =
        if holds { (conditions::TRUE, kind.to_owned()) } else { (conditions::FALSE, format!("Not{kind}")) };
    conditions::condition(kind, status, &reason, if holds { "" } else { message })
}
