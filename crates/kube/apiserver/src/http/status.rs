//! `Status`: the body of error responses and of some others.

use axum::body::Body;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use crate::store::{Expired, Fault, StoreError, Unkept};

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
}

impl ApiError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub(crate) fn unsupported_media_type(given: &str, accepted: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format ({given}) - accepted media types include: {accepted}"
            ),
        )
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// The body of the request did not arrive in time.
    pub(crate) fn body_timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// The requests of this client, or of all, use up what there is for them.
    pub(crate) fn too_many_requests() -> Self {
        let details = json!({"retryAfterSeconds": 1});
        let message = "too many requests, please try again later";
        Self {
            details,
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        }
    }

    /// The user may not do this. For targets that are not objects of this server.
    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, message: impl Into<String>) -> Self {
        let details = json!({"name": name, "group": group, "kind": resource});
        Self {
            details,
            ..Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
        }
    }

    /// The change was refused because it cannot be kept now. The client may try again.
    pub(crate) fn not_admitted(error: &Unkept) -> Self {
        let details = json!({"retryAfterSeconds": 1});
        let message = format!("nothing can be changed for now: {error}");
        Self {
            details,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
        }
    }

    /// The change was made, but is lost if the server ends now. As with a real server whose etcd does not answer, the
    /// client cannot know.
    pub(crate) fn not_kept(error: &Unkept) -> Self {
        let message = format!("the change may be lost: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub(crate) fn value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    pub(crate) fn response(&self) -> Response<Body> {
        json_response(self.code, &self.value())
    }
}

pub(crate) fn json_response(code: StatusCode, value: &Value) -> Response<Body> {
    bytes_response(
        code,
        serde_json::to_vec(value).expect("a JSON value always serialises"),
    )
}

pub(crate) fn bytes_response(code: StatusCode, bytes: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let (code, reason, details) = match error {
            StoreError::NotFound { resource, name } => (
                StatusCode::NOT_FOUND,
                "NotFound",
                json!({"name": name, "group": resource.group, "kind": resource.resource}),
            ),
            StoreError::AlreadyExists { resource, name } => (
                StatusCode::CONFLICT,
                "AlreadyExists",
                json!({"name": name, "group": resource.group, "kind": resource.resource}),
            ),
            StoreError::Conflict { resource, name, .. } => (
                StatusCode::CONFLICT,
                "Conflict",
                json!({"name": name, "group": resource.group, "kind": resource.resource}),
            ),
            StoreError::Invalid {
                kind,
                group,
                name,
                faults,
            } => {
                let causes: Vec<_> = faults
                    .iter()
                    .map(
                        |Fault {
                             field,
                             reason,
                             message,
                         }| {
                            json!({"reason": reason, "message": message, "field": field})
                        },
                    )
                    .collect();
                (
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "Invalid",
                    json!({"name": name, "group": group, "kind": kind, "causes": causes}),
                )
            }
            StoreError::Forbidden { resource, name, .. } => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                json!({"name": name, "group": resource.group, "kind": resource.resource}),
            ),
            StoreError::TooLarge { .. } => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                Value::Null,
            ),
            // As the real server says it (`apiserver/pkg/storage/errors/storage.go`): an error that it does not know.
            StoreError::NoSpace => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", Value::Null),
            StoreError::UnknownResource => (StatusCode::NOT_FOUND, "NotFound", json!({})),
            StoreError::NamespaceTerminating {
                resource,
                name,
                namespace,
            } => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                json!({"name": name, "group": resource.group, "kind": resource.resource,
                       "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace",
                                   "message": format!("namespace {namespace} is being terminated")}]}),
            ),
        };
        Self {
            code,
            reason,
            message,
            details,
        }
    }
}

impl From<Expired> for ApiError {
    fn from(error: Expired) -> Self {
        Self::new(StatusCode::GONE, "Expired", error.to_string())
    }
}
