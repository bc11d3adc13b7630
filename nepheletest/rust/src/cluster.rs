//! Workload clusters and their machines.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::json;

use crate::objects::{self, ClusterBody, MachineBody};

/// A workload cluster whose API server is up.
#[derive(Clone, Debug)]
pub struct Cluster {
    namespace: String,
    name: String,
    kubeconfig: PathBuf,
    config: Config,
    management: Config,
}

/// What the management API says about a machine of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the Machine.
    pub name: String,
    /// The name of its Node in the workload cluster.
    pub node: Option<String>,
    pub is_control_plane: bool,
    pub is_ready: bool,
    /// From its deletion until it is gone.
    pub is_deleting: bool,
}

/// Why something about a cluster is not known or not done.
#[derive(thiserror::Error)]
pub enum ClusterError {
    /// There is no client of an API server.
    #[error("failed to make a client of the management API")]
    Client(#[source] kube::Error),
    /// A request to the management API failed.
    #[error("failed to {attempt}")]
    Request {
        /// The verb and the object.
        attempt: String,
        source: kube::Error,
    },
    /// An object has an unexpected form.
    #[error("failed to decode {object}")]
    Decode {
        /// The kind and the name.
        object: String,
        source: serde_json::Error,
    },
    /// Its API server is not up yet.
    #[error("the API server of the cluster {cluster} is not up yet: {} has no kubeconfig of it", folder.display())]
    NotUp { cluster: String, folder: PathBuf },
    /// A kubeconfig cannot be read.
    #[error("failed to read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A kubeconfig cannot be used.
    #[error("failed to use {}", path.display())]
    Kubeconfig { path: PathBuf, source: KubeconfigError },
    /// The Cluster exists, but is not available yet.
    #[error("{0}")]
    NotAvailable(String),
    /// The Machine is not one of Nephele.
    #[error(
        "failed to terminate {machine}: its infrastructure is of the kind {kind}, and not an InMemoryMachine"
    )]
    Foreign {
        /// The kind and the name.
        machine: String,
        /// The kind of its infrastructure.
        kind: String,
    },
}
crate::debug::in_words!(ClusterError);

impl ClusterError {
    fn request(verb: &str, object: &str) -> impl FnOnce(kube::Error) -> Self {
        let attempt = format!("{verb} {object}");
        move |source| Self::Request { attempt, source }
    }

    fn decode(object: &str) -> impl FnOnce(serde_json::Error) -> Self {
        let object = object.to_owned();
        move |source| Self::Decode { object, source }
    }
}

impl Cluster {
    /// Reads the kubeconfig from its Secret, as providers do, and finds the file with the same content: the name of a
    /// file alone does not say which cluster it belongs to.
    pub(crate) async fn find(
        management: &Config,
        folder: &Path,
        namespace: &str,
        name: &str,
    ) -> Result<Self, ClusterError> {
        let client = client(management)?;
        let secret = format!("{name}-kubeconfig");
        let found = Api::<Secret>::namespaced(client, namespace).get(&secret).await;
        let found = found.map_err(ClusterError::request(
            "get",
            &format!("Secret {namespace}/{secret}"),
        ))?;
        let content = found
            .data
            .and_then(|mut data| data.remove("value"))
            .unwrap_or_default()
            .0;
        let path = kubeconfig_file(folder, namespace, name, &content)?;
        let config = config_of(&content).await;
        let config = config.map_err(|source| ClusterError::Kubeconfig {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kubeconfig: path,
            config,
            management: management.clone(),
        })
    }

