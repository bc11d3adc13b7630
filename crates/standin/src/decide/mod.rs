//! Decides about a cluster. Pure: from objects, a plan and the time to actions.

mod cluster;
mod control_plane;
mod deletion;
mod deployment;
mod health_check;
mod machine;
mod paused;
mod pool;
mod replicas;
mod scale;
#[cfg(test)]
mod tests;
mod topology;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use nephele_api::conditions;
use nephele_api::core::{Cluster, ClusterStatus, Endpoint, Machine, MachineStatus};
use nephele_api::infrastructure::v1beta2::InMemoryCluster;

pub(crate) use self::pool::PoolAction;
pub(crate) use self::topology::refused;
use crate::certificates::Purpose;
use crate::kinds::{
    KubeadmControlPlane, KubeadmControlPlaneStatus, MachineDeployment, MachineHealthCheck,
    MachineHealthCheckStatus, MachineSet, ReplicaStatus,
};
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
        /// Where it shall be placed; empty where the provider chooses.
        failure_domain: String,
        /// Its MachineDeployment and its MachineSet; none for the control plane.
        deployment: Option<Box<(DeploymentPlan, String)>>,
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
    /// An action on an owner of Machines, or on a health check.
    Owner(OwnerAction),
    /// An action on the MachinePool.
    Pool(PoolAction),
}

/// One write about an owner of Machines, or about a health check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnerAction {
    /// Topology: create the KubeadmControlPlane, or change its spec.
    CreateControlPlane(Box<KubeadmControlPlane>),
    ChangeControlPlane(Box<KubeadmControlPlane>),
    /// Kubeadm control plane: write its status.
    ReportControlPlane(Box<KubeadmControlPlaneStatus>),
    /// Topology: create a MachineDeployment, or change its spec.
    CreateDeployment(Box<MachineDeployment>),
    ChangeDeployment(Box<MachineDeployment>),
    /// Core: write the status of a MachineDeployment.
    ReportDeployment {
        deployment: String,
        status: Box<ReplicaStatus>,
    },
    /// Core: create the MachineSet for a template, or change its number of Machines.
    CreateSet(Box<MachineSet>),
    ScaleSet(Box<MachineSet>),
    /// Core: write the status of a MachineSet.
    ReportSet {
        set: String,
        status: Box<ReplicaStatus>,
    },
    /// Topology: create a MachineHealthCheck, or change it; core: own and label one.
    CreateHealthCheck(Box<MachineHealthCheck>),
    ChangeHealthCheck(Box<MachineHealthCheck>),
    /// Core: write the status of a MachineHealthCheck.
    ReportHealthCheck {
        check: String,
        status: Box<MachineHealthCheckStatus>,
    },
    /// Delete the objects in order.
    DeleteDeployment(String),
    DeleteSet(String),
    DeleteControlPlane,
    DeleteHealthCheck(String),
    ReleaseDeployment(String),
    ReleaseSet(String),
    ReleaseControlPlane,
}

/// The decision that follows from an observation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) actions: Vec<Action>,
    /// Whether to poll the workload cluster again soon, because it is not watched.
    pub(crate) polls: bool,
}

/// Whether the workload cluster can be read: once a control plane machine may answer.
pub(crate) fn asks_workload(observed: &Observed) -> bool {
    observed.cluster.metadata.deletion_timestamp.is_none()
        && !paused::is_paused(&observed.cluster)
        && observed.secret("kubeconfig").is_some()
        && (observed.cluster.is_control_plane_initialized()
            || observed.machines.iter().any(|machine| !machine.spec.provider_id.is_empty()))
}

/// Whether the workload cluster has to be read again soon, because something is about to happen there: a Node joins or
/// goes, or the first API server comes up.
fn waits_for_workload(observed: &Observed) -> bool {
    let initialized = observed.cluster.is_control_plane_initialized();
    let waits_for_node = |machine: &Machine| {
        !machine.spec.provider_id.is_empty()
            && !machine::is_deleting(machine)
            && (!initialized || machine::node(machine).is_none() || machine::is_new(machine))
    };
    let leaves_node = |machine: &Machine| {
        machine::is_deleting(machine)
            && machine::node(machine).is_some()
            && observed.infrastructure_of(machine).is_none()
    };
    asks_workload(observed)
        && observed.machines.iter().any(|machine| waits_for_node(machine) || leaves_node(machine))
}

/// Decides what to do next.
pub(crate) fn decide(wanted: &Wanted, observed: &Observed, now: Timestamp) -> Decision {
    let only = |actions| Decision { actions, polls: false };
    if paused::is_paused(&observed.cluster) {
        return only(paused::report(observed, now));
    }
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
    let plan = &scale::scaled(plan, observed);
    let (findings, mut actions) = health_check::look(observed, now);
    actions.extend(health_check::provide(plan, observed));
    actions.extend(control_plane::provide(plan, observed, now));
    actions.extend(deployment::provide(plan, observed, now));
    actions.extend(cluster::provide(plan, observed));
    for machine in &observed.machines {
        if machine::is_deleting(machine) {
            actions.extend(deletion::delete_machine(observed, machine, now));
        } else {
            actions.extend(machine::provide(observed, machine, findings.get(&machine.name_any()), now));
        }
    }
    let is_topology = matches!(wanted, Wanted::Topology(_));
    actions.extend(cluster::report(plan, observed, is_topology, now));
    let drains = observed.machines.iter().any(|machine| deletion::is_draining(machine, now));
    Decision { actions, polls: waits_for_workload(observed) || drains }
}

/// A condition that says what the condition `of` of another object says, as Cluster API mirrors it.
fn mirrored(kind: &str, of: &str, holds: bool, message: &str) -> Condition {
    Condition { type_: kind.to_owned(), ..condition(of, holds, message) }
}

/// A number as the fields of Kubernetes have it.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn names(machines: &[Machine]) -> std::collections::BTreeSet<String> {
    machines.iter().map(ResourceExt::name_any).collect()
}

fn condition(kind: &str, holds: bool, message: &str) -> Condition {
    // The reasons of Cluster API's summary conditions: the type, with Not in front of it when the status is false.
    let (status, reason) =
        if holds { (conditions::TRUE, kind.to_owned()) } else { (conditions::FALSE, format!("Not{kind}")) };
    conditions::condition(kind, status, &reason, if holds { "" } else { message })
}
