//! Brings the records of clusters up to date.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams, entry::CommitError},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use serde_json::json;

use crate::{
    Cluster, ENABLED_LABEL, Machine, RECORDS_ANNOTATION, RECORDS_NAME, RECORDS_NAMESPACE,
    kinds::CLUSTER_NAME_LABEL, records,
};

/// How long a workload cluster may take for an answer. A request that gets none must not be the last one for this cluster;
/// the controller tries again.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Why the records of a cluster are not up to date.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to list the Machines")]
    List(#[source] kube::Error),
    #[error("failed to read the kubeconfig of the workload cluster")]
    ReadKubeconfig(#[source] kube::Error),
    #[error("failed to use the kubeconfig of the workload cluster")]
    UseKubeconfig(#[source] KubeconfigError),
    #[error("failed to make a client of the workload cluster")]
    Connect(#[source] kube::Error),
    #[error("failed to read the records")]
    ReadRecords(#[source] kube::Error),
    #[error("failed to publish the records")]
    Publish(#[source] CommitError),
    #[error("failed to annotate the Cluster")]
    Annotate(#[source] kube::Error),
}

/// Runs until it is dropped.
pub async fn run(management: Client) {
    let clusters = Api::<Cluster>::all(management.clone());
    let machines = Api::<Machine>::all(management.clone());
    Controller::new(clusters, watcher::Config::default())
        .watches(machines, watcher::Config::default(), cluster_of)
        .run(reconcile, retry, Arc::new(management))
        .for_each(|result| async {
            if let Err(error) = result {
                eprintln!("{error:?}");
            }
        })
        .await;
}

fn cluster_of(machine: Machine) -> Option<ObjectRef<Cluster>> {
    let name = machine.labels().get(CLUSTER_NAME_LABEL)?;
    Some(ObjectRef::new(name).within(&machine.namespace()?))
}

async fn reconcile(cluster: Arc<Cluster>, management: Arc<Client>) -> Result<Action, Error> {
    let is_wanted = cluster
        .labels()
        .get(ENABLED_LABEL)
        .is_some_and(|value| value == "true");
    let is_reachable = cluster
        .status
        .as_ref()
        .is_some_and(|status| status.initialization.control_plane_initialized);
    if !is_wanted || !is_reachable || cluster.metadata.deletion_timestamp.is_some() {
        // A change of the Cluster leads here again.
        return Ok(Action::await_change());
    }
    let namespace = cluster.namespace().unwrap_or_default();
    let name = cluster.name_any();
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let machines = Api::<Machine>::namespaced(Client::clone(&management), &namespace);
    let machines = machines.list(&of_cluster).await.map_err(Error::List)?;
    let records = records::of(&machines.items);
    let workload = workload(&management, &namespace, &name).await?;
    let count = records.len();
    publish(workload, records).await?;
    report(&management, &cluster, &namespace, count).await?;
    Ok(Action::await_change())
}

/// A client of the workload cluster. A real provider keeps it.
async fn workload(management: &Client, namespace: &str, name: &str) -> Result<Client, Error> {
    let secrets = Api::<Secret>::namespaced(management.clone(), namespace);
    let secret = secrets
        .get(&format!("{name}-kubeconfig"))
        .await
        .map_err(Error::ReadKubeconfig)?;
    let content = secret
        .data
        .and_then(|mut data| data.remove("value"))
        .unwrap_or_default()
        .0;
    let kubeconfig =
        Kubeconfig::from_yaml(&String::from_utf8_lossy(&content)).map_err(Error::UseKubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(Error::UseKubeconfig)?;
    config.read_timeout = Some(ANSWER_MAX);
    Client::try_from(config).map_err(Error::Connect)
}

async fn publish(workload: Client, records: BTreeMap<String, String>) -> Result<(), Error> {
    let config_maps = Api::<ConfigMap>::namespaced(workload, RECORDS_NAMESPACE);
    let entry = config_maps
        .entry(RECORDS_NAME)
        .await
        .map_err(Error::ReadRecords)?;
    let mut config_map = entry
        .or_insert(ConfigMap::default)
        .and_modify(|config_map| config_map.data = Some(records));
    config_map
        .commit(&PostParams::default())
        .await
        .map_err(Error::Publish)
}

/// Says on the Cluster how many records it has.
async fn report(
    management: &Client,
    cluster: &Cluster,
    namespace: &str,
    records: usize,
) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {RECORDS_ANNOTATION: records.to_string()}}}));
    let clusters = Api::<Cluster>::namespaced(management.clone(), namespace);
    clusters
        .patch(&cluster.name_any(), &PatchParams::default(), &patch)
        .await
        .map_err(Error::Annotate)?;
    Ok(())
}

fn retry(_cluster: Arc<Cluster>, _error: &Error, _management: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(200))
}
