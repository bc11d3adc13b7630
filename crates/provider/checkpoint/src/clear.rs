//! Removes all objects of namespaces, so that no controller cleans up after them: as `clusterctl move` does on the
//! management cluster that it moves from (`deleteSourceObject` in `cmd/clusterctl/client/cluster/mover.go` of cluster-api).

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
};
use nephele_api::core::{self, DELETE_FOR_MOVE_ANNOTATION};
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

/// How often what is still there is told of.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Refuses to remove a ClusterClass that a Cluster of another namespace uses: Cluster API would keep it, when everything else is
/// gone already. Who may not list Clusters in all namespaces is not asked here, but by Cluster API.
pub(crate) async fn refuse_classes_in_use(
    client: &Client,
    kinds: &[Kind],
    namespaces: &[String],
    here: &[(Kind, DynamicObject)],
) -> Result<(), RestoreError> {
    let is_cluster = |kind: &&Kind| kind.resource.group == core::GROUP && kind.resource.kind == "Cluster";
    let Some(kind) = kinds.iter().find(is_cluster) else {
        return Ok(());
    };
    let everywhere = Api::<DynamicObject>::all_with(client.clone(), &kind.resource);
    let clusters = match everywhere.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        listed => listed.map_err(request("list the Clusters of all namespaces"))?,
    };
    match class_in_use(namespaces, here, &clusters.items) {
        Some((class, cluster)) => Err(RestoreError::InUse { class, cluster }),
        None => Ok(()),
    }
}

/// A ClusterClass that is to be removed, and a Cluster outside of these namespaces that uses it.
fn class_in_use(
    namespaces: &[String],
    here: &[(Kind, DynamicObject)],
    clusters: &[DynamicObject],
) -> Option<(String, String)> {
    clusters.iter().find_map(|cluster| {
        let of = cluster.namespace()?;
        let topology = cluster.data.pointer("/spec/topology")?;
        // The second form is that of v1beta1.
        let text = |path: &str| topology.pointer(path).and_then(serde_json::Value::as_str);
        let class = text("/classRef/name").or_else(|| text("/class"))?;
        let namespace = text("/classRef/namespace").or_else(|| text("/classNamespace"));
        let namespace = namespace.unwrap_or(&of);
        let is_it = |(_, object): &&(Kind, DynamicObject)| {
            let types = object.types.as_ref();
            types.is_some_and(|types| types.kind == "ClusterClass")
                && object.metadata.name.as_deref() == Some(class)
                && object.metadata.namespace.as_deref() == Some(namespace)
        };
        (!namespaces.contains(&of) && here.iter().any(|one| is_it(&one))).then(|| {
            (
                format!("{namespace}/{class}"),
                format!("{of}/{}", cluster.name_any()),
            )
        })
    })
}

/// Pauses the Clusters, and removes all objects. `here` are those that were there at first. `report` is told what is still there,
/// and why.
pub(crate) async fn clear(
    client: &Client,
    kinds: &[Kind],
    namespaces: &[String],
    mut here: Vec<(Kind, DynamicObject)>,
    time_limit: Duration,
    report: &(dyn Fn(&str) + Sync),
) -> Result<(), RestoreError> {
    let begun = Instant::now();
    let mut told = begun;
    let mut failed: Option<kube::Error> = None;
    while let Some((_, example)) = here.first() {
        let remains = |source| RestoreError::Remains {
            left: here.len(),
            example: named(example),
            waited: begun.elapsed(),
            source,
        };
        if begun.elapsed() >= time_limit {
            return Err(remains(failed));
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let why = failed.as_ref().map(|why| format!(": {why}"));
            report(&format!("{}{}", remains(None), why.unwrap_or_default()));
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

fn named(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map(|types| types.kind.as_str());
    format!(
        "{} {}/{}",
        kind.unwrap_or_default(),
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
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

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;

    use super::*;

    fn object(kind: &str, namespace: &str, name: &str, spec: &serde_json::Value) -> (Kind, DynamicObject) {
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        });
        let kind = Kind {
            resource: ApiResource::erase::<nephele_api::core::Cluster>(&()),
            has_status: true,
        };
        (kind, serde_json::from_value(object).expect("an object"))
    }

    #[test]
    fn a_class_that_a_cluster_elsewhere_uses_is_found_before_anything_is_removed() {
        let here = [object("ClusterClass", "a", "c", &json!({}))];
        let namespaces = ["a".to_owned()];
        let used = |of: &str, class: &serde_json::Value| {
            let (_, cluster) = object("Cluster", of, "x", &json!({"topology": {"classRef": class}}));
            class_in_use(&namespaces, &here, &[cluster])
        };
        assert_eq!(
            used("b", &json!({"name": "c", "namespace": "a"})),
            Some(("a/c".to_owned(), "b/x".to_owned()))
        );
        let (_, older) = object(
            "Cluster",
            "b",
            "x",
            &json!({"topology": {"class": "c", "classNamespace": "a"}}),
        );
        assert!(class_in_use(&namespaces, &here, &[older]).is_some());
        // Of its own namespace; in a namespace that is emptied; another class; a Cluster without a class.
        for (of, class) in [
            ("b", json!({"name": "c"})),
            ("a", json!({"name": "c"})),
            ("b", json!({"name": "d", "namespace": "a"})),
            ("b", json!(null)),
        ] {
            assert_eq!(used(of, &class), None, "{of} {class}");
        }
    }
}
