//! Requests to the workload cluster, as Cluster API sends them: with its kubeconfig, to its endpoint, over TLS.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Taint};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    config::{Kubeconfig, KubeconfigError},
};
use nephele_access::config_without_proxy;
use nephele_api::core::{Cluster, Machine};
use nephele_controller::Readable;
use serde_json::json;
use thiserror::Error;
use tokio::sync::Mutex;

use crate::{
    observe::{Probe, Workload},
    surroundings::Connect,
};

/// How long a request may take; Cluster API's clients use the same timeout (`controllers/clustercache`).
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a request to a workload cluster failed.
#[derive(Debug, Error)]
pub(crate) enum WorkloadError {
    #[error("failed to read the kubeconfig of the cluster")]
    Kubeconfig(#[source] KubeconfigError),
    #[error("failed to find the kubeconfig in its Secret")]
    NoKubeconfig,
    #[error("failed to set up the client of the cluster")]
    Client(#[source] kube::Error),
    #[error("failed to {0} in the cluster")]
    Request(&'static str, #[source] kube::Error),
}

/// Clients of workload clusters, kept so that not every request needs a TLS handshake. An entry is replaced when its
/// kubeconfig changes, and removed when its cluster is gone.
pub(crate) struct Clients {
    connect: Connect,
    known: Mutex<BTreeMap<String, (String, Client)>>,
    probes: Mutex<BTreeMap<String, Probe>>,
}

impl Clients {
    pub(crate) fn new(connect: Connect) -> Self {
        Self {
            connect,
            known: Mutex::default(),
            probes: Mutex::default(),
        }
    }

    /// The client of the cluster with this kubeconfig.
    pub(crate) async fn get(&self, kubeconfig: &Secret) -> Result<Client, WorkloadError> {
        let key = key(kubeconfig);
        let version = kubeconfig.resource_version().unwrap_or_default();
        let mut clients = self.known.lock().await;
        if let Some((known, client)) = clients.get(&key)
            && *known == version
        {
            return Ok(client.clone());
        }
        let client = (self.connect)(config(kubeconfig).await?).map_err(WorkloadError::Client)?;
        clients.insert(key, (version, client.clone()));
        Ok(client)
    }

    pub(crate) async fn forget(&self, kubeconfig: &Secret) {
        self.known.lock().await.remove(&key(kubeconfig));
        self.probes.lock().await.remove(&key(kubeconfig));
    }

    /// How the connection to the cluster was so far.
    pub(crate) async fn probe(&self, kubeconfig: &Secret) -> Probe {
        self.probes
            .lock()
            .await
            .get(&key(kubeconfig))
            .copied()
            .unwrap_or_default()
    }

    /// Notes whether the cluster has answered.
    pub(crate) async fn note(&self, kubeconfig: &Secret, answered: bool, now: Timestamp) -> Probe {
        let mut probes = self.probes.lock().await;
        let probe = probes.entry(key(kubeconfig)).or_default();
        probe.last_attempt = Some(now);
        if answered {
            (probe.last_success, probe.failures) = (Some(now), 0);
        } else {
            probe.failures = probe.failures.saturating_add(1);
        }
        *probe
    }
}

fn key(kubeconfig: &Secret) -> String {
    format!(
        "{}/{}",
        kubeconfig.namespace().unwrap_or_default(),
        kubeconfig.name_any()
    )
}

async fn config(secret: &Secret) -> Result<Config, WorkloadError> {
    let value = secret
        .data
        .as_ref()
        .and_then(|data| data.get("value"))
        .ok_or(WorkloadError::NoKubeconfig)?;
    let text = String::from_utf8_lossy(&value.0);
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(WorkloadError::Kubeconfig)?;
    // Workload clusters are served by this process or beside it.
    let config = config_without_proxy(kubeconfig).await;
    let mut config = config.map_err(WorkloadError::Kubeconfig)?;
    config.connect_timeout = Some(TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    Ok(config)
}

/// Reads the state of the workload cluster.
pub(crate) async fn ask(client: &Client) -> Result<Workload, WorkloadError> {
    let configuration = Api::<ConfigMap>::namespaced(client.clone(), "kube-system")
        .get_opt("kubeadm-config")
        .await
        .map_err(|error| WorkloadError::Request("get the ConfigMap kubeadm-config", error))?;
    let nodes = Api::<Readable<Node>>::all(client.clone())
        .list(&ListParams::default())
        .await
        .map_err(|error| WorkloadError::Request("list Nodes", error))?;
    Ok(Workload {
        initialized: configuration.is_some(),
        nodes: nodes.into_iter().map(Readable::into_object).collect(),
    })
}

/// The annotations that core puts on the Node of a Machine (`core/reconcilers/machine/machine_controller_noderef.go`).
pub(crate) fn annotations(cluster: &Cluster, machine: &Machine) -> BTreeMap<String, String> {
    let owner = machine
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true));
    let labels: Vec<_> = labels(machine).into_keys().collect();
    let mut annotations = vec![
        ("cluster-name", cluster.name_any()),
        ("cluster-namespace", cluster.namespace().unwrap_or_default()),
        ("machine", machine.name_any()),
        ("labels-from-machine", labels.join(",")),
        ("annotations-from-machine", String::new()),
    ];
    if let Some(owner) = owner {
        annotations.push(("owner-kind", owner.kind.clone()));
        annotations.push(("owner-name", owner.name.clone()));
    }
    annotations
        .into_iter()
        .map(|(name, value)| (format!("cluster.x-k8s.io/{name}"), value))
        .collect()
}

/// The labels of a Machine that core copies to its Node.
fn labels(machine: &Machine) -> BTreeMap<String, String> {
    let is_for_nodes = |name: &str| {
        let domain = name.split('/').next().unwrap_or_default();
        name.starts_with("node-role.kubernetes.io/")
            || ["node-restriction.kubernetes.io", "node.cluster.x-k8s.io"]
                .iter()
                .any(|suffix| domain == *suffix || domain.ends_with(&format!(".{suffix}")))
    };
    machine
        .labels()
        .iter()
        .filter(|(name, _)| is_for_nodes(name))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

/// Whether a Node has all annotations and labels from core, and not the taint.
pub(crate) fn is_marked(node: &Node, cluster: &Cluster, machine: &Machine) -> bool {
    let has = |wanted: &BTreeMap<String, String>, present: &BTreeMap<String, String>| {
        wanted
            .iter()
            .all(|(name, value)| present.get(name) == Some(value))
    };
    has(&annotations(cluster, machine), node.annotations())
        && has(&labels(machine), node.labels())
        && !taints(node).iter().any(is_uninitialized)
}

/// Whether this is the taint of Nodes that core has not processed yet.
fn is_uninitialized(taint: &Taint) -> bool {
    taint.key == "node.cluster.x-k8s.io/uninitialized"
}

fn taints(node: &Node) -> &[Taint] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// Puts core's annotations and labels on a Node and removes the taint, as core does: with a strategic merge patch for
/// this resourceVersion of the Node only.
pub(crate) async fn mark(
    client: &Client,
    node: &Node,
    cluster: &Cluster,
    machine: &Machine,
) -> Result<(), WorkloadError> {
    let mut patch = json!({
        "metadata": {
            "resourceVersion": node.resource_version(),
            "annotations": annotations(cluster, machine),
            "labels": labels(machine),
        },
    });
    if taints(node).iter().any(is_uninitialized) {
        let kept: Vec<_> = taints(node)
            .iter()
            .filter(|taint| !is_uninitialized(taint))
            .collect();
        // Go leaves out an empty list.
        let kept = (!kept.is_empty()).then_some(kept);
        patch["spec"] = json!({ "taints": kept });
    }
    Api::<Node>::all(client.clone())
        .patch(
            &node.name_any(),
            &PatchParams::default(),
            &Patch::Strategic(patch),
        )
        .await
        .map(drop)
        .map_err(|error| WorkloadError::Request("patch a Node", error))
}

/// Deletes a Node; absence is success.
pub(crate) async fn delete_node(client: &Client, name: &str) -> Result<(), WorkloadError> {
    match Api::<Node>::all(client.clone())
        .delete(name, &DeleteParams::default())
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(WorkloadError::Request("delete a Node", error)),
    }
}
