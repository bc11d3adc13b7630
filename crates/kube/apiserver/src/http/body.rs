//! Request bodies.

use http::{HeaderMap, header};
use serde_json::Value;

use super::status::ApiError;
use crate::{protobuf, registry::ResourceType};

/// The media type of a request, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
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
            return Err(ApiError::unsupported_media_type(
                other,
                "application/json, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    if value.is_object() {
        Ok(value)
    } else {
        Err(ApiError::bad_request("the body is not an object"))
    }
}

/// Checks the types of the fields that the server itself reads, as decoding into Go's types would.
pub(crate) fn check_types(kind: &ResourceType, value: &Value) -> Result<(), ApiError> {
    let wrong = |path: &str, found: &Value, wanted: &str| {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal {found} into Go struct field {}.{path} of type {wanted}",
            kind.kind, kind.versions[0], kind.kind, kind.kind
        )))
    };
    let set = |field: &str| value.get(field).filter(|value| !value.is_null());
    for field in ["metadata", "spec", "status"] {
        // The schema of a custom kind decides the types of its spec and status.
        let ours = field == "metadata" || !kind.custom;
        if let Some(other) = set(field).filter(|value| ours && !value.is_object()) {
            return wrong(field, other, "object");
        }
    }
    if kind.group.is_empty() && matches!(kind.kind.as_str(), "ConfigMap" | "Secret") {
        for field in ["data", "binaryData", "stringData"] {
            match set(field) {
                None => {}
                Some(Value::Object(entries)) => {
                    if let Some(other) = entries
                        .values()
                        .find(|value| !value.is_string() && !value.is_null())
                    {
                        return wrong(field, other, "string");
                    }
                }
                Some(other) => return wrong(field, other, "map[string]string"),
            }
        }
    }
    Ok(())
}

/// Sets a field of the object field `object` of `value`. Replaces `object` first if it is not an object.
pub(crate) fn set_in(value: &mut Value, object: &str, field: &str, to: Value) {
    let Some(root) = value.as_object_mut() else { return };
    let inner = root.entry(object).or_insert(Value::Null);
    if !inner.is_object() {
        *inner = Value::Object(serde_json::Map::new());
    }
    if let Some(inner) = inner.as_object_mut() {
        inner.insert(field.to_owned(), to);
    }
}
