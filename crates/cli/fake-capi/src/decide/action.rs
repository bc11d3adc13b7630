//! The writes that are decided on.

use nephele_api::{
    core::{Cluster, ClusterStatus, Endpoint, MachinePoolSpec, MachineStatus},
    infrastructure::v1beta2::InMemoryCluster,
};

use crate::{
    certificates::Purpose,
    kinds::{
        KubeadmControlPlane, KubeadmControlPlaneStatus, MachineDeployment, MachineHealthCheck,
        MachineHealthCheckStatus, MachineSet, ReplicaStatus,
    },
    plan::DeploymentPlan,
};

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

/// One write about a MachinePool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PoolAction {
    /// Create the MachinePool, or change its spec to this.
    Plan(Box<MachinePoolSpec>),
    /// Create its InMemoryMachinePool.
    CreateInfrastructure,
    /// Create the Machine for an InMemoryMachine of the InMemoryMachinePool.
    CreateMachine(String),
    /// Make that Machine the controller of its InMemoryMachine.
    AdoptInstance(String),
    /// Delete the MachinePool, in order.
    Delete,
    DeleteInfrastructure,
    Release,
}
