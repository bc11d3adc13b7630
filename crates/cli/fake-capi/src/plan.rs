//! The clusters that the stand-in creates and maintains.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, stream};
use nephele_api::{
    core::Machine,
    infrastructure::v1beta2::{
        Behaviour, FailureDomain, MachineNetwork, PoolReference, pool_machine::label_value,
    },
    labels,
};
use nephele_pki::KeyAlgorithm;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

/// More machines than the manager has room for in a namespace by default, and few enough to add up without an overflow.
pub(crate) const REPLICAS_MAX: u32 = 100_000;

/// The clusters to create.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One entry for each cluster.
    pub clusters: Vec<ClusterPlan>,
}

/// A cluster to create, and to keep at its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlan {
    /// The namespace of its objects.
    pub namespace: String,
    pub name: String,
    /// The Kubernetes version of its machines, `v1.36.3`.
    pub version: String,
    /// The number of control plane machines; without one, nothing ever comes up.
    pub control_plane: u32,
    /// Whether users may scale the control plane: then the number counts only until its object exists.
    pub is_control_plane_scalable: bool,
    /// The name of its KubeadmControlPlane. The names of its machines begin with it.
    pub control_plane_name: String,
    /// What users give to its control plane machines.
    pub control_plane_metadata: Metadata,
    /// The health check of its control plane machines.
    pub control_plane_health_check: Option<HealthCheck>,
    pub deployments: Vec<DeploymentPlan>,
    /// The number of machines in its MachinePool; none for a cluster without a MachinePool.
    pub pool: Option<u32>,
    /// Whether users may scale the MachinePool: then the number counts only until it exists.
    pub is_pool_scalable: bool,
    /// The labels of all its objects, as users set them on a Cluster and in the metadata of templates.
    pub labels: BTreeMap<String, String>,
    /// The input, besides the rest of the name, to the random part of its machines' names.
    pub name_salt: String,
    pub behaviour: Behaviour,
    /// How its workers behave, if not as the control plane machines.
    pub worker_behaviour: Option<Behaviour>,
    /// The instance type of its control plane machines; empty for that of the provider.
    pub control_plane_instance_type: String,
    /// The instance type of its workers; empty for that of the provider.
    pub worker_instance_type: String,
    /// The market of its workers; empty for that of the provider.
    pub worker_market: String,
    /// The failure domains of its infrastructure; when empty, the provider chooses them.
    pub failure_domains: Vec<FailureDomain>,
    /// The key algorithm of its certificate authorities.
    pub key_algorithm: KeyAlgorithm,
    /// The pod network of the cluster, from which each Node gets a part.
    pub pod_network: String,
    /// The pools from which each machine gets an address; when empty, the provider chooses the addresses.
    pub address_pools: Vec<PoolReference>,
    /// The pool from which its load balancer gets an address.
    pub control_plane_address_pool: Option<PoolReference>,
}

/// A MachineDeployment of a cluster: worker machines that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentPlan {
    /// Its name in a topology, the value of the label `topology.cluster.x-k8s.io/deployment-name`.
    pub topology_name: String,
    /// The name of the MachineDeployment, the value of the label `cluster.x-k8s.io/deployment-name`. The names of its
    /// machines begin with it.
    pub name: String,
    /// The number of its machines.
    pub replicas: u32,
    /// Whether users may scale it: then the number counts only until the MachineDeployment exists.
    pub is_scalable: bool,
    pub health_check: Option<HealthCheck>,
    /// What users give to its machines.
    pub metadata: Metadata,
    /// The failure domain of its machines; empty where the provider chooses.
    pub failure_domain: String,
    /// How its machines behave, if not as other workers do.
    pub behaviour: Option<Behaviour>,
    /// Their instance type, if not that of other workers.
    pub instance_type: Option<String>,
}

/// A health check of a topology: the fields `checks` and `remediation` of a MachineHealthCheck, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheck {
    pub checks: Value,
    pub remediation: Value,
}

