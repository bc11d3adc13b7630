//! A handler of an extension, as its callers see it.

use std::time::Duration;

use thiserror::Error;

use crate::hooks::{ApiVersionError, ExtensionHandler, FailurePolicy, HookId, discovery};

/// What to do when there is no response: the extension cannot be reached, is too slow, or its answer is not a
/// response. A response with status `Failure` is a failure with either policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnError {
    /// The call fails.
    #[default]
    Fail,
    /// The caller continues as after a successful response.
    Ignore,
}

impl OnError {
    /// The meaning of a policy that discovery has validated. Everything but `Ignore` means `Fail`.
    #[must_use]
    pub fn of(policy: Option<&FailurePolicy>) -> Self {
        match policy {
            Some(FailurePolicy::Ignore) => Self::Ignore,
            Some(FailurePolicy::Fail | FailurePolicy::Other(_)) | None => Self::Fail,
        }
    }

    /// The policy as in discovery.
    #[must_use]
    pub fn policy(self) -> FailurePolicy {
        match self {
            Self::Fail => FailurePolicy::Fail,
            Self::Ignore => FailurePolicy::Ignore,
        }
    }
}

/// A handler of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its name in the extension, which is also the last part of its path.
    pub name: String,
    /// The handler's hook, in the extension's version.
    pub hook: HookId,
    /// The timeout of a call, in whole seconds from 1 to 30.
    pub timeout: Duration,
    /// What to do when there is no response.
    pub on_error: OnError,
}

impl Handler {
    /// The handler's name, unique among all extensions: `<handler>.<extension>`.
    #[must_use]
    pub fn full_name(&self, extension: &str) -> String {
        format!("{}.{extension}", self.name)
    }
}

impl TryFrom<&ExtensionHandler> for Handler {
    type Error = ApiVersionError;

    /// Uses the defaults for absent fields: 10 seconds and `Fail`. Other values were validated before, or are read as
    /// Cluster API reads them.
    fn try_from(handler: &ExtensionHandler) -> Result<Self, ApiVersionError> {
        Ok(Self {
            name: handler.name.clone(),
            hook: HookId::try_from(&handler.request_hook)?,
            timeout: timeout(handler.timeout_seconds),
            on_error: OnError::of(handler.failure_policy.as_ref()),
        })
    }
}

/// The timeout of a call: 10 seconds when it is absent or 0.
pub(crate) fn timeout(seconds: Option<i32>) -> Duration {
    let seconds = seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or(discovery::TIMEOUT_SECONDS_DEFAULT);
    Duration::from_secs(seconds.unsigned_abs().into())
}

/// The name of a handler is not `<handler>.<extension>`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a name of a handler such as my-handler.my-extension")]
pub struct HandlerNameError(pub String);

/// The extension in the name of a handler.
///
/// # Errors
/// When the name does not have two parts with a dot between them.
pub fn extension_of(handler: &str) -> Result<&str, HandlerNameError> {
    match handler.split_once('.') {
        Some((_, extension)) if !extension.contains('.') => Ok(extension),
        _ => Err(HandlerNameError(handler.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NAME-1, NAME-2.
    #[test]
    fn a_handlers_name_ends_with_its_extension() {
        let handler = Handler {
            name: "discover-variables".to_owned(),
            hook: HookId::new("g", "v1", "H"),
            timeout: timeout(None),
            on_error: OnError::Fail,
        };
        assert_eq!(handler.full_name("runtime1"), "discover-variables.runtime1");
        assert_eq!(extension_of("a.b"), Ok("b"));
        assert_eq!(extension_of("a.b.c"), Err(HandlerNameError("a.b.c".to_owned())));
        assert_eq!(extension_of("a"), Err(HandlerNameError("a".to_owned())));
    }

    #[test]
    fn no_seconds_are_ten() {
        assert_eq!(
            [None, Some(0), Some(7)].map(timeout),
            [10, 10, 7].map(Duration::from_secs)
        );
    }
}
