//! Creates the objects of the files in the management API, in their order.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, PostParams},
    discovery::Scope,
};
use nephele_api::core;
use tokio::time::{Instant, sleep};

use super::{documents::Document, state::ClusterKey};
use nephele_access::{Kinds, Served};

/// How long the API server may take until it serves a kind whose definition is in the files.
const DEFINED_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// Creates all objects, and the namespaces that they need. Returns the Clusters.
pub(super) async fn create_all(client: &Client, documents: Vec<Document>) -> anyhow::Result<Vec<ClusterKey>> {
    let mut creator = Creator {
        client,
        kinds: Kinds::new(client.clone()),
        serves_all: Instant::now(),
    };
    let mut clusters = Vec::new();
    for document in documents {
        let created = creator.create(&document).await?;
        if document.kind.group == core::GROUP && document.kind.kind == "Cluster" {
            clusters.push((created.namespace().unwrap_or_default(), created.name_any()));
        }
    }
    Ok(clusters)
}

struct Creator<'a> {
    client: &'a Client,
    kinds: Kinds,
    /// From this time on, a kind that the API server does not know is a mistake.
    serves_all: Instant,
}

impl Creator<'_> {
    async fn create(&mut self, document: &Document) -> anyhow::Result<DynamicObject> {
        let (resource, capabilities) = self.kind(document).await?;
        let api = if capabilities.scope == Scope::Namespaced {
            let namespace = document
                .object
                .namespace()
                .unwrap_or_else(|| "default".to_owned());
            self.create_namespace(&namespace)
                .await
                .with_context(|| format!("failed to create the namespace of {document}"))?;
            Api::namespaced_with(self.client.clone(), &namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        if resource.kind == "CustomResourceDefinition" {
            self.serves_all = Instant::now() + DEFINED_WITHIN;
        }
        match api.create(&PostParams::default(), &document.object).await {
            Ok(created) => Ok(created),
            Err(kube::Error::Api(status)) if status.code == 409 && resource.kind == "Namespace" => {
                Ok(document.object.clone())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Err(anyhow!(
                "failed to create {document}: it exists already; delete it, or remove the document"
            )),
            Err(error) => Err(error).with_context(|| {
                format!("failed to create {document}; correct it in the file if the API refuses it")
            }),
        }
    }

    async fn create_namespace(&self, name: &str) -> Result<(), kube::Error> {
        let api = Api::<Namespace>::all(self.client.clone());
        if api.get_opt(name).await?.is_some() {
            return Ok(());
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop),
        }
    }

    /// How the API server serves the kind of a document.
    async fn kind(&self, document: &Document) -> anyhow::Result<Served> {
        let name = format!("{} {}", document.kind.api_version(), document.kind.kind);
        loop {
            let found = self.kinds.find(&document.kind).await;
            match found.with_context(|| format!("failed to look up {name}"))? {
                Some(found) => return Ok(found),
                None if Instant::now() < self.serves_all => sleep(POLL).await,
                None => {
                    return Err(anyhow!(
                        "failed to create {document}: the management API does not know {name}; correct apiVersion \
                         and kind, or put its CustomResourceDefinition before it"
                    ));
                }
            }
        }
    }
}
