//! The kinds that a checkpoint has objects of.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
};

/// The suffix of the groups of Cluster API and its providers.
const CLUSTER_API: &str = "cluster.x-k8s.io";
/// Groups with this suffix are about the installation of providers, not about clusters.
const INSTALLATION: [&str; 2] = ["clusterctl.cluster.x-k8s.io", "operator.cluster.x-k8s.io"];

/// A kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    /// Whether its status is written on its own.
    pub(crate) has_status: bool,
}

impl Kind {
    /// Of Kubernetes itself: whether an object belongs to a cluster does not follow from its kind.
    pub(crate) fn is_of_kubernetes(&self) -> bool {
        self.resource.group.is_empty()
    }

    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource)
    }
}

/// The namespaced kinds of Cluster API, its providers and the simulated cloud, in the version that is stored, and Secrets
/// and ConfigMaps.
///
/// # Errors
/// When the definitions cannot be listed.
pub(crate) async fn discover(client: &Client) -> Result<Vec<Kind>, kube::Error> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definitions = definitions.list(&ListParams::default()).await?.items;
    let mut kinds = vec![
        Kind {
            resource: ApiResource::erase::<Secret>(&()),
            has_status: false,
        },
        Kind {
            resource: ApiResource::erase::<ConfigMap>(&()),
            has_status: false,
        },
    ];
    kinds.extend(definitions.iter().filter_map(kind));
    Ok(kinds)
}

fn kind(definition: &CustomResourceDefinition) -> Option<Kind> {
    let spec = &definition.spec;
    let is_ours = spec.group.ends_with(CLUSTER_API) || spec.group == nephele_api::cloud::GROUP;
    if spec.scope != "Namespaced" || !is_ours || INSTALLATION.contains(&spec.group.as_str()) {
        return None;
    }
    let stored = spec
        .versions
        .iter()
        .find(|version| version.storage && version.served)?;
    let kind = GroupVersionKind::gvk(&spec.group, &stored.name, &spec.names.kind);
    let has_status = stored
        .subresources
        .as_ref()
        .is_some_and(|parts| parts.status.is_some());
    Some(Kind {
        resource: ApiResource::from_gvk_with_plural(&kind, &spec.names.plural),
        has_status,
    })
}

/// The kind of an object.
pub(crate) fn kind_of<'a>(kinds: &'a [Kind], object: &DynamicObject) -> Option<&'a Kind> {
    let TypeMeta { api_version, kind } = object.types.as_ref()?;
    kinds
        .iter()
        .find(|found| found.resource.api_version == *api_version && found.resource.kind == *kind)
}
