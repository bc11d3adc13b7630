//! Saves a checkpoint. Nothing is changed, and controllers keep working meanwhile.

use jiff::Timestamp;
use kube::{
    Client,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

use crate::{
    error::SaveError,
    file::{Checkpoint, Header},
    kinds::{self, Kind},
    scope,
    workloads::Workloads,
};

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Everything in the namespaces, as it is now.
///
/// The objects of the management cluster are read before those of the workload clusters. So the latter may be a moment
/// newer, as when a manager was killed before it wrote what it had done; controllers repeat such steps. The other way
/// round, work that the management cluster knows of might be missing.
///
/// # Errors
/// When the management API or the manager does not answer.
pub async fn save<W: Workloads>(
    client: &Client,
    workloads: &W,
    namespaces: &[String],
    now: Timestamp,
    version: &str,
) -> Result<Checkpoint, SaveError> {
    let request = |what: &str| {
        let what = what.to_owned();
        |source| SaveError::Request { what, source }
    };
    let kinds = kinds::discover(client)
        .await
        .map_err(request("list the CustomResourceDefinitions"))?;
    let mut checkpoint = Checkpoint {
        header: Header::new(now, version, namespaces.to_vec()),
        objects: Vec::new(),
        clusters: Vec::new(),
    };
    for namespace in namespaces {
        let members = members(client, &kinds, namespace).await;
        let members = members.map_err(request("list the objects of clusters"))?;
        checkpoint
            .objects
            .extend(members.into_iter().map(|(_, object)| object));
    }
    for namespace in namespaces {
        let lines = workloads
            .read(namespace)
            .await
            .map_err(|error| SaveError::Manager(error.into()))?;
        let clusters = serde_json::Deserializer::from_slice(&lines).into_iter::<Value>();
        for cluster in clusters {
            checkpoint.clusters.push(cluster.map_err(SaveError::Answer)?);
        }
    }
    Ok(checkpoint)
}

/// The objects of a namespace that belong to a checkpoint, with their kinds.
pub(crate) async fn members(
    client: &Client,
    kinds: &[Kind],
    namespace: &str,
) -> Result<Vec<(Kind, DynamicObject)>, kube::Error> {
    let mut all = Vec::new();
    for kind in kinds {
        for mut object in list(client, kind, namespace).await? {
            // The items of a list do not say their kind.
            object.types = Some(kube::core::TypeMeta {
                api_version: kind.resource.api_version.clone(),
                kind: kind.resource.kind.clone(),
            });
            all.push((kind.clone(), object));
        }
    }
    Ok(scope::members(all))
}

async fn list(client: &Client, kind: &Kind, namespace: &str) -> Result<Vec<DynamicObject>, kube::Error> {
    let api = kind.api(client, namespace);
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // The kind is being removed.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            Err(error) => return Err(error),
        };
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}
