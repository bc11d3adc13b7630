//! Why a call has failed.

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

/// The longest message of an extension that is passed on, in bytes. Messages get into conditions, which have room for
/// 32 KiB each.
pub(crate) const MESSAGE_MAX: usize = 4096;

/// Why a call of a handler has failed. With its causes (see [`chain`](super::chain)) it names the handler and what
/// happened, and reads the same as long as the same happens.
#[derive(Debug, Error)]
#[error("failed to call extension handler {handler:?}")]
pub struct CallError {
    /// The full name of the handler.
    pub handler: String,
    /// The cause.
    #[source]
    pub cause: CallCause,
}

/// Why a call has failed.
#[derive(Debug, Error)]
pub enum CallCause {
    /// The handler is not registered.
    #[error(transparent)]
    Registry(RegistryError),
    /// The handler answers another hook.
    #[error("it does not answer {0}")]
    OtherHook(String),
    /// The namespace of the object cannot be read.
    #[error("failed to match the namespace")]
    Namespace(#[source] NamespaceError),
    /// The extension is not called for the object's namespace.
    #[error("its namespace selector does not match {0}")]
    NotSelected(String),
    /// The hook is not in the catalog, or the request or response cannot be converted.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The hook's path is none.
    #[error("failed to compute the URL")]
    Url(#[source] http::Error),
    /// No call can be made with the extension's CA bundle or the caller's identity.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// The call did not come about, and the handler's failure policy is `Fail`.
    #[error(transparent)]
    External(ExternalError),
    /// The extension said that it failed.
    #[error("got failure response with message: {0}")]
    Failure(String),
    /// The extension said something else than that it failed or not.
    #[error("got unknown response status {status:?} with message: {message}")]
    UnknownStatus {
        /// The status.
        status: String,
        /// The message.
        message: String,
    },
}

/// Why a call did not come about. These are the errors that a handler's failure policy is about.
#[derive(Debug, Error)]
pub enum ExternalError {
    /// The extension is left alone for a while.
    #[error("it is left alone since calls of its extension keep failing: {0}")]
    Circuit(String),
    /// The time for all handlers of the hook is over.
    #[error("the time for all handlers, {}s, is over", .0.as_secs_f64())]
    Total(Duration),
    /// No answer came in time.
    #[error("no answer came in {}s", .0.as_secs_f64())]
    Timeout(Duration),
    /// No answer came.
    #[error("http call failed")]
    Transport(#[source] TransportError),
    /// An answer came that is not of the hook.
    #[error("http call failed: got response with status code {code} != 200: {body:?}")]
    Status {
        /// The status of HTTP.
        code: u16,
        /// The beginning of the body.
        body: String,
    },
    /// The answer is no response of the hook.
    #[error("http call failed")]
    Decode(#[source] CatalogError),
}

impl ExternalError {
    /// A word for it, out of few.
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

    /// Whether the extension is to be left alone when there are more of these: not when it answers, be it nonsense.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Transport(_) => true,
            Self::Status { code, .. } => *code >= 500,
            Self::Circuit(_) | Self::Total(_) | Self::Decode(_) => false,
        }
    }
}

impl CallError {
    /// A word for it, out of few.
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

/// Why the handlers of a hook were not all called, or not all went well.
#[derive(Debug, Error)]
#[error("failed to call extension handlers for hook {hook:?}")]
pub struct CallAllError {
    /// The hook, as `<hook>.<group>`.
    pub hook: String,
    /// The cause.
    #[source]
    pub cause: CallAllCause,
}

/// Why the handlers of a hook were not all called, or not all went well.
#[derive(Debug, Error)]
pub enum CallAllCause {
    /// The hook is not in the catalog.
    #[error(transparent)]
    Catalog(CatalogError),
    /// There are no handlers to be found.
    #[error(transparent)]
    Registry(RegistryError),
    /// The namespace of the object cannot be read.
    #[error("failed to match the namespace")]
    Namespace(#[source] NamespaceError),
    /// A handler failed: the first one, in order of their names.
    #[error(transparent)]
    Call(CallError),
}

impl CallAllError {
    /// A word for it, out of few.
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

/// Why it is not known what an extension offers.
#[derive(Debug, Error)]
#[error("failed to discover extension {extension:?}")]
pub struct DiscoverError {
    /// The extension.
    pub extension: String,
    /// The cause.
    #[source]
    pub cause: DiscoverCause,
}

/// Why it is not known what an extension offers.
#[derive(Debug, Error)]
pub enum DiscoverCause {
    /// There is no address.
    #[error("failed to compute the URL")]
    Endpoint(#[source] EndpointError),
    /// The catalog has no discovery.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The path is none.
    #[error("failed to compute the URL")]
    Url(#[source] http::Error),
    /// No call can be made with the CA bundle or the caller's identity.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// The call did not come about.
    #[error(transparent)]
    External(ExternalError),
    /// The extension said that it failed.
    #[error("got failure response with message: {0}")]
    Failure(String),
    /// The extension said something else than that it failed or not.
    #[error("got unknown response status {status:?} with message: {message}")]
    UnknownStatus {
        /// The status.
        status: String,
        /// The message.
        message: String,
    },
    /// What it says that it offers is not valid.
    #[error(transparent)]
    Invalid(InvalidDiscovery),
}

impl DiscoverError {
    /// A word for it, out of few.
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
