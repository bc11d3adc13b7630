//! Objects in the shape a client requested.

use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    convert::{outward, outward_value},
    negotiate::Shape,
    query::Options,
    status::bytes_response,
};
use crate::{registry::ResourceType, store::Object, table};

/// How one request shows objects of one kind.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) kind: Arc<ResourceType>,
    pub(crate) version: String,
    shape: Shape,
    include: table::IncludeObject,
}

impl View {
    pub(crate) fn new(kind: Arc<ResourceType>, version: &str, shape: Shape, options: &Options) -> Self {
        let include = table::IncludeObject::parse(options.include_object.as_deref());
        Self {
            kind,
            version: version.to_owned(),
            shape,
            include,
        }
    }

    /// Whether whole objects are parsed to show them. Where only the version differs from the stored one, too.
    pub(crate) fn parses(&self) -> bool {
        let is_stored = self.kind.versions.first() == Some(&self.version);
        self.shape != Shape::Object || !is_stored || self.kind.group == "events.k8s.io"
    }

    /// One object.
    pub(crate) fn object(&self, object: &Object, now: Timestamp) -> Bytes {
        match self.shape {
            Shape::Object => outward(&self.kind, &self.version, object),
            Shape::Metadata => bytes(&metadata_only(object)),
            Shape::Table => {
                let metadata = json!({"resourceVersion": object.resource_version.to_string()});
                bytes(&self.table(std::iter::once(object), &metadata, now))
            }
        }
    }

    /// One object as a response.
    pub(crate) fn response(&self, code: StatusCode, object: &Object, now: Timestamp) -> Response<Body> {
        bytes_response(code, self.object(object, now))
    }

    /// A list with `metadata`.
    pub(crate) fn list(&self, objects: &[Arc<Object>], metadata: &Value, now: Timestamp) -> Bytes {
        match self.shape {
            Shape::Object => {
                let head = json!({
                    "kind": self.kind.list_kind, "apiVersion": self.kind.api_version(&self.version),
                    "metadata": metadata,
                });
                let items: Vec<_> = objects
                    .iter()
                    .map(|object| outward(&self.kind, &self.version, object))
                    .collect();
                list_of(&bytes(&head), &items)
            }
            Shape::Metadata => {
                let head = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                                  "metadata": metadata});
                let items: Vec<_> = objects
                    .iter()
                    .map(|object| bytes(&metadata_only(object)))
                    .collect();
                list_of(&bytes(&head), &items)
            }
            Shape::Table => bytes(&self.table(objects.iter().map(|object| &**object), metadata, now)),
        }
    }

    /// The object of a bookmark.
    pub(crate) fn bookmark(&self, metadata: &Value) -> Bytes {
        bytes(&match self.shape {
            Shape::Object => json!({"kind": self.kind.kind,
                                    "apiVersion": self.kind.api_version(&self.version), "metadata": metadata}),
            Shape::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Shape::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                                   "columnDefinitions": [], "rows": []}),
        })
    }

    /// A table, whose objects are parsed one after the other.
    fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Object>,
        metadata: &Value,
        now: Timestamp,
    ) -> Value {
        let outward = |object| outward_value(&self.kind, &self.version, object);
        // The columns of a kind are those of the version that is stored.
        let is_stored = self.kind.conversion.is_some();
        let objects = objects.map(|object| {
            if is_stored {
                object.value()
            } else {
                outward(object.value())
            }
        });
        table::render(&self.kind, objects, metadata, self.include, outward, now)
    }
}

fn metadata_only(object: &Object) -> Value {
    /// The rest is skipped, not kept.
    #[derive(Deserialize)]
    struct Only {
        #[serde(default)]
        metadata: Value,
    }
    let only = serde_json::from_slice::<Only>(&object.bytes);
    let metadata = only
        .expect("stored bytes were serialised from a JSON object")
        .metadata;
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// Joins a list from its other fields and its serialised items, which are not parsed.
fn list_of(head: &[u8], items: &[Bytes]) -> Bytes {
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut out = BytesMut::with_capacity(head.len() + size + 12);
    out.put_slice(&head[..head.len() - 1]);
    out.put_slice(b",\"items\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(item);
    }
    out.put_slice(b"]}");
    out.freeze()
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("a JSON value always serialises"))
}
