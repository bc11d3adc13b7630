//! Creates, updates, patches and deletes objects.

use std::sync::Arc;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    body::{check_types, decode, media_type, set_in},
    convert::{inward, outward_value},
    defaults,
    field_manager::{self, APPLY},
    query::Options,
    read::select,
    request::RequestInfo,
    status::{ApiError, bytes_response, json_response},
    strict::{FieldCheck, Warnings},
    view::View,
};
use crate::{
    apply::Writer,
    patch,
    registry::ResourceType,
    store::{
        DeleteOptions, Deletion, Fault, Faults, Key, Object, Part, Propagation, Store, StoreError,
        metadata_mut, metadata_text, refuse,
    },
};

/// The inputs of every write.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) info: &'a RequestInfo,
    pub(crate) options: &'a Options,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) view: View,
    /// Where the object is stored.
    pub(crate) key: Key,
    pub(crate) body: &'a Bytes,
    pub(crate) now: Timestamp,
    /// The version of the request's objects.
    pub(crate) api_version: String,
}

impl Write<'_> {
    pub(super) fn kind(&self) -> &ResourceType {
        &self.view.kind
    }

    fn field_check(&self) -> FieldCheck<'_> {
        FieldCheck::new(self.store, self.options, self.kind(), &self.info.version)
    }

    pub(super) fn respond(&self, code: StatusCode, object: &Object) -> Response<Body> {
        self.view.response(code, object, self.now)
    }

    /// Checks that a body has the kind of the path, and adds its type if it is missing.
    pub(super) fn check_type(&self, value: &mut Value) -> Result<(), ApiError> {
        let kind = self.kind();
        let api_version = kind.api_version(&self.info.version);
        check_types(kind, value)?;
        for (field, expected) in [("kind", kind.kind.as_str()), ("apiVersion", api_version.as_str())] {
            match value.get(field) {
                None | Some(Value::Null) => value[field] = expected.into(),
                Some(Value::String(given)) if given.is_empty() => value[field] = expected.into(),
                Some(Value::String(given)) if given == expected => {}
                Some(given) => {
                    return Err(ApiError::bad_request(format!(
                        "the {field} in the data ({given}) does not match the expected {field} ({expected})"
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_place(&self, value: &Value) -> Result<(), ApiError> {
        let namespace = metadata_text(value, "namespace");
        if self.kind().namespaced && !namespace.is_empty() && namespace != self.info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let name = metadata_text(value, "name");
        let expected = &self.info.name;
        if !expected.is_empty() && name != expected {
            return Err(ApiError::bad_request(if name.is_empty() {
                format!(
                    "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
                )
            } else {
                format!("the name of the object ({name}) does not match the name on the URL ({expected})")
            }));
        }
        Ok(())
    }

    /// The manager of the request.
    pub(super) fn writer<'b>(&'b self, manager: &'b str) -> Writer<'b> {
        Writer {
            manager,
            api_version: &self.api_version,
            subresource: &self.info.subresource,
        }
    }

    /// Changes the object for the client.
    pub(super) fn write(
        &self,
        part: Part,
        edit: impl FnOnce(Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Object>, ApiError> {
        let manager = field_manager::name(self.options, self.headers);
        let writer = self.writer(&manager);
        self.store
            .update_as(self.now, &self.key, part, self.options.dry_run, &writer, edit)
    }

    pub(crate) fn create(&self) -> Result<Response<Body>, ApiError> {
        field_manager::check(self.options, "CreateOptions", false)?;
        let mut value = decode(self.headers, self.body)?;
        self.check_type(&mut value)?;
        let warnings = self.field_check().check(&value)?;
        self.check_place(&value)?;
        if !metadata_text(&value, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = metadata_mut(&mut value);
        for field in ["uid", "creationTimestamp"] {
            metadata.remove(field);
        }
        let name = metadata_text(&value, "name").to_owned();
        let mut value = inward(self.kind(), value)?;
        complete_new(self.kind(), &mut value);
        Ok(warnings.on(self.store_new(name, value)?))
    }

    fn store_new(&self, name: String, value: Value) -> Result<Response<Body>, ApiError> {
        let key = Key {
            name,
            ..self.key.clone()
        };
        let manager = field_manager::name(self.options, self.headers);
        let object = self.store.create_as(
            self.now,
            &key,
            value,
            self.options.dry_run,
            &self.writer(&manager),
        )?;
        Ok(self.respond(StatusCode::CREATED, &object))
    }

    pub(crate) fn update(&self, part: Part) -> Result<Response<Body>, ApiError> {
        field_manager::check(self.options, "UpdateOptions", false)?;
        let mut value = decode(self.headers, self.body)?;
        self.check_type(&mut value)?;
        let warnings = self.field_check().check(&value)?;
        self.check_place(&value)?;
        let mut value = inward(self.kind(), value)?;
        if part == Part::Main && self.kind().create_on_update && self.store.get(&self.key).is_none() {
            return Ok(warnings.on(self.create_by_update(value)?));
        }
        complete(self.kind(), &mut value);
        self.check_condition(&value)?;
        let object = self.write(part, |current| {
            self.check_version(&current, &value)?;
            Ok(value)
        })?;
        Ok(warnings.on(self.respond(StatusCode::OK, &object)))
    }

    /// Creates the object of an update that does not exist. Its version is ignored, as upstream ignores it.
    fn create_by_update(&self, mut value: Value) -> Result<Response<Body>, ApiError> {
        let uid = metadata_text(&value, "uid");
        if !uid.is_empty() {
            let message = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
            self.conflict(message)?;
        }
        let metadata = metadata_mut(&mut value);
        for field in ["resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
        complete_new(self.kind(), &mut value);
        self.store_new(self.key.name.clone(), value)
    }

    pub(crate) fn patch(&self, part: Part) -> Result<Response<Body>, ApiError> {
        let is_apply = media_type(self.headers) == APPLY;
        field_manager::check(self.options, "PatchOptions", is_apply)?;
        if is_apply {
            return self.apply(part);
        }
        let apply = self.patcher()?;
        let fields = self.field_check();
        let mut warnings = Warnings::default();
        let object = self.write(part, |current| {
            let before = || outward_value(self.kind(), &self.info.version, current.clone());
            let mut patched = apply(before())?;
            if !patched.is_object() {
                return Err(ApiError::bad_request("the patched object is not an object"));
            }
            self.check_type(&mut patched)?;
            self.check_place(&patched)?;
            self.check_condition(&patched)?;
            self.check_patched(part, &current, &patched)?;
            warnings = fields.check_patch(self.body, before, &patched)?;
            let mut patched = inward(self.kind(), patched)?;
            complete(self.kind(), &mut patched);
            Ok(patched)
        })?;
        Ok(warnings.on(self.respond(StatusCode::OK, &object)))
    }

    /// The patch of the request as a function of the stored object. It is parsed before the store is locked.
    #[expect(clippy::type_complexity, reason = "used once, right above")]
    fn patcher(&self) -> Result<Box<dyn FnOnce(Value) -> Result<Value, ApiError> + '_>, ApiError> {
        let kind = self.kind();
        let parse = || {
            serde_json::from_slice::<Value>(self.body)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
        };
        Ok(match media_type(self.headers) {
            "application/merge-patch+json" => {
                let patch = parse()?;
                Box::new(move |mut current| {
                    patch::json_merge(&mut current, &patch);
                    Ok(current)
                })
            }
            "application/json-patch+json" => Box::new(|current| Ok(patch::json_patch(&current, self.body)?)),
            "application/strategic-merge-patch+json" if !kind.custom => {
                let patch = parse()?;
                Box::new(move |current| {
                    Ok(patch::strategic_merge(&current, &patch, &kind.group, &kind.kind)?)
                })
            }
            other => {
                let custom =
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                let built_in = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";
                return Err(ApiError::unsupported_media_type(
                    other,
                    if kind.custom { custom } else { built_in },
                ));
            }
        })
    }

    /// An update of most kinds says which version it replaces. Upstream's message has the kind's collection in place of
    /// its name.
    fn check_condition(&self, next: &Value) -> Result<(), ApiError> {
        let kind = self.kind();
        let version = metadata_text(next, "resourceVersion");
        if kind.unconditional_update || !matches!(version, "" | "0") {
            return Ok(());
        }
        let detail = "must be specified for an update";
        let faults = vec![Fault::invalid("metadata.resourceVersion", &0.into(), detail)];
        let collection = kind.plural.clone();
        let group = kind.group.clone();
        Err(StoreError::Invalid {
            kind: collection,
            group,
            name: self.key.name.clone(),
            faults,
        }
        .into())
    }

    /// The preconditions of an update: a uid or a version in the request must be the current one. Without them, any is
    /// accepted.
    pub(crate) fn check_version(&self, current: &Value, next: &Value) -> Result<(), ApiError> {
        if is_another(current, next, "uid") {
            return self.conflict(format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                metadata_text(next, "uid"),
                metadata_text(current, "uid")
            ));
        }
        self.check_resource_version(current, next)
    }

    /// The preconditions of a patch. A uid other than the current one is a change of an immutable field. In a patch of
    /// the status of a custom resource, the uid is ignored, like everything but the status. Seen with kube-apiserver
    /// 1.36.
    pub(super) fn check_patched(&self, part: Part, current: &Value, next: &Value) -> Result<(), ApiError> {
        self.check_resource_version(current, next)?;
        let kind = self.kind();
        let mut faults = Faults::default();
        if is_another(current, next, "uid") && !(kind.custom && part == Part::Status) {
            faults.push(Fault::invalid(
                "metadata.uid",
                &next["metadata"]["uid"],
                "field is immutable",
            ));
        }
        Ok(refuse(kind, current, faults)?)
    }

    fn check_resource_version(&self, current: &Value, next: &Value) -> Result<(), ApiError> {
        if is_another(current, next, "resourceVersion") {
            return self.conflict(
                "the object has been modified; please apply your changes to the latest version and try again"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn conflict(&self, message: String) -> Result<(), ApiError> {
        let Key { resource, name, .. } = self.key.clone();
        Err(StoreError::Conflict {
            resource,
            name,
            message,
        }
        .into())
    }

    pub(crate) fn delete(&self) -> Result<Response<Body>, ApiError> {
        let (options, dry_run) = self.delete_options()?;
        if dry_run {
            let object = self.store.delete_dry_run(&self.key, &options)?;
            return Ok(self.respond(StatusCode::OK, &object));
        }
        Ok(match self.store.delete(self.now, &self.key, &options)? {
            Deletion::Gone(object) => json_response(
                StatusCode::OK,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {"name": self.key.name, "group": self.kind().group, "kind": self.kind().plural,
                                "uid": &*object.uid},
                }),
            ),
            Deletion::Pending(object) => self.respond(StatusCode::OK, &object),
        })
    }

    pub(crate) fn delete_collection(&self) -> Result<Response<Body>, ApiError> {
        let (options, dry_run) = self.delete_options()?;
        let page = select(self.store, self.kind(), self.info, self.options)?;
        for object in page.objects.iter().filter(|_| !dry_run) {
            match self
                .store
                .delete(self.now, &object.key(&self.key.resource), &options)
            {
                // Another client or the garbage collection of an owner was faster.
                Err(StoreError::NotFound { .. }) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let metadata = json!({"resourceVersion": self.store.resource_version().to_string()});
        Ok(bytes_response(
            StatusCode::OK,
            self.view.list(&page.objects, &metadata, self.now),
        ))
    }

    fn delete_options(&self) -> Result<(DeleteOptions, bool), ApiError> {
        let body = if self.body.is_empty() {
            Value::Null
        } else {
            decode(self.headers, self.body)?
        };
        let policy = self
            .options
            .propagation
            .as_deref()
            .or_else(|| text(&body, "propagationPolicy"));
        let propagation = match policy {
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            None if body["orphanDependents"] == true => Propagation::Orphan,
            None | Some("Background") => Propagation::Background,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "propagationPolicy: Unsupported value: {other:?}: supported values: Background, Foreground, Orphan"
                )));
            }
        };
        let (uid, resource_version) = preconditions(&body)?;
        let dry_run = self.options.dry_run || is_dry_run(&body);
        Ok((
            DeleteOptions {
                propagation,
                uid,
                resource_version,
            },
            dry_run,
        ))
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value
        .get(field)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Whether a request sets this field of the metadata to another value than the object has.
fn is_another(current: &Value, next: &Value, field: &str) -> bool {
    let given = metadata_text(next, field);
    let is_any = given.is_empty() || field == "resourceVersion" && given == "0";
    !is_any && given != metadata_text(current, field)
}

/// The preconditions of `DeleteOptions`: uid and resource version.
pub(crate) fn preconditions(options: &Value) -> Result<(Option<String>, Option<u64>), ApiError> {
    let preconditions = &options["preconditions"];
    let version = text(preconditions, "resourceVersion")
        .map(str::parse)
        .transpose()
        .map_err(|_| {
            ApiError::bad_request(format!(
                "preconditions.resourceVersion: Invalid value: {preconditions}"
            ))
        })?;
    Ok((text(preconditions, "uid").map(str::to_owned), version))
}

pub(crate) fn is_dry_run(options: &Value) -> bool {
    options["dryRun"].as_array().is_some_and(|list| !list.is_empty())
}

/// The defaults that the real server's strategies and admission set on a new object, as far as clients rely on
/// them.
pub(super) fn complete_new(kind: &ResourceType, value: &mut Value) {
    complete(kind, value);
    // A kubelet registers its Node with a status, and volumes are created with a phase; of other kinds the status
    // starts empty.
    let keeps_status = kind.group.is_empty() && matches!(kind.kind.as_str(), "Node" | "PersistentVolume");
    if kind.status
        && !keeps_status
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    if kind.group.is_empty() && kind.kind == "Pod" {
        value.as_object_mut().into_iter().for_each(defaults::set_pod);
    }
    if kind.group.is_empty() && matches!(kind.kind.as_str(), "Pod" | "PersistentVolumeClaim") {
        set_in(value, "status", "phase", "Pending".into());
    }
}

/// The changes that every write makes to an object.
pub(super) fn complete(kind: &ResourceType, value: &mut Value) {
    let Some(object) = value.as_object_mut() else {
        return;
    };
    if !kind.custom {
        // Decoding into Go's types drops null fields; Go clients send unset times as null.
        object.values_mut().for_each(drop_nulls);
        object.retain(|_, value| !value.is_null());
        defaults::set(kind, object);
    }
    if kind.group.is_empty() && kind.kind == "Secret" {
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

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl From<patch::PatchError> for ApiError {
    fn from(error: patch::PatchError) -> Self {
        use patch::PatchError;
        let (code, reason) = match error {
            PatchError::Unsupported(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            PatchError::TooManyOperations { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            PatchError::Malformed(_) | PatchError::Directive(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            PatchError::DoesNotApply(_) | PatchError::Beyond { .. } => {
                (StatusCode::UNPROCESSABLE_ENTITY, "Invalid")
            }
        };
        let mut message = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            message = format!("{message}: {source}");
        }
        Self::new(code, reason, message)
    }
}
