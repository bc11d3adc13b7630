//! The management cluster: objects of any kind, as JSON.

use std::path::Path;

use anyhow::Context;
use kube::{
    Api, Client, Config,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

use crate::state;

/// A kind: group, version, kind.
pub type Kind = (&'static str, &'static str, &'static str);

/// Kinds of Cluster API and of the provider.
pub mod kinds {
    use super::Kind;

    /// Cluster.
    pub const CLUSTER: Kind = ("cluster.x-k8s.io", "v1beta2", "Cluster");
    /// Machine.
    pub const MACHINE: Kind = ("cluster.x-k8s.io", "v1beta2", "Machine");
    /// MachineSet.
    pub const MACHINE_SET: Kind = ("cluster.x-k8s.io", "v1beta2", "MachineSet");
    /// MachineHealthCheck.
    pub const MACHINE_HEALTH_CHECK: Kind = ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck");
    /// MachineDeployment.
    pub const MACHINE_DEPLOYMENT: Kind = ("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    /// KubeadmControlPlane.
    pub const CONTROL_PLANE: Kind = ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane");
    /// KubeadmConfig.
    pub const KUBEADM_CONFIG: Kind = ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfig");
    /// InMemoryCluster.
    pub const IN_MEMORY_CLUSTER: Kind = ("infrastructure.cluster.x-k8s.io", "v1beta2", "InMemoryCluster");
    /// InMemoryMachine.
    pub const IN_MEMORY_MACHINE: Kind = ("infrastructure.cluster.x-k8s.io", "v1beta2", "InMemoryMachine");
    /// InMemoryCluster in Cluster API's contract v1beta1.
    pub const OLD_IN_MEMORY_CLUSTER: Kind = ("infrastructure.cluster.x-k8s.io", "v1beta1", "InMemoryCluster");
    /// InMemoryMachine in Cluster API's contract v1beta1.
    pub const OLD_IN_MEMORY_MACHINE: Kind = ("infrastructure.cluster.x-k8s.io", "v1beta1", "InMemoryMachine");
    /// MachinePool.
    pub const MACHINE_POOL: Kind = ("cluster.x-k8s.io", "v1beta2", "MachinePool");
    /// InMemoryMachinePool.
    pub const IN_MEMORY_MACHINE_POOL: Kind = (
        "infrastructure.cluster.x-k8s.io",
        "v1beta2",
        "InMemoryMachinePool",
    );
    /// InMemoryClusterTemplate.
    pub const IN_MEMORY_CLUSTER_TEMPLATE: Kind = (
        "infrastructure.cluster.x-k8s.io",
        "v1beta2",
        "InMemoryClusterTemplate",
    );
    /// InMemoryMachineTemplate.
    pub const IN_MEMORY_MACHINE_TEMPLATE: Kind = (
        "infrastructure.cluster.x-k8s.io",
        "v1beta2",
        "InMemoryMachineTemplate",
    );
    /// InMemoryMachinePoolTemplate.
    pub const IN_MEMORY_MACHINE_POOL_TEMPLATE: Kind = (
        "infrastructure.cluster.x-k8s.io",
        "v1beta2",
        "InMemoryMachinePoolTemplate",
    );
    /// ClusterClass.
    pub const CLUSTER_CLASS: Kind = ("cluster.x-k8s.io", "v1beta2", "ClusterClass");
    /// SimulatedCloud.
    pub const SIMULATED_CLOUD: Kind = ("cloud.nephele.dev", "v1alpha1", "SimulatedCloud");
    /// Fault.
    pub const FAULT: Kind = ("cloud.nephele.dev", "v1alpha1", "Fault");
    /// ClusterFault.
    pub const CLUSTER_FAULT: Kind = ("cloud.nephele.dev", "v1alpha1", "ClusterFault");
    /// Scenario.
    pub const SCENARIO: Kind = ("cloud.nephele.dev", "v1alpha1", "Scenario");
    /// CloudExtensionConfig.
    pub const CLOUD_EXTENSION_CONFIG: Kind = ("cloud.nephele.dev", "v1alpha1", "CloudExtensionConfig");
    /// ExtensionConfig.
    pub const EXTENSION_CONFIG: Kind = ("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    /// ConfigMap.
    pub const CONFIG_MAP: Kind = ("", "v1", "ConfigMap");
    /// Secret.
    pub const SECRET: Kind = ("", "v1", "Secret");
    /// Namespace.
    pub const NAMESPACE: Kind = ("", "v1", "Namespace");
    /// PersistentVolume.
    pub const PERSISTENT_VOLUME: Kind = ("", "v1", "PersistentVolume");
    /// Pod.
    pub const POD: Kind = ("", "v1", "Pod");
    /// Deployment.
    pub const DEPLOYMENT: Kind = ("apps", "v1", "Deployment");
    /// Lease.
    pub const LEASE: Kind = ("coordination.k8s.io", "v1", "Lease");
    /// IPAddressClaim.
    pub const CLAIM: Kind = ("ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim");
    /// IPAddress.
    pub const ADDRESS: Kind = ("ipam.cluster.x-k8s.io", "v1beta2", "IPAddress");
    /// InClusterIPPool.
    pub const IP_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha2", "InClusterIPPool");
    /// GlobalInClusterIPPool.
    pub const GLOBAL_IP_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha2", "GlobalInClusterIPPool");
    /// InClusterPrefixPool.
    pub const PREFIX_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha2", "InClusterPrefixPool");
    /// GlobalInClusterPrefixPool.
    pub const GLOBAL_PREFIX_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha2", "GlobalInClusterPrefixPool");
    /// InClusterIPPool in its older version.
    pub const OLD_IP_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha1", "InClusterIPPool");
    /// GlobalInClusterIPPool in its older version.
    pub const OLD_GLOBAL_IP_POOL: Kind = ("ipam.cluster.x-k8s.io", "v1alpha1", "GlobalInClusterIPPool");
}

/// The management cluster.
#[derive(Clone)]
pub struct Management {
    client: Client,
}

impl Management {
    /// The cluster of KUBECONFIG.
    ///
    /// # Errors
    ///
    /// When KUBECONFIG has no usable cluster.
    pub async fn connect() -> anyhow::Result<Self> {
        let client = Client::try_default()
            .await
            .context("failed to reach the management cluster")?;
        Ok(Self { client })
    }

    /// The cluster of KUBECONFIG, with the rights of another user.
    ///
    /// # Errors
    ///
    /// When KUBECONFIG has no usable cluster.
    pub async fn connect_as(user: &str) -> anyhow::Result<Self> {
        let attempt = "failed to reach the management cluster";
        let mut config = Config::infer().await.context(attempt)?;
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Self {
            client: Client::try_from(config).context(attempt)?,
        })
    }

    /// The cluster of a kubeconfig file.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub async fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let attempt = || format!("failed to use {}", kubeconfig.display());
        let kubeconfig = Kubeconfig::read_from(kubeconfig).with_context(attempt)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.with_context(attempt)?).with_context(attempt)?;
        Ok(Self { client })
    }

    /// An object, if it exists.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn find(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.with_context(|| format!("failed to get {} {namespace}/{name}", kind.2))?;
        found
            .map(|object| serde_json::to_value(object).context("failed to read an object"))
            .transpose()
    }

    /// An object that has to exist.
    ///
    /// # Errors
    ///
    /// When it does not exist.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<Value> {
        self.find(kind, namespace, name)
            .await?
            .with_context(|| format!("{} {namespace}/{name} does not exist", kind.2))
    }

    /// The objects in a namespace with these labels. Empty if the kind is not served.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn list(&self, kind: Kind, namespace: &str, selector: &str) -> anyhow::Result<Vec<Value>> {
        let list = match self
            .api(kind, namespace)
            .list(&ListParams::default().labels(selector))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            list => list.with_context(|| format!("failed to list {} in {namespace}", kind.2))?,
        };
        let with_kind = |mut object: DynamicObject| {
            // Items of a list have no kind.
            object.types.get_or_insert_with(|| kube::api::TypeMeta {
                api_version: resource(kind).api_version,
                kind: kind.2.to_owned(),
            });
            serde_json::to_value(object).context("failed to read an object")
        };
        list.items.into_iter().map(with_kind).collect()
    }

    /// Applies objects, in this order.
    ///
    /// # Errors
    ///
    /// When an object is refused.
    pub async fn apply(&self, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let api = self.api_of(namespace, object);
            let name = state::name(object);
            api.patch(name, &PatchParams::apply("e2e").force(), &Patch::Apply(object))
                .await
                .with_context(|| format!("failed to apply {} {namespace}/{name}", object["kind"]))?;
        }
        Ok(())
    }

    /// Replaces an object with a changed copy. Clients that only know their own version read, change and replace
    /// objects like this.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn replace(&self, namespace: &str, object: &Value) -> anyhow::Result<()> {
        let api = self.api_of(namespace, object);
        let name = state::name(object);
        let body = serde_json::from_value(object.clone()).context("failed to write an object")?;
        let replaced = api.replace(name, &PostParams::default(), &body).await;
        replaced
            .map(drop)
            .with_context(|| format!("failed to replace {} {namespace}/{name}", object["kind"]))
    }

    /// Why the API server would refuse to create an object; `None` if it would accept the object. Creates nothing.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn refusal(&self, namespace: &str, object: &Value) -> anyhow::Result<Option<String>> {
        let body = serde_json::from_value(object.clone()).context("failed to write an object")?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match self.api_of(namespace, object).create(&dry_run, &body).await {
            Ok(_) => Ok(None),
            // A refusal by a conversion webhook is an internal error.
            Err(kube::Error::Api(status)) if (400..=500).contains(&status.code) => Ok(Some(status.message)),
            Err(error) => Err(error).with_context(|| format!("failed to try to create {}", object["kind"])),
        }
    }

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn create_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let api = self.api(kinds::NAMESPACE, "");
        let applied = api
            .patch(name, &PatchParams::apply("e2e").force(), &Patch::Apply(namespace))
            .await;
        applied
            .map(drop)
            .with_context(|| format!("failed to create namespace {name}"))
    }

    /// Creates a namespace, whose name the API server makes unique. Returns the name.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn generate_namespace(&self, prefix: &str) -> anyhow::Result<String> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}});
        let namespace: DynamicObject = serde_json::from_value(namespace)?;
        let created = self
            .api(kinds::NAMESPACE, "")
            .create(&PostParams::default(), &namespace)
            .await;
        let created = created.with_context(|| format!("failed to create a namespace {prefix}*"))?;
        created.metadata.name.context("the namespace has no name")
    }

    /// Applies a merge patch to an object.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn patch(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let patched = self
            .api(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched
            .map(drop)
            .with_context(|| format!("failed to patch {} {namespace}/{name}", kind.2))
    }

    /// Deletes an object without waiting until it is gone. Succeeds if it is gone already.
    ///
    /// # Errors
    ///
    /// When the request is refused.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
        match self
            .api(kind, namespace)
            .delete(name, &DeleteParams::background())
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("failed to delete {} {namespace}/{name}", kind.2))
            }
        }
    }

    /// The names of the objects of a kind. Only the names are requested.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn names(&self, kind: Kind, namespace: &str) -> anyhow::Result<Vec<String>> {
        self.names_with(kind, namespace, "").await
    }

    /// The names of the objects of a kind with these labels. Empty if the kind is not served.
    ///
    /// # Errors
    ///
    /// When the API server does not answer.
    pub async fn names_with(
        &self,
        kind: Kind,
        namespace: &str,
        selector: &str,
    ) -> anyhow::Result<Vec<String>> {
        let api: Api<DynamicObject> = self.api(kind, namespace);
        let name = |object: PartialObjectMeta<DynamicObject>| object.metadata.name.unwrap_or_default();
        match api.list_metadata(&ListParams::default().labels(selector)).await {
            Ok(list) => Ok(list.items.into_iter().map(name).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("failed to list {} in {namespace}", kind.2)),
        }
    }

    /// A client of the management cluster.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        self.scoped(&resource(kind), namespace)
    }

    /// The API for the kind in an object.
    fn api_of(&self, namespace: &str, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion")
            .rsplit_once('/')
            .unwrap_or(("", text("apiVersion")));
        let kind = GroupVersionKind::gvk(group, version, text("kind"));
        self.scoped(&ApiResource::from_gvk(&kind), namespace)
    }

    fn scoped(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        const CLUSTER_SCOPED: [Kind; 5] = [
            kinds::NAMESPACE,
            kinds::PERSISTENT_VOLUME,
            kinds::EXTENSION_CONFIG,
            kinds::CLOUD_EXTENSION_CONFIG,
            kinds::CLUSTER_FAULT,
        ];
        let is_cluster_scoped = CLUSTER_SCOPED.iter().any(|(_, _, kind)| resource.kind == *kind);
        if is_cluster_scoped || resource.kind.starts_with("Global") {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        }
    }
}

fn resource((group, version, kind): Kind) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
