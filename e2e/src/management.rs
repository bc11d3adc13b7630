//! The management cluster: any object by kind, as JSON.

use std::path::Path;

use anyhow::Context;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

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
    /// Secret.
    pub const SECRET: Kind = ("", "v1", "Secret");
    /// Namespace.
    pub const NAMESPACE: Kind = ("", "v1", "Namespace");
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
    /// When there is none.
    pub async fn connect() -> anyhow::Result<Self> {
        let client = Client::try_default().await.context("failed to reach the management cluster")?;
        Ok(Self { client })
    }

    /// The cluster of a kubeconfig file.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub async fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let attempt = || format!("failed to use {}", kubeconfig.display());
        let kubeconfig = Kubeconfig::read_from(kubeconfig).with_context(attempt)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.with_context(attempt)?).with_context(attempt)?;
        Ok(Self { client })
    }

    /// An object, if it is there.
    ///
    /// # Errors
    ///
    /// When the API server cannot say.
    pub async fn find(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.with_context(|| format!("failed to get {} {namespace}/{name}", kind.2))?;
        found.map(|object| serde_json::to_value(object).context("failed to read an object")).transpose()
    }

    /// An object that has to be there.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<Value> {
        self.find(kind, namespace, name)
            .await?
            .with_context(|| format!("{} {namespace}/{name} is not there", kind.2))
    }

    /// The objects of a namespace with these labels.
    ///
    /// # Errors
    ///
    /// When the API server cannot say.
    pub async fn list(&self, kind: Kind, namespace: &str, selector: &str) -> anyhow::Result<Vec<Value>> {
        let list = self.api(kind, namespace).list(&ListParams::default().labels(selector)).await;
        let list = list.with_context(|| format!("failed to list {} in {namespace}", kind.2))?;
        let with_kind = |mut object: DynamicObject| {
            // Items of a list come without their kind.
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
    /// When one is refused.
    pub async fn apply(&self, namespace: &str, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            let name = text(&object["metadata"]["name"]);
            api.patch(&name, &PatchParams::apply("e2e").force(), &Patch::Apply(object))
                .await
                .with_context(|| format!("failed to apply {kind} {namespace}/{name}"))?;
        }
        Ok(())
    }

    /// Makes a namespace.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub async fn create_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let api = self.api(kinds::NAMESPACE, "");
        let applied = api.patch(name, &PatchParams::apply("e2e").force(), &Patch::Apply(namespace)).await;
        applied.map(drop).with_context(|| format!("failed to create namespace {name}"))
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub async fn patch(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        let patched =
            self.api(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).with_context(|| format!("failed to patch {} {namespace}/{name}", kind.2))
    }

    /// Asks for an object to be deleted; one that is gone is fine.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
        match self.api(kind, namespace).delete(name, &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("failed to delete {} {namespace}/{name}", kind.2))
            }
        }
    }

    /// Names of the objects of a kind, without reading the rest of them.
    ///
    /// # Errors
    ///
    /// When the API server cannot say.
    pub async fn names(&self, kind: Kind, namespace: &str) -> anyhow::Result<Vec<String>> {
        let api: Api<DynamicObject> = self.api(kind, namespace);
        let list = api.list_metadata(&ListParams::default()).await;
        let list = list.with_context(|| format!("failed to list {} in {namespace}", kind.2))?;
        let name = |object: PartialObjectMeta<DynamicObject>| object.metadata.name.unwrap_or_default();
        Ok(list.items.into_iter().map(name).collect())
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        if kind == kinds::NAMESPACE {
            Api::all_with(self.client.clone(), &resource(kind))
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
        }
    }
}

fn resource((group, version, kind): Kind) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
