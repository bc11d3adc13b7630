//! Creating, updating, patching and deleting.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::Shape;
use super::query::Options;
use super::read::{key, list_bytes, object_response, select, served};
use super::request::RequestInfo;
use super::status::{ApiError, bytes_response, json_response};
use crate::registry::ResourceType;
use crate::store::{
    DeleteOptions, Deletion, Key, Object, Part, Propagation, Store, metadata_mut, metadata_text,
};
use crate::{patch, protobuf};

/// The media type of a request, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// A request body as a JSON object, whether it came as JSON or as protobuf.
pub(crate) fn decode(headers: &HeaderMap, body: &[u8]) -> Result<Value, ApiError> {
    let value = match media_type(headers) {
        "application/vnd.kubernetes.protobuf" => protobuf::decode(body)
            .map_err(|error| ApiError::bad_request(format!("couldn't decode protobuf body: {error}")))?,
        "" | "application/json" | "*/*" => serde_json::from_slice(body)
            .map_err(|error| ApiError::bad_request(format!("couldn't decode JSON body: {error}")))?,
        other => {
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/vnd.kubernetes.protobuf, got {other}"
            )));
        }
    };
    if value.is_object() { Ok(value) } else { Err(ApiError::bad_request("the body is not an object")) }
}

/// What every write needs.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) info: &'a RequestInfo,
    pub(crate) options: &'a Options,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) shape: Shape,
    pub(crate) body: &'a Bytes,
    pub(crate) now: Timestamp,
}

