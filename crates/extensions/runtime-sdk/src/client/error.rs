//! Errors of calls.

use std::time::Duration;

use thiserror::Error;

use super::{
    discovery::InvalidDiscovery,
    endpoint::EndpointError,
    namespaces::NamespaceError,
    registry::RegistryError,
    transport::{TransportError, TrustError},
};
use crate::catalog::CatalogError;

/// The longest message of an extension that is passed on, in bytes. Messages end up in conditions, which have room
/// for 32 KiB each.
pub(crate) const MESSAGE_MAX: usize = 4096;

/// Why a call of a handler failed. With its causes (see [`chain`](super::chain)) the text names the handler and the
/// reason. The same reason always has the same text.
#[derive(Debug, Error)]
#[error("failed to call extension handler {handler:?}")]
pub struct CallError {
    /// The full name of the handler.
    pub handler: String,
    #[source]
    pub cause: CallCause,
}

/// Why a call failed.
#[derive(Debug, Error)]
pub enum CallCause {
    /// The handler is not registered.
    #[error(transparent)]
    Registry(RegistryError),
    /// The handler is for another hook.
    #[error("it does not answer {0}")]
    OtherHook(String),
    /// The labels of the object's namespace cannot be read.
    #[error("failed to match the namespace")]
    Namespace(#[source] NamespaceError),
    /// The extension does not select the object's namespace.
    #[error("its namespace selector does not match {0}")]
    NotSelected(String),
    /// The hook is not in the catalog, or the request or response cannot be converted.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The hook's path is malformed.
    #[error("failed to compute the URL")]
    Url(#[source] http::Error),
    /// The extension's CA bundle or the caller's identity cannot be used.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// There was no response, and the handler's failure policy is `Fail`.
    #[error(transparent)]
    External(ExternalError),
    /// The response has the status `Failure`.
    #[error("got failure response with message: {0}")]
    Failure(String),
    /// The response has an unknown status.
    #[error("got unknown response status {status:?} with message: {message}")]
    UnknownStatus { status: String, message: String },
}

/// Why there was no response. A handler's failure policy applies to these errors.
#[derive(Debug, Error)]
pub enum ExternalError {
    /// Calls of the extension are suspended for a while.
    #[error("not called because its extension keeps failing: {0}")]
    Circuit(String),
    /// The time for all handlers of the hook is over.
    #[error("the time for all handlers, {}s, is over", .0.as_secs_f64())]
    Total(Duration),
    /// There was no answer within the timeout.
    #[error("no answer came in {}s", .0.as_secs_f64())]
    Timeout(Duration),
    /// There was no answer.
    #[error("http call failed")]
    Transport(#[source] TransportError),
    /// The HTTP status is not 200.
    #[error("http call failed: got response with status code {code} != 200: {body:?}")]
    Status {
        code: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The answer is not a response of the hook.
    #[error("http call failed")]
    Decode(#[source] CatalogError),
}

impl ExternalError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Circuit(_) => "circuit",
            Self::Total(_) => "total",
            Self::Timeout(_) => "timeout",
            Self::Transport(error) => error.category(),
            Self::Status { .. } => "status",
            Self::Decode(_) => "decode",
        }
    }

    /// Whether the error counts for the circuit breaker. Any answer shows that the extension is alive, even a
    /// nonsensical one.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Transport(_) => true,
            Self::Status { code, .. } => *code >= 500,
            Self::Circuit(_) | Self::Total(_) | Self::Decode(_) => false,
        }
    }
}

impl CallError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match &self.cause {
            CallCause::Registry(error) => error.category(),
            CallCause::OtherHook(_) => "other_hook",
            CallCause::Namespace(_) => "namespace",
            CallCause::NotSelected(_) => "not_selected",
            CallCause::Catalog(error) => error.category(),
            CallCause::Url(_) => "url",
            CallCause::Trust(_) => "trust",
            CallCause::External(error) => error.category(),
            CallCause::Failure(_) => "failure",
            CallCause::UnknownStatus { .. } => "unknown_status",
        }
    }
}

/// Why a call of all handlers failed.
#[derive(Debug, Error)]
#[error("failed to call extension handlers for hook {hook:?}")]
pub struct CallAllError {
    pub hook: String,
    #[source]
    pub cause: CallAllCause,
}

/// Why a call of all handlers failed.
#[derive(Debug, Error)]
pub enum CallAllCause {
    /// The hook is not in the catalog.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The handlers cannot be found.
    #[error(transparent)]
    Registry(RegistryError),
    /// The labels of the object's namespace cannot be read.
    #[error("failed to match the namespace")]
    Namespace(#[source] NamespaceError),
    /// A handler failed: the first one, in order of their names.
    #[error(transparent)]
    Call(CallError),
}

impl CallAllError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match &self.cause {
            CallAllCause::Catalog(error) => error.category(),
            CallAllCause::Registry(error) => error.category(),
            CallAllCause::Namespace(_) => "namespace",
            CallAllCause::Call(error) => error.category(),
        }
    }
}

/// Why discovery failed.
#[derive(Debug, Error)]
#[error("failed to discover extension {extension:?}")]
pub struct DiscoverError {
    pub extension: String,
    #[source]
    pub cause: DiscoverCause,
}

/// Why discovery failed.
#[derive(Debug, Error)]
pub enum DiscoverCause {
    /// There is no valid address.
    #[error("failed to compute the URL")]
    Endpoint(#[source] EndpointError),
    /// The discovery hook is not in the catalog.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The path is malformed.
    #[error("failed to compute the URL")]
    Url(#[source] http::Error),
    /// The CA bundle or the caller's identity cannot be used.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// There was no response.
    #[error(transparent)]
    External(ExternalError),
    /// The response has the status `Failure`.
    #[error("got failure response with message: {0}")]
    Failure(String),
    /// The response has an unknown status.
    #[error("got unknown response status {status:?} with message: {message}")]
    UnknownStatus { status: String, message: String },
    /// The response is not valid.
    #[error(transparent)]
    Invalid(InvalidDiscovery),
}

impl DiscoverError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match &self.cause {
            DiscoverCause::Endpoint(_) | DiscoverCause::Url(_) => "url",
            DiscoverCause::Catalog(error) => error.category(),
            DiscoverCause::Trust(_) => "trust",
            DiscoverCause::External(error) => error.category(),
            DiscoverCause::Failure(_) => "failure",
            DiscoverCause::UnknownStatus { .. } => "unknown_status",
            DiscoverCause::Invalid(_) => "invalid",
        }
    }
}
