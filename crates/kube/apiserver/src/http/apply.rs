//! Server-side apply over HTTP: `PATCH` with an object (`apiserver/pkg/endpoints/handlers/patch.go`).

use std::collections::BTreeMap;

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    apply_body,
    convert::{inward, outward_value},
    field_manager,
    status::ApiError,
    write::{Write, complete, complete_new},
};
use crate::{
    apply::{self, Application, ApplyError, Conflicts, Managers, Versions},
    store::{MANAGED_FIELDS, Part, StoreError, managed_fields, metadata_mut, metadata_text},
};

impl Write<'_> {
    /// Applies an object. Creates it if it does not exist.
    pub(crate) fn apply(&self, part: Part) -> Result<Response<Body>, ApiError> {
        let config = Value::Object(apply_body::read(self.body)?);
        self.check_config(&config)?;
        let kind = self.kind();
        let manager = field_manager::name(self.options, self.headers);
        let api_versions = kind
            .versions
            .iter()
            .map(|version| (kind.api_version(version), version));
        let schemas: BTreeMap<_, _> = api_versions
            .map(|(api_version, version)| (api_version, self.store.schema(kind, version)))
            .collect();
        let schema = &schemas[&self.api_version];
        let owned = self.only(part, &config);
        let application = Application {
            config: &owned,
            writer: self.writer(&manager),
            force: self.options.force.unwrap_or(false),
        };
        let edit = |current: Option<Value>| {
            let exists = current.is_some();
            match &current {
                Some(current) => self.check_patched(part, current, &config)?,
                None => self.check_absent(&config)?,
            }
            let mut managers = Managers::of(current.as_ref().and_then(managed_fields));
            managers.retain_versions(&kind.api_versions());
            let mut live = current.map_or_else(
                || json!({}),
                |current| outward_value(kind, &self.info.version, current),
            );
            let status = live.get("status").cloned();
            metadata_mut(&mut live).remove(MANAGED_FIELDS);
            let versions = Versions {
                kind: &kind.kind,
                conversion: kind.conversion,
                schemas: &schemas,
                live: &live,
                api_version: &self.api_version,
            };
            let of_version = versions.inward(&managers);
            let only = self.only(part, &live);
            let done = apply::apply(schema.root(), &only, of_version.clone(), application, self.now)?;
            let after = versions.outward(&managers, &of_version, done.managers);
            let mut object = done.object;
            // What belongs to the other part is as it was, and as it was sent for a new object: some kinds keep it.
            if !exists && let Some(status) = config.get("status") {
                object["status"] = status.clone();
            } else if part == Part::Main
                && let Some(status) = status
            {
                object["status"] = status;
            }
            self.check_type(&mut object)?;
            self.check_place(&object)?;
            let mut object = inward(kind, object)?;
            if exists {
                complete(kind, &mut object);
            } else {
                complete_new(kind, &mut object);
            }
            if let Some(managers) = after.write() {
                metadata_mut(&mut object).insert(MANAGED_FIELDS.to_owned(), managers);
            }
            Ok::<_, ApiError>(object)
        };
        let (object, created) = self
            .store
            .apply(self.now, &self.key, part, self.options.dry_run, edit)?;
        Ok(self.respond(
            if created {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            },
            &object,
        ))
    }

    /// Checks what the body says about itself.
    fn check_config(&self, config: &Value) -> Result<(), ApiError> {
        let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        let kind = text("kind");
        if (api_version, kind) != (self.api_version.as_str(), self.kind().kind.as_str()) {
            // In Go's format of a kind, the core group is empty and still followed by a slash.
            let slash = if api_version.contains('/') { "" } else { "/" };
            let message = format!("invalid object type: {slash}{api_version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
        if managed_fields(config).is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        self.check_type(&mut config.clone())
    }

    /// Checks that a body fits an object that does not exist.
    fn check_absent(&self, config: &Value) -> Result<(), ApiError> {
        let uid = metadata_text(config, "uid");
        if uid.is_empty() {
            return Ok(());
        }
        let message = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let resource = self.key.resource.clone();
        let name = self.key.name.clone();
        Err(StoreError::Conflict {
            resource,
            name,
            message,
        }
        .into())
    }

    /// What a request may change and own: without the status, or of the rest only what names the object
    /// (`GetResetFields` of a kind's strategies).
    fn only(&self, part: Part, object: &Value) -> Value {
        let mut object = object.clone();
        let Some(fields) = object.as_object_mut() else {
            return object;
        };
        match part {
            Part::Whole => {}
            Part::Main => {
                if self.kind().status {
                    fields.remove("status");
                }
            }
            Part::Status => {
                fields
                    .retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace"));
                }
            }
        }
        object
    }
}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Conflicts(conflicts) => conflict(&conflicts),
            ApplyError::List(source) => {
                let message = format!("failed to create typed patch object: {source}");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            }
        }
    }
}

fn conflict(conflicts: &Conflicts) -> ApiError {
    let cause = |manager: &str, path: String| {
        let message = format!("conflict with {manager}");
        json!({"reason": "FieldManagerConflict", "message": message, "field": path})
    };
    let listed = conflicts.listed().into_iter();
    let causes: Vec<_> = listed
        .flat_map(|(manager, paths)| paths.into_iter().map(move |path| cause(manager, path)))
        .collect();
    let details = json!({ "causes": causes });
    ApiError {
        details,
        ..ApiError::new(StatusCode::CONFLICT, "Conflict", conflicts.to_string())
    }
}