    /// The namespace of the Cluster in the management API.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Cluster in the management API.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of a kubeconfig, for other programs such as kubectl.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// How clients reach the workload cluster, as its administrator.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A new client of the workload cluster, for the runtime that calls this.
    ///
    /// # Errors
    ///
    /// When kube cannot use the [`config`](Self::config).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn client(&self) -> kube::Result<Client> {
        Client::try_from(self.config.clone())
    }

    /// The Machines of the cluster, ordered by name.
    ///
    /// # Errors
    ///
    /// When the management API refuses the request.
    pub async fn machines(&self) -> Result<Vec<Machine>, ClusterError> {
        let of_cluster =
            ListParams::default().labels(&format!("{}={}", objects::CLUSTER_NAME_LABEL, self.name));
        let all = format!("the Machines of {}/{}", self.namespace, self.name);
        let found = self.management(&objects::machine())?.list(&of_cluster).await;
        let found = found.map_err(ClusterError::request("list", &all))?;
        let mut machines = found.items.iter().map(summary).collect::<Result<Vec<_>, _>>()?;
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(machines)
    }

    /// Terminates the instance of a Machine behind Cluster API's back. The instance and its Node stay gone. The
    /// stand-in replaces the Machine within moments; with the real Cluster API a MachineHealthCheck does. Wait for what
    /// your test needs.
    ///
    /// # Errors
    ///
    /// When there is no such Machine, or when it is not one of Nephele.
    pub async fn terminate_machine(&self, name: &str) -> Result<(), ClusterError> {
        let machine = format!("Machine {}/{name}", self.namespace);
        let found = self.management(&objects::machine())?.get(name).await;
        let found = found.map_err(ClusterError::request("get", &machine))?;
        let body: MachineBody = objects::decode(&found).map_err(ClusterError::decode(&machine))?;
        let instance = body.spec.infrastructure_ref;
        if instance.kind != "InMemoryMachine" {
            return Err(ClusterError::Foreign {
                machine,
                kind: instance.kind,
            });
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": {objects::TERMINATE_ANNOTATION: ""}}}));
        let instances = self.management(&objects::in_memory_machine())?;
        let answer = instances
            .patch(&instance.name, &PatchParams::default(), &patch)
            .await;
        answer.map_err(ClusterError::request("terminate", &machine))?;
        Ok(())
    }

    fn management(&self, resource: &ApiResource) -> Result<Api<DynamicObject>, ClusterError> {
        Ok(Api::namespaced_with(
            client(&self.management)?,
            &self.namespace,
            resource,
        ))
    }
}

/// Returns what is missing until a Cluster is available.
pub(crate) async fn check_available(client: Client, namespace: &str, name: &str) -> Result<(), ClusterError> {
    let cluster = format!("Cluster {namespace}/{name}");
    let found = Api::<DynamicObject>::namespaced_with(client, namespace, &objects::cluster())
        .get(name)
        .await;
    let found = found.map_err(ClusterError::request("get", &cluster))?;
    let body: ClusterBody = objects::decode(&found).map_err(ClusterError::decode(&cluster))?;
    let conditions = body.status.conditions;
    if conditions.is_true("Available") {
        return Ok(());
    }
    let mut missing = conditions.untrue(&["TopologyReconciled", "Available"]);
    if missing.is_empty() {
        missing = "nothing plays it yet; it needs spec.topology for the stand-in, or a running Cluster API"
            .to_owned();
    }
    Err(ClusterError::NotAvailable(missing))
}

/// A client for the runtime that calls this.
pub(crate) fn client(management: &Config) -> Result<Client, ClusterError> {
    Client::try_from(management.clone()).map_err(ClusterError::Client)
}

pub(crate) async fn config_of(kubeconfig: &[u8]) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8_lossy(kubeconfig))?;
    without_environment(kubeconfig).await
}

/// Where a cluster names no proxy, kube takes that of `HTTPS_PROXY`, also for this machine. A name stops it.
const NO_PROXY_NAMED: &str = "http://no-proxy.invalid/";

/// The configuration of an API server on this machine: only the kubeconfig names a proxy to it.
pub(crate) async fn without_environment(mut kubeconfig: Kubeconfig) -> Result<Config, KubeconfigError> {
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        let named = cluster.proxy_url.take().filter(|url| !url.is_empty());
        cluster.proxy_url = Some(named.unwrap_or_else(|| NO_PROXY_NAMED.to_owned()));
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = config.proxy_url.filter(|url| *url != NO_PROXY_NAMED);
    Ok(config)
}

/// The file that Nephele has written for a cluster.
fn kubeconfig_file(
    folder: &Path,
    namespace: &str,
    name: &str,
    content: &[u8],
) -> Result<PathBuf, ClusterError> {
    // `a-b`/`c` and `a`/`b-c` want the same name; the later one gets the second form.
    for separator in ["-", "_"] {
        let path = folder.join(format!("{namespace}{separator}{name}.kubeconfig"));
        match fs::read(&path) {
            Ok(found) if found == content => return Ok(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ClusterError::Read { path, source }),
        }
    }
    Err(ClusterError::NotUp {
        cluster: format!("{namespace}/{name}"),
        folder: folder.to_owned(),
    })
}

fn summary(object: &DynamicObject) -> Result<Machine, ClusterError> {
    let name = object.name_any();
    let body: MachineBody =
        objects::decode(object).map_err(ClusterError::decode(&format!("Machine {name}")))?;
    Ok(Machine {
        name,
        node: body.status.node_ref.map(|node| node.name),
        is_control_plane: object.labels().contains_key(objects::CONTROL_PLANE_LABEL),
        is_ready: body.status.conditions.is_true("Ready"),
        is_deleting: object.metadata.deletion_timestamp.is_some(),
    })
}
