//! The management cluster: what is installed there, and writes to it.

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use nephele_controller::is_without_dry_run;
use serde_json::Value;

use super::objects::LABEL;
use crate::{
    access::TargetArgs,
    embedded::GIT_VERSION,
    exit::{Exit, Problem},
};
use nephele_access::{Kinds, Served, kind_of};

/// The field manager of what is applied.
const FIELD_MANAGER: &str = "nephele-install";
/// clusterctl's list of providers.
const INVENTORY: (&str, &str, &str) = ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider");
const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
/// The definition of pools, which one of two IPAM providers has.
pub(super) const POOLS: &str = "inclusterippools.ipam.cluster.x-k8s.io";

/// What is on a management cluster that matters to an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether Cluster API is installed, in any version.
    pub(crate) cluster_api: bool,
    /// The providers that clusterctl has installed, with their namespaces.
    pub(crate) providers: Vec<(String, String)>,
    /// Who installed the kinds of the in-cluster IPAM provider.
    pub(crate) pools: Owner,
}

/// Who installed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Owner {
    #[default]
    None,
    /// An earlier `nephele install`.
    Us,
    Others,
}

/// The management cluster.
pub(crate) struct Management {
    client: Client,
    kinds: Kinds,
}

impl Management {
    /// Connects to the management cluster.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn open(target: &TargetArgs) -> anyhow::Result<Self> {
        let (management, _) = Self::ask(target).await?;
        Ok(management)
    }

    /// Connects to a management cluster on which a manager is installed or removed.
    ///
    /// # Errors
    /// When it does not answer, or is that of a `nephele up`, whose process is the manager.
    pub(super) async fn open_to_change(target: &TargetArgs) -> anyhow::Result<Self> {
        let (management, has_process) = Self::ask(target).await?;
        if has_process {
            let message = "this management cluster is that of `nephele up`, whose process is the manager: there is nothing to \
                           install or to remove";
            return Err(Problem::new(Exit::Failed, message).into());
        }
        Ok(management)
    }

    /// The management cluster, and whether a process of this machine is its manager.
    async fn ask(target: &TargetArgs) -> anyhow::Result<(Self, bool)> {
        let access = target.open().await?;
        let client = access.client;
        let asked = client.apiserver_version().await;
        let version = asked.map_err(|error| {
            Problem::request("read the version of the API server", "read /version", error)
        })?;
        let management = Self {
            kinds: Kinds::new(client.clone()),
            client,
        };
        Ok((
            management,
            access.manager.is_some() || version.git_version == GIT_VERSION,
        ))
    }

    /// The management cluster of a test.
    #[cfg(test)]
    pub(super) fn of(client: Client) -> Self {
        Self {
            kinds: Kinds::new(client.clone()),
            client,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The kinds of the API server.
    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Looks at what is installed.
    pub(crate) async fn look(&self) -> anyhow::Result<Found> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let get = async |name: &str| {
            let found = definitions.get_opt(name).await;
            found.map_err(|error| {
                Problem::request(
                    &format!("read CustomResourceDefinition {name}"),
                    "get customresourcedefinitions",
                    error,
                )
            })
        };
        let clusters = get(CLUSTERS).await?;
        let pools = get(POOLS).await?;
        let is_ours = |pools: &CustomResourceDefinition| {
            pools.labels().get(LABEL.0).is_some_and(|value| value == LABEL.1)
        };
        Ok(Found {
            cluster_api: clusters.is_some(),
            providers: self.providers().await?,
            pools: pools.map_or(Owner::None, |pools| {
                if is_ours(&pools) { Owner::Us } else { Owner::Others }
            }),
        })
    }

    async fn providers(&self) -> anyhow::Result<Vec<(String, String)>> {
        let (group, version, kind) = INVENTORY;
        let Some((kind, _)) = self.kind(&GroupVersionKind::gvk(group, version, kind)).await? else {
            return Ok(Vec::new());
        };
        let providers = self
            .all(&kind)
            .list(&ListParams::default())
            .await
            .context("failed to list clusterctl's providers")?;
        let name = |provider: DynamicObject| (provider.name_any(), provider.namespace().unwrap_or_default());
        Ok(providers.into_iter().map(name).collect())
    }

    /// The kind as the API server serves it; `None` if it does not.
    pub(crate) async fn kind(&self, kind: &GroupVersionKind) -> anyhow::Result<Option<Served>> {
        let served = self.kinds.find(kind).await;
        served.with_context(|| format!("failed to look up the kind {}", kind.kind))
    }

    /// The API of the kind of an object, in the object's namespace.
    pub(crate) async fn api(&self, object: &Value) -> anyhow::Result<Option<Api<DynamicObject>>> {
        let api = self.kinds.api(object).await;
        api.with_context(|| format!("failed to look up the kind {}", kind_of(object).kind))
    }

    /// The API of a kind in all namespaces.
    pub(crate) fn all(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    /// Asks by a dry run whether an object can be applied. An object of a kind or in a namespace that is not there yet cannot
    /// be asked about.
    pub(super) async fn rehearse(&self, object: &Value) -> anyhow::Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(api) = self.api(object).await? else {
            return Ok(());
        };
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply(FIELD_MANAGER).force()
        };
        match api.patch(name, &params, &Patch::Apply(object)).await {
            Err(kube::Error::Api(status)) if status.code == 404 || is_without_dry_run(&status) => Ok(()),
            Err(error) => Err(Problem::request(
                &format!("apply {kind} {name}; nothing was changed"),
                &format!("create and patch {kind}"),
                error,
            )
            .into()),
            Ok(_) => Ok(()),
        }
    }

    /// Creates an object or brings it to this state.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(api) = self.api(object).await? else {
            bail!("the API server does not know the kind {kind}")
        };
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(name, &params, &Patch::Apply(object)).await;
        applied.map_err(|error| {
            Problem::request(
                &format!("apply {kind} {name}"),
                &format!("create and patch {kind}"),
                error,
            )
        })?;
        Ok(())
    }
}
