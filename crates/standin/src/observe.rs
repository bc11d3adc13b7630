//! Reads what a decision about a cluster needs. What is not there is none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use nephele_api::core::{Cluster, Machine, MachinePool};
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool};
use nephele_api::labels;

use crate::names;

/// A cluster as its objects say it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) cluster: Cluster,
    pub(crate) infrastructure: Option<InMemoryCluster>,
    /// Those of the cluster, by name.
    pub(crate) secrets: BTreeMap<String, Secret>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) infrastructure_machines: Vec<InMemoryMachine>,
    /// Its MachinePool.
    pub(crate) pool: Option<MachinePool>,
    pub(crate) infrastructure_pool: Option<InMemoryMachinePool>,
    /// What the cluster itself says; none when it was not asked or did not answer.
    pub(crate) workload: Option<Workload>,
}

/// What a cluster's own API says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workload {
    /// Whether kubeadm has left its configuration there: the sign that the first control plane is up.
    pub(crate) initialized: bool,
    pub(crate) nodes: Vec<Node>,
}

impl Observed {
    pub(crate) fn name(&self) -> String {
        self.cluster.name_any()
    }

    pub(crate) fn namespace(&self) -> String {
        self.cluster.namespace().unwrap_or_default()
    }

    pub(crate) fn secret(&self, purpose: &str) -> Option<&Secret> {
        self.secrets.get(&names::secret(&self.name(), purpose))
    }

    pub(crate) fn infrastructure_of(&self, machine: &Machine) -> Option<&InMemoryMachine> {
        let name = &machine.spec.infrastructure_ref.as_ref()?.name;
        self.infrastructure_machines.iter().find(|other| other.name_any() == *name)
    }
}

/// Reads the management API. The workload is left out: whether it is to be asked is decided on what is read here.
pub(crate) async fn observe(
    client: &Client,
    cluster: &Cluster,
    has_pool: bool,
) -> Result<Observed, kube::Error> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    let of_cluster = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
    // The Cluster as it is now: what wakes us may be older than our own last write.
    let cluster = Api::<Cluster>::namespaced(client.clone(), &namespace).get_opt(&name).await?;
    let Some(cluster) = cluster else { return Ok(Observed::default()) };
    let infrastructure = match &cluster.spec.infrastructure_ref {
        Some(reference) => Api::namespaced(client.clone(), &namespace).get_opt(&reference.name).await?,
        None => None,
    };
    let secrets = Api::<Secret>::namespaced(client.clone(), &namespace).list(&of_cluster).await?;
    let machines = Api::namespaced(client.clone(), &namespace).list(&of_cluster).await?;
    let infrastructure_machines = Api::namespaced(client.clone(), &namespace).list(&of_cluster).await?;
    let (mut pool, mut infrastructure_pool) = (None, None);
    if has_pool {
        let name = names::pool(&name);
        pool = Api::namespaced(client.clone(), &namespace).get_opt(&name).await?;
        infrastructure_pool = Api::namespaced(client.clone(), &namespace).get_opt(&name).await?;
    }
    Ok(Observed {
        cluster,
        infrastructure,
        secrets: secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect(),
        machines: machines.items,
        infrastructure_machines: infrastructure_machines.items,
        pool,
        infrastructure_pool,
        workload: None,
    })
}
