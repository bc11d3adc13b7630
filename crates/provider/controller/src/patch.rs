//! Every write of a controller: patches, finalizers, deletion.
//!
//! A patch has only what differs, so it does not change other writers' fields. Server-side apply would need field managers
//! for that.

use std::fmt::Debug;

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::{
        object::HasStatus,
        request::{self, Request},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{
    kube_error,
    outcome::{ReconcileError, Retry},
    readable::{Kind, MARK, Readable},
};

/// The parts of `metadata` that a controller may change.
const OWN_METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// The precondition of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// The object still exists. The last writer wins, field by field.
    None,
    /// The object still has the resource version of the old value; otherwise the write is refused with a conflict.
    /// Needed if the patch replaces a list that others write as well.
    ResourceVersion,
}

/// A write that failed.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The object could not be turned into JSON.
    #[error("failed to serialise {object}")]
    Serialise {
        object: String,
        #[source]
        source: serde_json::Error,
    },
    /// The management API refused the write, or could not be reached.
    #[error("failed to {verb} {object}")]
    Request {
        verb: &'static str,
        object: String,
        #[source]
        source: kube::Error,
    },
    /// The object is gone, and another one has its name.
    #[error("failed to patch {object}: another object has its name")]
    Replaced { object: String },
}

impl PatchError {
    /// Whether the object does not exist any more.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => status.code == 404,
            Self::Replaced { .. } => true,
            Self::Request { .. } | Self::Serialise { .. } => false,
        }
    }

    /// Whether the object has changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Request { source: kube::Error::Api(status), .. } if status.code == 409)
    }
}

impl ReconcileError for PatchError {
    fn category(&self) -> &'static str {
        match self {
            Self::Serialise { .. } => "serialise",
            Self::Request { source, .. } => kube_error::category(source),
            Self::Replaced { .. } => "api_conflict",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Serialise { .. } => Retry::WaitForChange,
            Self::Request { source, .. } => kube_error::retry(source),
            // As normal as a conflict: the watch soon brings the other object, or that there is none.
            Self::Replaced { .. } => Retry::After(kube_error::AFTER_CONFLICT),
        }
    }
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone, or never existed.
    Gone,
    /// The object is being deleted: a finalizer still holds it.
    InProgress,
}

/// Patches the status to that of `new`; `None` if both are equal, and then nothing is sent.
///
/// The patch changes exactly this object, not a later one of the same name, with one exception: the first status of an
/// object, without [`Precondition::ResourceVersion`]. A JSON patch could only replace the status as a whole there, and with
/// it the status that a restored checkpoint has brought back meanwhile.
///
/// # Errors
///
/// When the management API refuses the patch or cannot be reached.
pub async fn status<K>(
    api: &Api<K>,
    old: &K,
    new: &K,
    precondition: Precondition,
) -> Result<Option<K>, PatchError>
where
    K: Kind + HasStatus<Status: Serialize + PartialEq>,
{
    // Most reconciles change nothing, so statuses are compared before they become JSON.
    if old.status() == new.status() {
        return Ok(None);
    }
    let new_status = status_json(new)?;
    let Some(mut difference) = merge_patch(&status_json(old)?, &new_status) else {
        return Ok(None);
    };
    let tests_uid = precondition == Precondition::None && old.status().is_some() && new.status().is_some();
    let patch = if tests_uid {
        Patch::Json(operations(old, &difference, &new_status)?)
    } else {
        require(&mut difference, old, precondition);
        Patch::Merge(difference)
    };
    let request = Request::new(api.resource_url()).patch_subresource(
        "status",
        &old.name_any(),
        &PatchParams::default(),
        &patch,
    );
    let patched = answer(api, request).await;
    patched.map(Some).map_err(|source| {
        let object = named(old);
        if tests_uid && does_not_apply(&source) {
            PatchError::Replaced { object }
        } else {
            PatchError::Request {
                verb: "patch the status of",
                object,
                source,
            }
        }
    })
}

/// Patches everything but the status (spec, labels, annotations, finalizers, owner references) to that of `new`;
/// `None` if both are equal, and then nothing is sent.
///
/// The patch changes exactly this object, not a later one of the same name.
///
/// # Errors
///
/// When the management API refuses the patch or cannot be reached.
pub async fn object<K>(
    api: &Api<K>,
    old: &K,
    new: &K,
    precondition: Precondition,
) -> Result<Option<K>, PatchError>
where
    K: Kind + PartialEq,
{
    if old == new {
        return Ok(None);
    }
    let Some(mut patch) = merge_patch(&own_fields(old)?, &own_fields(new)?) else {
        return Ok(None);
    };
    require(&mut patch, old, precondition);
    send(api, old, patch).await.map(Some)
}