/// The labels and annotations that users give to machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl DeploymentPlan {
    /// A MachineDeployment of a cluster whose machines are as other workers.
    #[must_use]
    pub fn new(cluster: &str, topology_name: &str, replicas: u32) -> Self {
        Self {
            topology_name: topology_name.to_owned(),
            name: format!("{cluster}-{topology_name}"),
            replicas,
            is_scalable: false,
            health_check: None,
            metadata: Metadata::default(),
            failure_domain: String::new(),
            behaviour: None,
            instance_type: None,
        }
    }

    /// Whether a Machine is one of this MachineDeployment.
    pub(crate) fn has(&self, machine: &Machine) -> bool {
        labels::value(&machine.metadata, labels::DEPLOYMENT_NAME) == Some(label_value(&self.name).as_str())
    }
}

impl ClusterPlan {
    /// A cluster in the namespace `default` whose machines start without delay, with the certificate authorities that
    /// Cluster API creates by default. Its workers are those of the MachineDeployment `md-0`.
    #[must_use]
    pub fn new(name: &str, version: &str, control_plane: u32, workers: u32) -> Self {
        Self {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            control_plane,
            is_control_plane_scalable: false,
            control_plane_name: format!("{name}-control-plane"),
            control_plane_metadata: Metadata::default(),
            control_plane_health_check: None,
            deployments: vec![DeploymentPlan::new(name, "md-0", workers)],
            pool: None,
            is_pool_scalable: false,
            labels: BTreeMap::new(),
            name_salt: String::new(),
            behaviour: Behaviour::default(),
            worker_behaviour: None,
            control_plane_instance_type: String::new(),
            worker_instance_type: String::new(),
            worker_market: String::new(),
            failure_domains: Vec::new(),
            key_algorithm: KeyAlgorithm::Rsa2048,
            pod_network: "192.168.0.0/16".to_owned(),
            address_pools: Vec::new(),
            control_plane_address_pool: None,
        }
    }

    /// The number of its worker machines, without those of its MachinePool.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.deployments
            .iter()
            .map(|deployment| deployment.replicas)
            .fold(0, u32::saturating_add)
    }

    /// Lets its first MachineDeployment have this many machines.
    pub fn scale_workers(&mut self, replicas: u32) {
        if let Some(first) = self.deployments.first_mut() {
            first.replicas = replicas;
        }
    }

    /// The MachineDeployment of a Machine, if it still is planned.
    pub(crate) fn deployment_of(&self, machine: &Machine) -> Option<&DeploymentPlan> {
        self.deployments.iter().find(|deployment| deployment.has(machine))
    }

    pub(crate) fn worker_behaviour(&self) -> &Behaviour {
        self.worker_behaviour.as_ref().unwrap_or(&self.behaviour)
    }

    /// The network of its machines; none when the provider chooses their addresses.
    pub(crate) fn machine_network(&self) -> Option<MachineNetwork> {
        let addresses_from_pools = self.address_pools.clone();
        (!addresses_from_pools.is_empty()).then_some(MachineNetwork { addresses_from_pools })
    }
}

/// The plans of clusters, which may change while the stand-in runs. Cheap to clone, and all clones share their state.
/// An entry stays after the deletion of its cluster, because the stand-in needs it to delete the cluster's objects in
/// order.
#[derive(Clone)]
pub struct PlannedClusters(Arc<watch::Sender<Plans>>);

type Plans = BTreeMap<(String, String), ClusterPlan>;

impl PlannedClusters {
    /// The clusters of a plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let plans = plan
            .clusters
            .into_iter()
            .map(|plan| ((plan.namespace.clone(), plan.name.clone()), plan));
        Self(Arc::new(watch::Sender::new(plans.collect())))
    }

    /// Adds or replaces the plan of a cluster. The stand-in then changes the cluster to the planned size and version.
    pub fn set(&self, plan: ClusterPlan) {
        self.0
            .send_modify(|plans| drop(plans.insert((plan.namespace.clone(), plan.name.clone()), plan)));
    }

    /// The plan of a cluster.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<ClusterPlan> {
        self.0
            .borrow()
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    /// Yields each time a plan changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + 'static {
        stream::unfold(self.0.subscribe(), |mut plans| async {
            plans.changed().await.ok()?;
            Some(((), plans))
        })
    }
}
