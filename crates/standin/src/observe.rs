//! Reads everything that a decision about a cluster needs. Missing objects are `None`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use nephele_api::core::{Cluster, Machine, MachinePool};
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, InMemoryMachinePool};
use nephele_api::labels;
use nephele_api::names::is_dns_subdomain;
use nephele_kit::{Kind, Readable};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kinds::{KubeadmControlPlane, MachineDeployment, MachineHealthCheck, MachineSet};
use crate::names;

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) cluster: Cluster,
    /// The Cluster's `spec.topology`, as the user wrote it: one that cannot be read must not hide the Cluster.
    pub(crate) topology: Option<Value>,
    /// The ClusterClass of the topology, if it is there.
    pub(crate) class: Option<Value>,
    pub(crate) infrastructure: Option<InMemoryCluster>,
    /// The Secrets of the cluster, by name.
    pub(crate) secrets: BTreeMap<String, Secret>,
    pub(crate) control_plane: Option<KubeadmControlPlane>,
    pub(crate) deployments: Vec<MachineDeployment>,
    pub(crate) sets: Vec<MachineSet>,
    /// The health checks of its machines, also those that users created.
    pub(crate) health_checks: Vec<MachineHealthCheck>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) infrastructure_machines: Vec<InMemoryMachine>,
    /// Its MachinePool.
    pub(crate) pool: Option<MachinePool>,
    pub(crate) infrastructure_pool: Option<InMemoryMachinePool>,
    /// The state of the workload cluster; none when it was not read or did not answer.
    pub(crate) workload: Option<Workload>,
    /// How the connection to it was in this process.
    pub(crate) probe: Probe,
}

/// The connection to a workload cluster, as far as this process knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// When it answered last.
    pub(crate) last_success: Option<Timestamp>,
    /// How often in a row it has not answered.
    pub(crate) failures: u32,
    /// When it was asked last.
    pub(crate) last_attempt: Option<Timestamp>,
}

/// The objects in a workload cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workload {
    /// Whether the ConfigMap `kubeadm-config` exists, which means that the first control plane machine is up.
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

fn cluster_class() -> ApiResource {
    let kind = GroupVersionKind::gvk(nephele_api::core::GROUP, "v1beta2", "ClusterClass");
    ApiResource::from_gvk_with_plural(&kind, "clusterclasses")
}

/// The namespace and name of the ClusterClass that a topology names, if an object can have them: both become parts of a
/// path.
fn class_of(topology: &Value, namespace: &str) -> Option<(String, String)> {
    let text = |pointer: &str| topology.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = text("/classRef/name").or_else(|| text("/class"))?;
    let given = text("/classRef/namespace").or_else(|| text("/classNamespace"));
    let namespace = given.unwrap_or_else(|| namespace.to_owned());
    (is_dns_subdomain(&name) && is_dns_subdomain(&namespace)).then_some((namespace, name))
}

/// Lists objects of a kind. One that cannot be read is left out: its definition takes any field, and a user's mistake must
/// not hide the others.
async fn readable<K>(client: &Client, namespace: &str, parameters: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let read = |object| serde_json::to_value(object).and_then(serde_json::from_value).ok();
    Ok(api.list(parameters).await?.into_iter().filter_map(read).collect())
}

/// Lists objects of a kind that others make sense of, too: what of one cannot be read counts as absent, as for them.
async fn listed<K>(client: &Client, namespace: &str, parameters: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api = Api::<Readable<K>>::namespaced(client.clone(), namespace);
    Ok(api.list(parameters).await?.into_iter().map(Readable::into_object).collect())
}

/// Reads the management API, but not the workload cluster: the objects that are read here decide whether it is read.
pub(crate) async fn observe(
    client: &Client,
    namespace: &str,
    name: &str,
    has_pool: bool,
) -> Result<Observed, kube::Error> {
    let of_cluster = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER_NAME));
    // Read the current Cluster: the event that triggered this round may be older than our own last write.
    let resource = ApiResource::erase::<Cluster>(&());
    let clusters = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let Some(object) = clusters.get_opt(name).await? else { return Ok(Observed::default()) };
    let topology = object.data.pointer("/spec/topology").filter(|topology| !topology.is_null()).cloned();
    let cluster: Cluster =
        serde_json::to_value(object).and_then(serde_json::from_value).map_err(kube::Error::SerdeError)?;
    let class = match topology.as_ref().and_then(|topology| class_of(topology, namespace)) {
        Some((namespace, name)) => {
            let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &cluster_class());
            api.get_opt(&name).await?.map(|class| class.data)
        }
        None => None,
    };
    let infrastructure = match &cluster.spec.infrastructure_ref {
        Some(reference) => Api::namespaced(client.clone(), namespace).get_opt(&reference.name).await?,
        None => None,
    };
    let secrets: Vec<Secret> = listed(client, namespace, &of_cluster).await?;
    let control_planes = readable(client, namespace, &of_cluster).await?;
    let deployments = readable(client, namespace, &of_cluster).await?;
    let sets = readable(client, namespace, &of_cluster).await?;
    let mut health_checks: Vec<MachineHealthCheck> =
        readable(client, namespace, &ListParams::default()).await?;
    health_checks.retain(|check| check.spec.cluster_name == name);
    let machines = listed(client, namespace, &of_cluster).await?;
    let infrastructure_machines = listed(client, namespace, &of_cluster).await?;
    let (mut pool, mut infrastructure_pool) = (None, None);
    if has_pool {
        let name = names::pool(name);
        pool = Api::namespaced(client.clone(), namespace).get_opt(&name).await?;
        infrastructure_pool = Api::namespaced(client.clone(), namespace).get_opt(&name).await?;
    }
    Ok(Observed {
        cluster,
        topology,
        class,
        infrastructure,
        secrets: secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect(),
        control_plane: control_planes.into_iter().next(),
        deployments,
        sets,
        health_checks,
        machines,
        infrastructure_machines,
        pool,
        infrastructure_pool,
        workload: None,
        probe: Probe::default(),
    })
}