/// Adds a finalizer after the existing ones; `None` if the object has it already.
///
/// # Errors
///
/// A conflict if the object has changed since it was read, because the patch replaces the whole list.
pub async fn add_finalizer<K: Kind>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, PatchError> {
    if object.finalizers().iter().any(|present| present == finalizer) {
        return Ok(None);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    set_finalizers(api, object, &finalizers).await.map(Some)
}

/// Removes a finalizer; `None` if the object does not have it, or is gone.
///
/// # Errors
///
/// A conflict if the object has changed since it was read, because the patch replaces the whole list.
pub async fn remove_finalizer<K: Kind>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, PatchError> {
    let remaining: Vec<String> = object
        .finalizers()
        .iter()
        .filter(|present| *present != finalizer)
        .cloned()
        .collect();
    if remaining.len() == object.finalizers().len() {
        return Ok(None);
    }
    match set_finalizers(api, object, &remaining).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes exactly this object, not a later one of the same name. Succeeds if the object does not exist.
///
/// # Errors
///
/// When the management API refuses the deletion or cannot be reached.
pub async fn delete<K: Kind>(api: &Api<K>, object: &K) -> Result<Deleted, PatchError> {
    let params = DeleteParams {
        preconditions: object.uid().map(|uid| Preconditions {
            uid: Some(uid),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let request = Request::new(api.resource_url()).delete(&object.name_any(), &params);
    let deleted = match request {
        Ok(request) => {
            api.clone()
                .into_client()
                .request_status::<Readable<K>>(request)
                .await
        }
        Err(source) => Err(kube::Error::BuildRequest(source)),
    };
    match deleted {
        Ok(either) if either.is_left() => Ok(Deleted::InProgress),
        Ok(_) => Ok(Deleted::Gone),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Deleted::Gone),
        // The uid does not match any more: the object is gone, and another one has its name.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Deleted::Gone),
        Err(source) => Err(PatchError::Request {
            verb: "delete",
            object: named(object),
            source,
        }),
    }
}

/// The smallest JSON merge patch (RFC 7386) that turns `old` into `new`, or `None` if they are equal.
///
/// A `null` inside an object of `new` counts as a missing member: a merge patch cannot write a `null`, and the
/// Kubernetes API drops them anyway.
#[must_use]
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let present = |value: &&Value| !value.is_null();
    let mut patch = Map::new();
    for (key, old_value) in old {
        match new.get(key).filter(present) {
            None if old_value.is_null() => {}
            None => {
                patch.insert(key.clone(), Value::Null);
            }
            Some(new_value) => {
                if let Some(change) = merge_patch(old_value, new_value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    for (key, new_value) in new
        .iter()
        .filter(|(key, value)| present(value) && !old.contains_key(*key))
    {
        patch.insert(key.clone(), new_value.clone());
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The `status` member alone.
fn status_json<K>(object: &K) -> Result<Value, PatchError>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: Serialize>,
{
    let status = serde_json::to_value(object.status()).map_err(|source| PatchError::Serialise {
        object: named(object),
        source,
    })?;
    Ok(json!({ "status": status }))
}

/// The JSON patch (RFC 6902) that sets the members of the status that differ, in exactly this object. In a merge patch of the
/// status of a custom resource, a kube-apiserver ignores the uid.
fn operations<K, P>(object: &K, difference: &Value, new: &Value) -> Result<P, PatchError>
where
    K: Resource<DynamicType = ()>,
    P: DeserializeOwned,
{
    let test = object
        .uid()
        .map(|uid| json!({ "op": "test", "path": "/metadata/uid", "value": uid }));
    let members = difference["status"].as_object().into_iter().flatten();
    let changes = members.map(|(name, change)| {
        let path = format!("/status/{name}");
        match change {
            Value::Null => json!({ "op": "remove", "path": path }),
            _ => json!({ "op": "add", "path": path, "value": new["status"][name] }),
        }
    });
    serde_json::from_value(test.into_iter().chain(changes).collect()).map_err(|source| {
        PatchError::Serialise {
            object: named(object),
            source,
        }
    })
}

/// The members that [`object`] may change.
fn own_fields<K>(object: &K) -> Result<Value, PatchError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Value::Object(mut members) = to_json(object)? else {
        return Ok(Value::Null);
    };
    for unwanted in ["apiVersion", "kind", "status"] {
        members.remove(unwanted);
    }
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        metadata.retain(|name, _| OWN_METADATA.contains(&name.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(MARK);
        }
    }
    Ok(Value::Object(members))
}

async fn set_finalizers<K: Kind>(api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, PatchError> {
    let mut patch = json!({ "metadata": { "finalizers": finalizers } });
    require(&mut patch, object, Precondition::ResourceVersion);
    send(api, object, patch).await
}

/// The object after a patch. An object that cannot be read in whole can be patched, and cannot be read in the answer either.
async fn answer<K: Kind>(
    api: &Api<K>,
    request: Result<http::Request<Vec<u8>>, request::Error>,
) -> Result<K, kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone()
        .into_client()
        .request::<Readable<K>>(request)
        .await
        .map(Readable::into_object)
}

/// Sends the patch with the uid of `object`. A patch can arrive long after its sender has given it up, and the name may
/// be that of another object by then.
async fn send<K: Kind>(api: &Api<K>, object: &K, mut patch: Value) -> Result<K, PatchError> {
    if let Some(uid) = object.uid() {
        patch["metadata"]["uid"] = Value::String(uid);
    }
    let params = PatchParams::default();
    let request = Request::new(api.resource_url()).patch(&object.name_any(), &params, &Patch::Merge(patch));
    answer(api, request).await.map_err(|source| {
        let object = named(object);
        if refuses_uid(&source) {
            PatchError::Replaced { object }
        } else {
            PatchError::Request {
                verb: "patch",
                object,
                source,
            }
        }
    })
}

/// Whether a patch was refused because the object has another uid. A kube-apiserver takes such a patch for an attempt to
/// change the uid.
fn refuses_uid(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.any(|cause| cause.field == "metadata.uid")
}

/// Whether an operation of a JSON patch failed: the test, or one about a member that is not there any more. A
/// kube-apiserver answers that with the code of an invalid object, but names no field.
fn does_not_apply(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    status.code == 422 && status.details.iter().all(|details| details.causes.is_empty())
}

/// Adds the resource version of `object` to the patch as a precondition, if required.
fn require<K: Resource>(patch: &mut Value, object: &K, precondition: Precondition) {
    let (Precondition::ResourceVersion, Some(version)) = (precondition, object.resource_version()) else {
        return;
    };
    patch["metadata"]["resourceVersion"] = Value::String(version);
}

fn to_json<K>(object: &K) -> Result<Value, PatchError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    serde_json::to_value(object).map_err(|source| PatchError::Serialise {
        object: named(object),
        source,
    })
}

/// Kind, namespace and name, for messages.
fn named<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let kind = K::kind(&());
    let name = object.name_any();
    match object.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::core::Machine;
    use proptest::{collection, prelude::*};

    use super::*;

    /// The pseudocode of RFC 7386, section 2.
    fn apply(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                let old = target.remove(name).unwrap_or(Value::Null);
                target.insert(name.clone(), apply(old, value));
            }
        }
        Value::Object(target)
    }

    /// Objects like those of the Kubernetes API: without null members.
    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0i64..4).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        collection::btree_map("[a-d]", value, 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn applying_the_patch_to_the_old_value_gives_the_new(old in object(), new in object()) {
            match merge_patch(&old, &new) {
                Some(patch) => prop_assert_eq!(apply(old, &patch), new),
                None => prop_assert_eq!(old, new),
            }
        }

        #[test]
        fn an_equal_value_needs_no_patch(value in object()) {
            prop_assert_eq!(merge_patch(&value, &value), None);
        }
    }

    #[test]
    fn only_what_differs_is_sent() {
        let old = json!({ "a": 1, "b": { "c": 2, "d": [1, 2] }, "gone": "x" });
        let new = json!({ "a": 1, "b": { "c": 3, "d": [1, 2] }, "added": true });
        assert_eq!(
            merge_patch(&old, &new),
            Some(json!({ "b": { "c": 3 }, "gone": null, "added": true }))
        );
    }

    fn machine(status: &Value) -> Machine {
        serde_json::from_value(json!({
            "metadata": { "name": "m", "resourceVersion": "7", "uid": "u", "labels": { "a": "b" } },
            "spec": { "version": "v1.36.0" },
            "status": status,
        }))
        .expect("a machine")
    }

    #[test]
    fn a_status_patch_holds_nothing_but_status() {
        let mut new = machine(&json!({ "phase": "Running" }));
        new.metadata.labels = None;
        let old = machine(&json!({ "phase": "Pending" }));
        let status = |object| status_json(object).expect("serialises");
        let patch = merge_patch(&status(&old), &status(&new)).expect("a difference");
        assert_eq!(patch, json!({ "status": { "phase": "Running" } }));
        let operations: Value = operations(&old, &patch, &status(&new)).expect("serialises");
        assert_eq!(
            operations,
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "u" },
                { "op": "add", "path": "/status/phase", "value": "Running" },
            ])
        );
    }

    #[test]
    fn an_object_patch_leaves_status_and_server_fields_alone() {
        let old = machine(&json!({ "phase": "Pending" }));
        let mut new = machine(&json!({ "phase": "Running" }));
        new.metadata.resource_version = Some("9".into());
        new.metadata.finalizers = Some(vec!["f".into()]);
        let patch = merge_patch(&own_fields(&old).expect("old"), &own_fields(&new).expect("new"));
        assert_eq!(patch, Some(json!({ "metadata": { "finalizers": ["f"] } })));
    }

    #[test]
    fn the_precondition_is_the_version_the_change_was_computed_from() {
        let mut patch = json!({ "status": { "phase": "Running" } });
        require(&mut patch, &machine(&json!({})), Precondition::None);
        assert_eq!(patch, json!({ "status": { "phase": "Running" } }));
        require(&mut patch, &machine(&json!({})), Precondition::ResourceVersion);
        assert_eq!(
            patch,
            json!({ "status": { "phase": "Running" }, "metadata": { "resourceVersion": "7" } })
        );
    }
}
