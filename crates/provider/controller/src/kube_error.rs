//! Category and retry of errors of the management API.

use std::time::Duration;

use kube::core::Status;

use crate::{outcome::Retry, request_guard::UnsafeRequest};

/// How long to wait after a conflict: long enough for the watch to deliver the newer object.
pub(crate) const AFTER_CONFLICT: Duration = Duration::from_millis(200);

/// A category of an error of the management API, from a fixed set.
#[must_use]
pub fn category(error: &kube::Error) -> &'static str {
    let kube::Error::Api(status) = error else {
        return if UnsafeRequest::caused(error) {
            "unsafe_request"
        } else {
            "api_transport"
        };
    };
    match status.code {
        401 => "api_unauthorized",
        403 => "api_forbidden",
        404 => "api_not_found",
        409 => "api_conflict",
        410 => "api_expired",
        400 | 422 => "api_invalid",
        429 => "api_throttled",
        500..=599 => "api_server",
        _ => "api_other",
    }
}

/// Whether a dry run was refused because a webhook has side effects and does not say that a dry run has none. Then only the
/// request itself will tell.
#[must_use]
pub fn is_without_dry_run(status: &Status) -> bool {
    status.message.contains("does not support dry run")
}

/// When to try again after an error of the management API.
///
/// A conflict (409) is normal if the object has changed, and is retried shortly. All other errors back off, including
/// invalid and forbidden requests, because a role or a schema may be corrected without a change of the object.
#[must_use]
pub fn retry(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) if status.code == 409 => Retry::After(AFTER_CONFLICT),
        _ => Retry::BackOff,
    }
}
