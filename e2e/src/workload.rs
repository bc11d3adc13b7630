//! A workload cluster's own API server.

use anyhow::{Context, bail};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Node, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A workload cluster's own API server.
#[derive(Clone)]
pub struct Workload {
    client: Client,
    config: Config,
}

impl Workload {
    /// The cluster of this kubeconfig.
    ///
    /// # Errors
    ///
    /// When it is not a kubeconfig.
    pub async fn connect(kubeconfig: &str) -> anyhow::Result<Self> {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("failed to read the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("failed to use the kubeconfig")?;
        Ok(Self {
            client: Client::try_from(config.clone()).context("failed to make a client")?,
            config,
        })
    }

    /// The status code of the answer to a client without a certificate.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub async fn status_without_certificate(&self) -> anyhow::Result<u16> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo::default();
        let client = Client::try_from(config).context("failed to make a client")?;
        match Api::<Node>::all(client).list(&ListParams::default()).await {
            Ok(_) => Ok(200),
            Err(kube::Error::Api(status)) => Ok(status.code),
            Err(error) => Err(error).context("failed to ask without a certificate"),
        }
    }

    /// Asks for the version.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn answers(&self) -> anyhow::Result<()> {
        self.client
            .apiserver_version()
            .await
            .map(drop)
            .context("failed to ask for the version")
    }

    /// The Nodes.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn nodes(&self) -> anyhow::Result<Vec<Node>> {
        Ok(Api::<Node>::all(self.client.clone())
            .list(&ListParams::default())
            .await
            .context("failed to list nodes")?
            .items)
    }

    /// Adds a condition to a Node's status, as node problem detectors do.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn set_node_condition(&self, node: &str, kind: &str, status: &str) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({"status": {"conditions": [{
            "type": kind, "status": status, "reason": "Test", "message": "set by a test",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]}});
        let nodes = Api::<Node>::all(self.client.clone());
        let patched = nodes
            .patch_status(node, &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        patched
            .map(drop)
            .with_context(|| format!("failed to patch the status of node {node}"))
    }

    /// Creates a Pod on a Node. The Pod has a finalizer, so it stays when it is deleted.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn create_pod(&self, name: &str, node: &str, finalizer: &str) -> anyhow::Result<()> {
        let pod = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "finalizers": [finalizer]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/none:v1"}]},
        }))
        .context("failed to write a pod")?;
        let created = self.pods().create(&PostParams::default(), &pod).await;
        created
            .map(drop)
            .with_context(|| format!("failed to create pod {name}"))
    }

    /// A Pod in the default namespace, if it exists.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn pod(&self, name: &str) -> anyhow::Result<Option<Pod>> {
        self.pods()
            .get_opt(name)
            .await
            .with_context(|| format!("failed to get pod {name}"))
    }

    /// Removes the finalizers of a Pod.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn release_pod(&self, name: &str) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let patched = self.pods().patch(name, &PatchParams::default(), &patch).await;
        patched
            .map(drop)
            .with_context(|| format!("failed to release pod {name}"))
    }

    /// The image of a container in kube-system's DaemonSet or Deployment of this name.
    ///
    /// # Errors
    ///
    /// When there is no such object.
    pub async fn image<K>(&self, name: &str) -> anyhow::Result<String>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        let object = Api::<K>::namespaced(self.client.clone(), "kube-system")
            .get(name)
            .await;
        let object = object.with_context(|| format!("failed to get {name}"))?;
        let object = serde_json::to_value(object).context("failed to read an object")?;
        match &object["spec"]["template"]["spec"]["containers"][0]["image"] {
            Value::String(image) => Ok(image.clone()),
            other => bail!("{name} has image {other}"),
        }
    }

    /// Names and uids of the Nodes, in order.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn node_identities(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut nodes: Vec<_> = self
            .nodes()
            .await?
            .iter()
            .map(|node| (node.name_any(), node.uid().unwrap_or_default()))
            .collect();
        nodes.sort();
        Ok(nodes)
    }

    /// Creates an empty ConfigMap in the default namespace.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn create_config_map(&self, name: &str) -> anyhow::Result<()> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let object = ConfigMap {
            metadata,
            ..ConfigMap::default()
        };
        let created = self.config_maps().create(&PostParams::default(), &object).await;
        created
            .map(drop)
            .with_context(|| format!("failed to create ConfigMap {name}"))
    }

    /// Whether the default namespace has a ConfigMap.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn has_config_map(&self, name: &str) -> anyhow::Result<bool> {
        let found = self.config_maps().get_opt(name).await;
        Ok(found
            .with_context(|| format!("failed to get ConfigMap {name}"))?
            .is_some())
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }
}
