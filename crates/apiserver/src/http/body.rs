//! Request bodies.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::status::ApiError;
use crate::protobuf;
use crate::registry::ResourceType;

/// The largest request body, as in the real server: 3 MiB.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// How long a client may take to send a body, as the real server's `--request-timeout`.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many bytes of bodies all servers of the process may hold at once: 21 bodies of the largest size. An object is a
/// few kilobytes, so thousands of writers stay far below.
const BODIES_MAX: usize = 64 * 1024 * 1024;

/// One for all servers, because they share the process's memory.
static BODIES: Bodies = Bodies(Semaphore::const_new(BODIES_MAX));

/// The memory for bodies, one permit per byte.
struct Bodies(Semaphore);

/// A body and the memory permits it holds.
pub(crate) struct Read {
    pub(crate) bytes: Bytes,
    _held: Option<SemaphorePermit<'static>>,
}

/// Reads the whole body.
///
/// # Errors
/// When the body is too large, takes too long or ends early, or when other bodies use up the memory.
pub(crate) async fn read(body: Body) -> Result<Read, ApiError> {
    BODIES.read(body).await
}

impl Bodies {
    async fn read(&'static self, mut body: Body) -> Result<Read, ApiError> {
        let deadline = Instant::now() + BODY_TIMEOUT;
        let mut bytes = BytesMut::new();
        let mut held: Option<SemaphorePermit<'static>> = None;
        loop {
            let frame = timeout_at(deadline, body.frame()).await.map_err(|_| ApiError::body_timeout())?;
            let Some(frame) = frame else { return Ok(Read { bytes: bytes.freeze(), _held: held }) };
            let frame =
                frame.map_err(|error| ApiError::bad_request(format!("failed to read the body: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > BODY_MAX {
                return Err(ApiError::too_large(BODY_MAX));
            }
            // Does not wait, because the requests that hold the rest may wait for more, too.
            let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let more = self.0.try_acquire_many(count).map_err(|_| ApiError::too_many_bodies())?;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
    }
}

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
            return Err(ApiError::unsupported_media_type(
                other,
                "application/json, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    if value.is_object() { Ok(value) } else { Err(ApiError::bad_request("the body is not an object")) }
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
                    if let Some(other) = entries.values().find(|value| !value.is_string() && !value.is_null())
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};

    use super::*;

    fn bodies(bytes: usize) -> &'static Bodies {
        Box::leak(Box::new(Bodies(Semaphore::new(bytes))))
    }

    fn never_ending(start: &'static [u8]) -> Body {
        let frames = stream::iter([Ok::<_, Infallible>(Bytes::from_static(start))]).chain(stream::pending());
        Body::from_stream(frames)
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_does_not_come_is_not_waited_for_longer_than_a_minute() {
        let started = Instant::now();
        let error = bodies(100).read(never_ending(b"{")).await.map(|read| read.bytes).unwrap_err();
        assert_eq!((error.code.as_u16(), error.reason), (504, "Timeout"));
        assert_eq!(started.elapsed(), BODY_TIMEOUT);
    }

    #[tokio::test]
    async fn bodies_share_a_bounded_memory_and_give_it_back() {
        let bodies = bodies(100);
        let held = bodies.read(Body::from(vec![b' '; 60])).await.map_err(|error| error.message).unwrap();
        assert_eq!(held.bytes.len(), 60);
        let refused = bodies.read(Body::from(vec![b' '; 60])).await.map(|read| read.bytes).unwrap_err();
        assert_eq!((refused.code.as_u16(), refused.reason), (429, "TooManyRequests"));
        drop(held);
        assert!(bodies.read(Body::from(vec![b' '; 60])).await.is_ok());
        assert_eq!(bodies.0.available_permits(), 100);
    }
}
