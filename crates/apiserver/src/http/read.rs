//! Getting and listing.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::Shape;
use super::query::Options;
use super::request::RequestInfo;
use super::status::{ApiError, bytes_response, json_response};
use crate::registry::ResourceType;
use crate::store::{GroupResource, Key, Object, Store};
use crate::table;

/// The collection a request is about, with its kind, if it is served in the asked version.
pub(crate) fn served(store: &Store, info: &RequestInfo) -> Result<Arc<ResourceType>, ApiError> {
    let resource = GroupResource::new(&info.group, &info.resource);
    store
        .resource_type(&resource)
        .filter(|kind| kind.versions.contains(&info.version))
        .ok_or_else(ApiError::unknown_path)
}

pub(crate) fn key(info: &RequestInfo) -> Key {
    Key::new(&info.group, &info.resource, &info.namespace, &info.name)
}

pub(crate) fn find(store: &Store, info: &RequestInfo) -> Result<Arc<Object>, ApiError> {
    let key = key(info);
    store.get(&key).ok_or_else(|| {
        crate::store::StoreError::NotFound { resource: key.resource.clone(), name: key.name.clone() }.into()
    })
}

/// The bytes of an object in the asked version. Versions differ by name only: there is no conversion yet.
pub(crate) fn in_version(kind: &ResourceType, version: &str, object: &Object) -> Bytes {
    if kind.versions.len() < 2 {
        return object.bytes.clone();
    }
    let mut value = object.value();
    value["apiVersion"] = kind.api_version(version).into();
    Bytes::from(serde_json::to_vec(&value).expect("a JSON value always serialises"))
}

pub(crate) fn metadata_only(object: &Object) -> Value {
    let metadata = object.value().get("metadata").cloned().unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// One object as an answer.
pub(crate) fn object_response(
    code: StatusCode,
    kind: &ResourceType,
    info: &RequestInfo,
    options: &Options,
    shape: Shape,
    object: &Object,
    now: Timestamp,
) -> Response<Body> {
    match shape {
        Shape::Object => bytes_response(code, in_version(kind, &info.version, object)),
        Shape::Metadata => json_response(code, &metadata_only(object)),
        Shape::Table => {
            let value = object.value();
            let version = object.resource_version.to_string();
            let include = table::IncludeObject::parse(options.include_object.as_deref());
            json_response(
                code,
                &table::render(kind, &[value], &json!({"resourceVersion": version}), include, now),
            )
        }
    }
}

pub(crate) fn get(
    store: &Store,
    info: &RequestInfo,
    options: &Options,
    shape: Shape,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let kind = served(store, info)?;
    let object = find(store, info)?;
    Ok(object_response(StatusCode::OK, &kind, info, options, shape, &object, now))
}

pub(crate) fn list(
    store: &Store,
    info: &RequestInfo,
    options: &Options,
    shape: Shape,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let kind = served(store, info)?;
    let page = select(store, &kind, info, options)?;
    let mut metadata = json!({"resourceVersion": page.resource_version.to_string()});
    if let Some(token) = page.continue_token {
        metadata["continue"] = token.into();
        if options.labels.is_everything() && options.fields.is_everything() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    Ok(match shape {
        Shape::Object => {
            let items: Vec<_> =
                page.objects.iter().map(|object| in_version(&kind, &info.version, object)).collect();
            bytes_response(StatusCode::OK, list_bytes(&kind, &info.version, &metadata, &items))
        }
        Shape::Metadata => {
            let items: Vec<_> = page.objects.iter().map(|object| metadata_only(object)).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                              "metadata": metadata, "items": items});
            json_response(StatusCode::OK, &list)
        }
        Shape::Table => {
            let items: Vec<_> = page.objects.iter().map(|object| object.value()).collect();
            let include = table::IncludeObject::parse(options.include_object.as_deref());
            json_response(StatusCode::OK, &table::render(&kind, &items, &metadata, include, now))
        }
    })
}

/// A list out of serialised items, without parsing them.
pub(crate) fn list_bytes(kind: &ResourceType, version: &str, metadata: &Value, items: &[Bytes]) -> Bytes {
    let head = json!({"kind": kind.list_kind, "apiVersion": kind.api_version(version), "metadata": metadata});
    let head = serde_json::to_vec(&head).expect("a JSON value always serialises");
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

/// One page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) resource_version: u64,
    continue_token: Option<String>,
    remaining: usize,
}

/// The objects a list request asks for.
pub(crate) fn select(
    store: &Store,
    kind: &ResourceType,
    info: &RequestInfo,
    options: &Options,
) -> Result<Page, ApiError> {
    options.fields.check(&kind.group, &kind.kind, kind.custom)?;
    let resource = kind.group_resource();
    let namespace = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let listed = store.list(&resource, namespace);
    let newest = listed.resource_version;
    if options.resource_version.is_some_and(|wanted| wanted > newest) {
        let mut error = ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!(
                "Too large resource version: {}, current: {newest}",
                options.resource_version.unwrap_or(0)
            ),
        );
        error.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                               "retryAfterSeconds": 1});
        return Err(error);
    }
    let start = options.continue_token.as_deref().map(Token::parse).transpose()?;
    let version = start.as_ref().map_or(newest, |token| token.version);
    // A later page, or an exact version, is a view of the past. The past is not kept: it can be served exactly while
    // the collection has not changed since, else the client starts over, as after a compaction.
    let past =
        start.as_ref().map(|token| token.version).or(options.resource_version.filter(|_| options.exact));
    if let Some(past) = past
        && !store.changes_since(past, &resource)?.is_empty()
    {
        return Err(ApiError::new(
            StatusCode::GONE,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.",
        ));
    }
    let place = |object: &Object| (object.namespace.to_string(), object.name.to_string());
    let mut objects = listed.objects;
    objects.retain(|object| {
        start.as_ref().is_none_or(|token| place(object) > token.after)
            && options.labels.matches(object)
            && options.fields.matches(object)
    });
    let limit = options.limit.unwrap_or(usize::MAX);
    let remaining = objects.len().saturating_sub(limit);
    objects.truncate(limit);
    let continue_token = match objects.last() {
        Some(last) if remaining > 0 => Some(Token { version, after: place(last) }.render()),
        _ => None,
    };
    Ok(Page { objects, resource_version: version, continue_token, remaining })
}

/// Where the next page begins.
struct Token {
    version: u64,
    after: (String, String),
}

impl Token {
    fn render(&self) -> String {
        let value = json!([self.version, self.after.0, self.after.1]);
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn parse(token: &str) -> Result<Self, ApiError> {
        let parsed = URL_SAFE_NO_PAD
            .decode(token)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<(u64, String, String)>(&bytes).ok());
        let (version, namespace, name) =
            parsed.ok_or_else(|| ApiError::bad_request("continue key is not valid"))?;
        Ok(Self { version, after: (namespace, name) })
    }
}
