//! Decides about a cluster. Pure: from objects, a plan and the time to actions.

mod cluster;
mod deletion;
mod machine;
mod pool;
#[cfg(test)]
mod tests;
mod topology;

use jiff::Timestamp;
use kube::ResourceExt;
use nephele_api::conditions;
use nephele_api::core::{Cluster, ClusterStatus, Endpoint, Machine, MachineStatus};
use nephele_api::infrastructure::v1beta2::InMemoryCluster;

pub(crate) use self::pool::PoolAction;
pub(crate) use self::topology::refused;
use crate::certificates::Purpose;
use crate::observe::Observed;
use crate::plan::{DeploymentPlan, Wanted};

/// One write. Every write is idempotent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Topology: add everything that the topology leaves to the controller to the Cluster.
    CompleteCluster(Box<Cluster>),
    /// Topology: create the infrastructure cluster.
    CreateInfrastructure(Box<InMemoryCluster>),
    /// Core: own and label the infrastructure cluster.
    AdoptInfrastructure,
    /// Core: copy the endpoint from the infrastructure cluster.
    PublishEndpoint(Endpoint),
    /// Kubeadm control plane: create a key pair.
    CreateKeyPair(Purpose),
    /// Kubeadm control plane: create the administrator's kubeconfig.
    CreateKubeconfig(Endpoint),
    /// Kubeadm control plane, or a MachineSet: create a Machine.
    CreateMachine {
        name: String,
        /// Its MachineDeployment; none for the control plane.
        deployment: Option<Box<DeploymentPlan>>,
    },
    /// The same: create the InMemoryMachine of a Machine.
    CreateInfrastructureMachine(String),
    /// Kubeadm bootstrap: create the bootstrap data of a Machine, and name its Secret in the Machine.
    CreateBootstrapData(String),
    /// Core: copy the provider ID from the InMemoryMachine to its Machine.
    NameProvider {
        machine: String,
        provider_id: String,
    },
    /// Core: mark the Node of a Machine.
    AdoptNode {
        machine: String,
        node: String,
    },
    /// Core: write the status of a Machine.
    ReportMachine {
        machine: String,
        status: MachineStatus,
    },
    /// Core: write the status of the Cluster.
    ReportCluster(ClusterStatus),
    /// Core: delete the objects in order.
    DeleteMachine(String),
    DeleteInfrastructureMachine(String),
    DeleteNode {
        machine: String,
        node: String,
    },
    ReleaseMachine(String),
    DeleteInfrastructure,
    ReleaseCluster,
    /// An action on the MachinePool.
    Pool(PoolAction),
}

/// The decision that follows from an observation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) actions: Vec<Action>,
    /// Whether to poll the workload cluster again soon, because it is not watched.
    pub(crate) polls: bool,
}

/// Whether the workload cluster has to be read before the decision. Core reads it for Machines that have a provider ID
/// but no ready Node; the control plane provider reads it until the first API server is up.
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
pub(crate) fn decide(wanted: &Wanted, observed: &Observed, now: Timestamp) -> Decision {
    let only = |actions| Decision { actions, polls: false };
    if observed.cluster.metadata.deletion_timestamp.is_some() {
        return only(deletion::delete_cluster(observed, now));
    }
    let plan = match wanted {
        Wanted::Plan(plan) => plan,
        Wanted::Topology(Ok(plan)) => match topology::provide(plan, observed) {
            Some(action) => return only(vec![action]),
            None => plan,
        },
        Wanted::Topology(Err(error)) => {
            return only(topology::report_failure(observed, &error.to_string(), now).into_iter().collect());
        }
    };
    let mut actions = cluster::provide(plan, observed);
    for machine in &observed.machines {
        if machine::is_deleting(machine) {
            actions.extend(deletion::delete_machine(observed, machine));
        } else {
            actions.extend(machine::provide(observed, machine, now));
        }
    }
    let is_topology = matches!(wanted, Wanted::Topology(_));
    actions.extend(cluster::report(plan, observed, is_topology, now));
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
    // The reasons of Cluster API's summary conditions: the type, with Not in front of it when the status is false.
    let (status, reason) =
        if holds { (conditions::TRUE, kind.to_owned()) } else { (conditions::FALSE, format!("Not{kind}")) };
    conditions::condition(kind, status, &reason, if holds { "" } else { message })
}
