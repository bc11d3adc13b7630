//! `clusterctl move`: every object is created on another management cluster, and then removed from the first one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Resource as _, ResourceExt as _,
    api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use nephele_api::core::DELETE_FOR_MOVE_ANNOTATION;
use nephele_testkit::ManagementApi;
use rand::RngExt as _;
use serde_json::json;
use tokio::time::sleep;

use crate::scenario::draws_about;

/// The old and new uid of each object.
pub(crate) type Uids = BTreeMap<String, String>;

/// Whether an object is being deleted: clusterctl moves nothing then.
pub(crate) async fn is_deleting(api: &ManagementApi) -> bool {
    objects(api)
        .await
        .iter()
        .any(|(_, object)| object.metadata.deletion_timestamp.is_some())
}

/// Creates the objects of one management cluster on another, owners first, as clusterctl does: without their status,
/// and with the new uids in their owner references. The managers of both management clusters run meanwhile.
pub(crate) async fn copy(seed: u64, from: &ManagementApi, to: &ManagementApi) -> Uids {
    let mut left = objects(from).await;
    let there: BTreeSet<_> = left.iter().filter_map(|(_, object)| object.uid()).collect();
    let mut uids = Uids::new();
    while !left.is_empty() {
        let before = left.len();
        let mut later = Vec::new();
        for (resource, mut object) in left {
            let owners = object.owner_references_mut();
            owners.retain(|owner| there.contains(&owner.uid));
            if !owners.iter().all(|owner| uids.contains_key(&owner.uid)) {
                later.push((resource, object));
                continue;
            }
            for owner in owners {
                owner.uid.clone_from(&uids[&owner.uid]);
            }
            pause(seed, "copy", &object).await;
            let uid = object.uid().expect("it was created");
            let metadata = object.meta_mut();
            metadata.uid = None;
            metadata.resource_version = None;
            metadata.creation_timestamp = None;
            metadata.generation = None;
            metadata.managed_fields = None;
            let created = api(to, &resource, &object)
                .create(&PostParams::default(), &object)
                .await;
            uids.insert(uid, created.expect("it is taken").uid().expect("it was created"));
        }
        assert!(later.len() < before, "owners are no circle");
        left = later;
    }
    uids
}

/// Deletes the objects on the first management cluster, owned objects first, and removes their finalizers so that no
/// manager cleans up.
pub(crate) async fn remove(seed: u64, from: &ManagementApi, uids: &Uids) {
    let mut all = objects(from).await;
    // An older object may own a newer one.
    all.sort_by_key(|(_, object)| std::cmp::Reverse(object.creation_timestamp()));
    for (resource, object) in all {
        if !object.uid().is_some_and(|uid| uids.contains_key(&uid)) {
            continue;
        }
        pause(seed, "remove", &object).await;
        let api = api(from, &resource, &object);
        let name = object.name_any();
        let metadata = json!({ "annotations": { DELETE_FOR_MOVE_ANNOTATION: "" }, "finalizers": null });
        let patch = json!({ "metadata": metadata });
        // The object may have been deleted with its owner.
        let _ = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
}

/// Waits sometimes, so that managers see the state in the middle of a move. Most often it does not wait.
async fn pause(seed: u64, what: &str, object: &DynamicObject) {
    let namespace = object.namespace().unwrap_or_default();
    let name = object.name_any();
    let mut draws = draws_about(seed, &["move", what, &namespace, &name], 0);
    if draws.random_ratio(1, 4) {
        sleep(Duration::from_millis(draws.random_range(0..3_000))).await;
    }
}

/// The namespaced objects of all kinds that have a CRD, and the Secrets.
async fn objects(api: &ManagementApi) -> Vec<(ApiResource, DynamicObject)> {
    let definitions: Api<CustomResourceDefinition> = Api::all(api.client());
    let definitions = definitions
        .list(&Default::default())
        .await
        .expect("an answer")
        .items;
    let namespaced = definitions
        .into_iter()
        .filter(|definition| definition.spec.scope == "Namespaced");
    let mut resources = vec![ApiResource::erase::<Secret>(&())];
    resources.extend(namespaced.map(|definition| {
        let spec = definition.spec;
        let stored = spec
            .versions
            .iter()
            .find(|version| version.storage)
            .expect("one is stored");
        let kind = GroupVersionKind::gvk(&spec.group, &stored.name, &spec.names.kind);
        ApiResource::from_gvk_with_plural(&kind, &spec.names.plural)
    }));
    let mut all = Vec::new();
    for resource in resources {
        let listed = Api::<DynamicObject>::all_with(api.client(), &resource)
            .list(&Default::default())
            .await;
        let listed = listed.expect("an answer").items.into_iter();
        all.extend(listed.map(|object| (resource.clone(), object)));
    }
    all
}

fn api(of: &ManagementApi, resource: &ApiResource, object: &DynamicObject) -> Api<DynamicObject> {
    let namespace = object.namespace().unwrap_or_default();
    Api::namespaced_with(of.client(), &namespace, resource)
}
