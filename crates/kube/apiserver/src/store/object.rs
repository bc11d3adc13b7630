//! One version of one object.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    error::StoreError,
    key::{GroupResource, Key},
};
use crate::parse_cost::is_too_dense;

/// A [`Key`] for indexes: it shares the collection's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexKey {
    resource: Arc<GroupResource>,
    namespace: Box<str>,
    name: Box<str>,
}

impl IndexKey {
    pub(super) fn new(resource: &Arc<GroupResource>, object: &Object) -> Self {
        Self {
            resource: resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }

    pub(super) fn key(&self) -> Key {
        Key {
            resource: (*self.resource).clone(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
        }
    }
}

/// One version of an object: its JSON, serialised once and shared by the store, the event log and every watcher,
/// and the few fields that selectors and garbage collection need.
#[derive(Debug)]
pub struct Object {
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// The uid, which never changes.
    pub uid: Box<str>,
    /// The store's counter when this version was written.
    pub resource_version: u64,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) owners: Box<[Box<str>]>,
    /// The Node that a pod is bound to.
    pub(super) node: Option<Box<str>>,
    pub(crate) deleting: bool,
    pub(crate) has_finalizers: bool,
    /// The whole object as JSON.
    pub bytes: Bytes,
}

/// The maximum size of an object in bytes: the most that etcd accepts in one request (`--max-request-bytes`).
const BYTES_MAX: usize = 1024 * 1024 + 512 * 1024;

#[cfg(debug_assertions)]
thread_local! {
    static PARSED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many objects were parsed in this thread, for tests: only builds with debug assertions count them.
#[cfg(debug_assertions)]
#[must_use]
pub fn objects_parsed() -> u64 {
    PARSED.get()
}

impl Object {
    /// As [`Object::new`], for objects from clients.
    pub(super) fn of_client(value: &Value, resource_version: u64) -> Result<Self, StoreError> {
        let object = Self::new(value, resource_version);
        if object.bytes.len() > BYTES_MAX || is_too_dense(&object.bytes) {
            return Err(StoreError::TooLarge { limit: BYTES_MAX });
        }
        Ok(object)
    }

    /// Serialises `value`, whose metadata the store has already set.
    pub(crate) fn new(value: &Value, resource_version: u64) -> Self {
        // Boxed, to drop the buffer's spare capacity.
        let bytes = serde_json::to_vec(value)
            .expect("a JSON value always serialises")
            .into_boxed_slice();
        Self::of(value, resource_version, Bytes::from(bytes))
    }

    /// The object `value`, which was serialised earlier as `bytes`. None if it has no resource version.
    pub(super) fn kept(value: &Value, bytes: Bytes) -> Option<Self> {
        let version = metadata_text(value, "resourceVersion").parse().ok()?;
        Some(Self::of(value, version, bytes))
    }

    fn of(value: &Value, resource_version: u64, bytes: Bytes) -> Self {
        let metadata = value.get("metadata");
        let text = |field: &str| {
            metadata
                .and_then(|m| m.get(field))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let labels = metadata
            .and_then(|m| m.get("labels"))
            .and_then(Value::as_object)
            .map(|labels| {
                labels
                    .iter()
                    .filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into())))
                    .collect()
            })
            .unwrap_or_default();
        let list = |field: &str| metadata.and_then(|m| m.get(field)).and_then(Value::as_array);
        let owners = list("ownerReferences")
            .map(|owners| {
                owners
                    .iter()
                    .filter_map(|o| Some(o.get("uid")?.as_str()?.into()))
                    .collect()
            })
            .unwrap_or_default();
        let node = value
            .get("spec")
            .and_then(|spec| spec.get("nodeName"))
            .and_then(Value::as_str);
        let node =
            node.filter(|node| !node.is_empty() && value.get("kind").is_some_and(|kind| kind == "Pod"));
        Self {
            node: node.map(Into::into),
            namespace: text("namespace").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            resource_version,
            labels,
            owners,
            deleting: metadata.is_some_and(|m| m.get("deletionTimestamp").is_some()),
            has_finalizers: list("finalizers").is_some_and(|f| !f.is_empty()),
            bytes,
        }
    }

    /// The object as a JSON tree.
    #[must_use]
    pub fn value(&self) -> Value {
        #[cfg(debug_assertions)]
        PARSED.set(PARSED.get().wrapping_add(1));
        serde_json::from_slice(&self.bytes).expect("stored bytes were serialised from a JSON value")
    }

    /// Its key within a collection.
    #[must_use]
    pub fn key(&self, resource: &GroupResource) -> Key {
        Key {
            resource: resource.clone(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
        }
    }

    /// Whether the object is deleted and waits for its finalizers.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// The same state under another resource version.
    pub(crate) fn at_version(&self, resource_version: u64) -> Self {
        let mut value = self.value();
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), resource_version.to_string().into());
        Self::new(&value, resource_version)
    }

    /// A label's value.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == name).map(|(_, v)| &**v)
    }
}

/// The object's metadata. Set to an empty object first if it is not an object.
pub(crate) fn metadata_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let object = value.as_object_mut().expect("made an object above");
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object above")
}

/// A text field of the metadata; empty when it is missing.
pub(crate) fn metadata_text<'a>(value: &'a Value, field: &str) -> &'a str {
    value
        .get("metadata")
        .and_then(|m| m.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}
