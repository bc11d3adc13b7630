//! Removes all objects of namespaces, so that no controller cleans up after them: as `clusterctl move` does on the
//! management cluster that it moves from (`deleteSourceObject` in `cmd/clusterctl/client/cluster/mover.go` of cluster-api).

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use nephele_api::core::DELETE_FOR_MOVE_ANNOTATION;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    error::RestoreError,
    kinds::Kind,
    order::is_cluster,
    restore::{AT_A_TIME, request},
    save::members,
};

/// The time between two attempts. Controllers that do not know yet that a Cluster is paused may add a finalizer again.
const RETRY: Duration = Duration::from_millis(500);

/// Pauses the Clusters, and removes all objects. `here` are those that were there at first.
pub(crate) async fn clear(
    client: &Client,
    kinds: &[Kind],
    namespaces: &[String],
    mut here: Vec<(Kind, DynamicObject)>,
    time_limit: Duration,
) -> Result<(), RestoreError> {
    let begun = Instant::now();
    let mut failed = None;
    while let Some((_, example)) = here.first() {
        if begun.elapsed() >= time_limit {
            let kind = example
                .types
                .as_ref()
                .map(|types| types.kind.clone())
                .unwrap_or_default();
            let example = format!(
                "{kind} {}/{}",
                example.namespace().unwrap_or_default(),
                example.name_any()
            );
            return Err(RestoreError::Remains {
                left: here.len(),
                example,
                waited: begun.elapsed(),
                source: failed,
            });
        }
        let clusters = here.iter().filter(|(_, object)| is_cluster(object));
        let paused = stream::iter(
            clusters
                .map(|(kind, object)| change(client, kind, object, json!({ "spec": { "paused": true } }))),
        );
        paused
            .buffer_unordered(AT_A_TIME)
            .try_collect::<()>()
            .await
            .map_err(request("pause a Cluster"))?;
        let removed = stream::iter(here.iter().map(|(kind, object)| remove(client, kind, object)));
        let removed: Vec<_> = removed.buffer_unordered(AT_A_TIME).collect().await;
        // A webhook may refuse to delete an object while others use it. The next attempt may succeed.
        failed = removed.into_iter().find_map(Result::err);
        sleep(RETRY).await;
        here = all(client, kinds, namespaces).await?;
    }
    Ok(())
}

/// The objects of all namespaces.
pub(crate) async fn all(
    client: &Client,
    kinds: &[Kind],
    namespaces: &[String],
) -> Result<Vec<(Kind, DynamicObject)>, RestoreError> {
    let mut all = Vec::new();
    for namespace in namespaces {
        all.extend(
            members(client, kinds, namespace)
                .await
                .map_err(request("list the objects of clusters"))?,
        );
    }
    Ok(all)
}

async fn remove(client: &Client, kind: &Kind, object: &DynamicObject) -> Result<(), kube::Error> {
    let api = kind.api(client, &object.namespace().unwrap_or_default());
    let name = object.name_any();
    let metadata = json!({ "annotations": { DELETE_FOR_MOVE_ANNOTATION: "" }, "finalizers": null });
    change(client, kind, object, json!({ "metadata": metadata })).await?;
    let preconditions = Preconditions {
        uid: object.uid(),
        resource_version: None,
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::background()
    };
    gone(api.delete(&name, &params).await.map(drop))
}

async fn change(
    client: &Client,
    kind: &Kind,
    object: &DynamicObject,
    patch: serde_json::Value,
) -> Result<(), kube::Error> {
    let api = kind.api(client, &object.namespace().unwrap_or_default());
    gone(
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop),
    )
}

/// The object may have been deleted with its owner, or another one may have its name.
fn gone(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}