impl Write<'_> {
    fn respond(&self, code: StatusCode, kind: &ResourceType, object: &Object) -> Response<Body> {
        object_response(code, kind, self.info, self.options, self.shape, object, self.now)
    }

    /// Checks that a body is of the kind that the path says, and gives it the type that it may lack.
    fn check_type(&self, kind: &ResourceType, value: &mut Value) -> Result<(), ApiError> {
        let api_version = kind.api_version(&self.info.version);
        for (field, expected) in [("kind", kind.kind.as_str()), ("apiVersion", api_version.as_str())] {
            match value.get(field).and_then(Value::as_str).unwrap_or_default() {
                "" => value[field] = expected.into(),
                given if given == expected => {}
                given => {
                    return Err(ApiError::bad_request(format!(
                        "the {field} of the provided object ({given}) does not match the expected {field} ({expected})"
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_place(&self, value: &Value) -> Result<(), ApiError> {
        for (field, expected) in [("namespace", &self.info.namespace), ("name", &self.info.name)] {
            let given = metadata_text(value, field);
            if !given.is_empty() && !expected.is_empty() && given != expected {
                return Err(ApiError::bad_request(format!(
                    "the {field} of the provided object does not match the {field} sent on the request"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn create(&self) -> Result<Response<Body>, ApiError> {
        let kind = served(self.store, self.info)?;
        let mut value = decode(self.headers, self.body)?;
        self.check_type(&kind, &mut value)?;
        self.check_place(&value)?;
        if kind.namespaced && self.info.namespace.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        if !metadata_text(&value, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let metadata = metadata_mut(&mut value);
        for field in ["uid", "creationTimestamp"] {
            metadata.remove(field);
        }
        complete_new(&kind, &mut value);
        let key = Key { name: metadata_text(&value, "name").to_owned(), ..key(self.info) };
        let object = if self.options.dry_run {
            self.store.create_dry_run(self.now, &key, value)?
        } else {
            self.store.create(self.now, &key, value)?
        };
        Ok(self.respond(StatusCode::CREATED, &kind, &object))
    }

    pub(crate) fn update(&self, part: Part) -> Result<Response<Body>, ApiError> {
        let kind = served(self.store, self.info)?;
        let mut value = decode(self.headers, self.body)?;
        self.check_type(&kind, &mut value)?;
        self.check_place(&value)?;
        complete(&kind, &mut value);
        let object = self.store.update(self.now, &key(self.info), part, self.options.dry_run, |current| {
            self.check_version(&current, &value)?;
            Ok::<_, ApiError>(value)
        })?;
        Ok(self.respond(StatusCode::OK, &kind, &object))
    }

    pub(crate) fn patch(&self, part: Part) -> Result<Response<Body>, ApiError> {
        let kind = served(self.store, self.info)?;
        let media_type = media_type(self.headers);
        let parse = || {
            serde_json::from_slice::<Value>(self.body)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
        };
        let object = self.store.update(self.now, &key(self.info), part, self.options.dry_run, |current| {
            let mut patched = match media_type {
                "application/merge-patch+json" => {
                    let mut patched = current.clone();
                    patch::json_merge(&mut patched, &parse()?);
                    patched
                }
                "application/json-patch+json" => patch::json_patch(&current, self.body)?,
                "application/strategic-merge-patch+json" if kind.custom => {
                    return Err(ApiError::unsupported_media_type(
                        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json",
                    ));
                }
                "application/strategic-merge-patch+json" => {
                    patch::strategic_merge(&current, &parse()?, &kind.group, &kind.kind)?
                }
                other => {
                    return Err(ApiError::unsupported_media_type(format!(
                        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, got {other}"
                    )));
                }
            };
            if !patched.is_object() {
                return Err(ApiError::bad_request("the patched object is not an object"));
            }
            self.check_type(&kind, &mut patched)?;
            self.check_place(&patched)?;
            self.check_version(&current, &patched)?;
            complete(&kind, &mut patched);
            Ok(patched)
        })?;
        Ok(self.respond(StatusCode::OK, &kind, &object))
    }

    /// Optimistic locking: a version that is sent must be the current one; none sent means any.
    fn check_version(&self, current: &Value, next: &Value) -> Result<(), ApiError> {
        let conflict = |message: &str| {
            Err(crate::store::StoreError::Conflict {
                resource: key(self.info).resource,
                name: self.info.name.clone(),
                message: message.to_owned(),
            }
            .into())
        };
        let differs = |field| {
            let given = metadata_text(next, field);
            !given.is_empty() && given != metadata_text(current, field)
        };
        if differs("uid") {
            return conflict("Precondition failed: UID in precondition and in object meta differ");
        }
        if differs("resourceVersion") {
            return conflict(
                "the object has been modified; please apply your changes to the latest version and try again",
            );
        }
        Ok(())
    }

    pub(crate) fn delete(&self) -> Result<Response<Body>, ApiError> {
        let kind = served(self.store, self.info)?;
        let (options, dry_run) = self.delete_options()?;
        let key = key(self.info);
        if dry_run {
            let object = self.store.delete_dry_run(&key, &options)?;
            return Ok(self.respond(StatusCode::OK, &kind, &object));
        }
        Ok(match self.store.delete(self.now, &key, &options)? {
            Deletion::Gone(object) => json_response(
                StatusCode::OK,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {"name": key.name, "group": kind.group, "kind": kind.plural, "uid": &*object.uid},
                }),
            ),
            Deletion::Pending(object) => self.respond(StatusCode::OK, &kind, &object),
        })
    }

    pub(crate) fn delete_collection(&self) -> Result<Response<Body>, ApiError> {
        let kind = served(self.store, self.info)?;
        let (options, dry_run) = self.delete_options()?;
        let page = select(self.store, &kind, self.info, self.options)?;
        let mut items = Vec::new();
        for object in page.objects {
            let key = Key {
                namespace: object.namespace.to_string(),
                name: object.name.to_string(),
                ..key(self.info)
            };
            if !dry_run {
                match self.store.delete(self.now, &key, &options) {
                    // Another client or the garbage collection of an owner was faster.
                    Err(crate::store::StoreError::NotFound { .. }) | Ok(_) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            items.push(object.bytes.clone());
        }
        let metadata = json!({"resourceVersion": self.store.resource_version().to_string()});
        Ok(bytes_response(StatusCode::OK, list_bytes(&kind, &self.info.version, &metadata, &items)))
    }

    fn delete_options(&self) -> Result<(DeleteOptions, bool), ApiError> {
        let body = if self.body.is_empty() { Value::Null } else { decode(self.headers, self.body)? };
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let policy = self.options.propagation.clone().or_else(|| text(&body["propagationPolicy"]));
        let orphan = body["orphanDependents"].as_bool() == Some(true);
        let propagation = match policy.as_deref() {
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            None if orphan => Propagation::Orphan,
            None | Some("Background") => Propagation::Background,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "propagationPolicy: Unsupported value: {other:?}: supported values: Background, Foreground, Orphan"
                )));
            }
        };
        let resource_version = match text(&body["preconditions"]["resourceVersion"]) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                ApiError::bad_request(format!("preconditions.resourceVersion: Invalid value: {text:?}"))
            })?),
        };
        let dry_run = self.options.dry_run || body["dryRun"].as_array().is_some_and(|list| !list.is_empty());
        Ok((
            DeleteOptions { propagation, uid: text(&body["preconditions"]["uid"]), resource_version },
            dry_run,
        ))
    }
}

/// What the real server's strategies and admission do to a new object, as far as clients rely on it.
fn complete_new(kind: &ResourceType, value: &mut Value) {
    complete(kind, value);
    // A kubelet registers its Node with a status, and volumes are made with a phase; elsewhere status starts empty.
    let keeps_status = matches!(kind.kind.as_str(), "Node" | "PersistentVolume");
    if kind.status
        && !keeps_status
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    if kind.group.is_empty() && kind.kind == "Pod" {
        value["status"] = json!({"phase": "Pending"});
    }
}

/// What is done to an object on every write.
fn complete(kind: &ResourceType, value: &mut Value) {
    if kind.group.is_empty() && kind.kind == "Secret" {
        let Some(object) = value.as_object_mut() else { return };
        object.entry("type").or_insert_with(|| "Opaque".into());
        // `stringData` is a write-only convenience for `data`.
        if let Some(Value::Object(texts)) = object.remove("stringData") {
            let data = object.entry("data").or_insert_with(|| json!({}));
            if let Some(data) = data.as_object_mut() {
                for (name, text) in texts {
                    data.insert(name, BASE64.encode(text.as_str().unwrap_or_default()).into());
                }
            }
        }
    }
}

impl From<patch::PatchError> for ApiError {
    fn from(error: patch::PatchError) -> Self {
        let code =
            if error.is_malformed() { StatusCode::BAD_REQUEST } else { StatusCode::UNPROCESSABLE_ENTITY };
        let reason = if error.is_malformed() { "BadRequest" } else { "Invalid" };
        Self::new(code, reason, error.to_string())
    }
}
