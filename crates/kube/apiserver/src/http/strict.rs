//! The query parameter `fieldValidation`: whether fields that a kind does not have are refused, told in warnings, or passed
//! over (`apiserver/pkg/endpoints/handlers`). `kubectl` asks for the first, so that a misspelled field of a
//! manifest is an error.

use axum::body::Body;
use http::{HeaderValue, Response, header};
use serde_json::Value;

use super::{query::Options, status::ApiError};
use crate::{
    apply::KindSchema,
    protobuf::unknown_fields,
    registry::ResourceType,
    store::{Fault, Store, StoreError},
};

/// The bytes of all warnings of a response together (`apiserver/pkg/endpoints/filters/warning.go`).
const WARNINGS_MAX: usize = 4 * 1024;
/// The bytes of a patch that a refusal may show.
const SHOWN_MAX: usize = 1024;

/// Warnings for the client that sent an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Warnings(Vec<String>);

/// What a kind has for fields, and what the client wants to know of others.
pub(super) struct FieldCheck<'a> {
    options: &'a Options,
    kind: &'a ResourceType,
    version: &'a str,
    /// Whether the client wants to know of them.
    is_wanted: bool,
    /// The schema of a custom kind.
    custom: Option<KindSchema>,
}

impl<'a> FieldCheck<'a> {
    /// Not to be called while the store is locked.
    pub(super) fn new(store: &Store, options: &'a Options, kind: &'a ResourceType, version: &'a str) -> Self {
        let is_wanted = options.field_validation.as_deref() != Some("Ignore");
        Self {
            options,
            kind,
            version,
            is_wanted,
            custom: (kind.custom && is_wanted).then(|| store.schema(kind, version)),
        }
    }

    /// Looks at the fields of a new object, or of one that replaces another.
    ///
    /// # Errors
    /// When its kind lacks a field, and the client wants to know.
    pub(super) fn check(&self, value: &Value) -> Result<Warnings, ApiError> {
        self.said(&self.unknown(value), |errors| {
            let kind = &self.kind.kind;
            let version = self.version;
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {errors}"
            ))
        })
    }

    /// Looks at the fields that a patch has added.
    ///
    /// # Errors
    /// When its kind lacks such a field, and the client wants to know.
    pub(super) fn check_patch(
        &self,
        patch: &[u8],
        before: impl FnOnce() -> Value,
        patched: &Value,
    ) -> Result<Warnings, ApiError> {
        let mut added = self.unknown(patched);
        if !added.is_empty() {
            let known = self.unknown(&before());
            added.retain(|field| !known.contains(field));
        }
        self.said(&added, |errors| {
            // A fault shows the beginning.
            let begin = &patch[..patch.len().min(SHOWN_MAX)];
            let patch = Value::from(String::from_utf8_lossy(begin).into_owned());
            let faults = vec![Fault::invalid("patch", &patch, &errors)];
            StoreError::Invalid {
                kind: String::new(),
                group: String::new(),
                name: String::new(),
                faults,
            }
            .into()
        })
    }

    fn unknown(&self, value: &Value) -> Vec<String> {
        let Self {
            kind,
            version,
            is_wanted,
            custom,
            ..
        } = self;
        match custom {
            _ if !is_wanted => Vec::new(),
            Some(KindSchema::Custom(schema)) => schema.unknown_fields(value),
            _ => unknown_fields(&kind.group, &kind.api_version(version), &kind.kind, value),
        }
    }

    fn said(
        &self,
        fields: &[String],
        refusal: impl FnOnce(String) -> ApiError,
    ) -> Result<Warnings, ApiError> {
        let errors: Vec<_> = fields
            .iter()
            .map(|field| format!("unknown field {field:?}"))
            .collect();
        if errors.is_empty() || self.options.field_validation.as_deref() != Some("Strict") {
            return Ok(Warnings(errors));
        }
        Err(refusal(format!("strict decoding error: {}", errors.join(", "))))
    }
}

impl Warnings {
    /// The response with these warnings, as far as they have room.
    pub(super) fn on(self, mut response: Response<Body>) -> Response<Body> {
        let mut bytes = 0;
        for warning in self.0 {
            // A quoted string of a header: `"` and `\` are escaped.
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            bytes += text.len();
            let Ok(text) = HeaderValue::from_bytes(text.as_bytes()) else {
                continue;
            };
            if bytes > WARNINGS_MAX {
                break;
            }
            response.headers_mut().append(header::WARNING, text);
        }
        response
    }
}
