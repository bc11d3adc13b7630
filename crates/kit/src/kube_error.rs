//! What an error of the management API means for a reconcile.

use std::time::Duration;

use crate::outcome::Retry;

/// How long to wait after a write lost against another: long enough for the watch to bring the newer object.
const AFTER_CONFLICT: Duration = Duration::from_millis(200);

/// A fixed word for an error of the management API.
#[must_use]
pub fn category(error: &kube::Error) -> &'static str {
    let kube::Error::Api(status) = error else {
        return "api_transport";
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

/// When to try again after an error of the management API.
///
/// A conflict (409) is the normal way to learn of a newer object and is retried shortly; everything else backs off,
/// also an invalid or forbidden request, because a role or a schema may be mended without the object changing.
#[must_use]
pub fn retry(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) if status.code == 409 => Retry::After(AFTER_CONFLICT),
        _ => Retry::BackOff,
    }
}
