//! Conversion between the form an object is stored in and the forms it is served in.
//!
//! In this server, the versions of a kind differ by name only, except those of `HorizontalPodAutoscaler` and of custom
//! kinds with a [`Conversion`](crate::Conversion). One pair of kinds shares its objects: `events` of the core group and
//! of `events.k8s.io`, stored as the former (`kubernetes/pkg/apis/events/v1/conversion.go`).

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{autoscaling, status::ApiError};
use crate::{
    registry::ResourceType,
    store::{GroupResource, Object},
};

/// Names of an event's fields: in `events.k8s.io`, and in the core group.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];
const EVENT_REPORTER_FIELDS: [(&str, &str); 2] = [
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
];

fn is_new_event(kind: &ResourceType) -> bool {
    kind.group == "events.k8s.io" && kind.kind == "Event"
}

fn is_autoscaler(kind: &ResourceType) -> bool {
    kind.group == "autoscaling" && !kind.custom
}

/// The collection that holds the objects of a kind.
pub(crate) fn stored_in(kind: &ResourceType) -> GroupResource {
    if is_new_event(kind) {
        GroupResource::new("", "events")
    } else {
        kind.group_resource()
    }
}

/// A stored object as JSON of the requested version.
pub(crate) fn outward(kind: &ResourceType, version: &str, object: &Object) -> Bytes {
    // Fields are sorted, so a serialised object begins with its version. In most cases there is nothing to convert.
    let api_version = kind.api_version(version);
    let expected = format!("{{\"apiVersion\":\"{api_version}\",");
    if object.bytes.starts_with(expected.as_bytes()) {
        return object.bytes.clone();
    }
    let value = outward_value(kind, version, object.value());
    Bytes::from(serde_json::to_vec(&value).expect("a JSON value always serialises"))
}

/// As [`outward`], as a tree. An object that cannot be converted is shown as it is stored, so that it does not hide the
/// others of its list.
pub(crate) fn outward_value(kind: &ResourceType, version: &str, mut value: Value) -> Value {
    let api_version = kind.api_version(version);
    if kind.conversion.is_some()
        && value["apiVersion"] != api_version
        && let Ok(converted) = kind.converted(&value, &api_version)
    {
        value = converted;
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), api_version.into());
        if is_new_event(kind) {
            for (new, core) in EVENT_FIELDS.into_iter().chain(EVENT_REPORTER_FIELDS) {
                rename(object, core, new);
            }
        }
        if version == "v1" && is_autoscaler(kind) {
            autoscaling::to_v1(object);
        }
    }
    value
}

/// An object from a client, in the form it is stored in; the store sets the version.
///
/// # Errors
/// When it cannot be converted.
pub(crate) fn inward(kind: &ResourceType, mut value: Value) -> Result<Value, ApiError> {
    if kind.conversion.is_some() {
        let stored = kind.api_version(&kind.versions[0]);
        if value["apiVersion"] == stored {
            return Ok(value);
        }
        let given = value["apiVersion"].as_str().unwrap_or_default();
        return kind.converted(&value, &stored).map_err(|reason| {
            let kind = &kind.kind;
            ApiError::bad_request(format!(
                "failed to convert {kind} of {given} to {stored}: {reason}"
            ))
        });
    }
    if let Some(object) = value.as_object_mut().filter(|object| {
        is_autoscaler(kind)
            && object
                .get("apiVersion")
                .is_some_and(|version| version == "autoscaling/v1")
    }) {
        autoscaling::to_v2(object);
    }
    if let Some(object) = value.as_object_mut().filter(|_| is_new_event(kind)) {
        for (new, core) in EVENT_FIELDS.into_iter().chain(EVENT_REPORTER_FIELDS) {
            rename(object, new, core);
        }
        object.insert("apiVersion".to_owned(), "v1".into());
    }
    Ok(value)
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.to_owned(), value);
    }
}
