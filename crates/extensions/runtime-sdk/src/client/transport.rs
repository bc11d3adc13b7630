//! The transport of calls to extensions.

mod https;
mod identity;
mod resolve;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
pub use https::{Https, HttpsSettings, TrustError};
pub use identity::{Identity, IdentityError, IdentityFiles};
use thiserror::Error;
use tokio::time::Instant;

/// A serialised call.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub uri: Uri,
    /// The authorities for the extension's certificate, in PEM. If empty, those of the system.
    pub ca_bundle: Arc<[u8]>,
    pub body: Bytes,
    /// The caller waits until this time.
    pub deadline: Instant,
}

/// The answer of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub code: u16,
    /// The whole body when the status is 200, otherwise its beginning.
    pub body: Bytes,
}

/// Sends calls to extensions. Implemented by [`Https`]; a test or an extension in this process can have its own.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call and waits for the answer, until the deadline.
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>>;
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The CA bundle or the caller's identity cannot be used. No failure policy ignores this.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// The connection failed, so the extension has not seen the call.
    #[error("failed to connect")]
    Connect(#[source] BoxedError),
    /// The connection ended, or the answer is not HTTP.
    #[error("failed to send the request or read the response")]
    Exchange(#[source] BoxedError),
    /// The answer is too long.
    #[error("the response is longer than {limit} bytes")]
    TooLarge { limit: usize },
    /// There was no answer in time.
    #[error("no answer came in time")]
    Timeout,
}

/// An error of a library.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl TransportError {
    /// A category from a fixed set, for metrics and logs.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Trust(_) => "trust",
            Self::Connect(_) => "connect",
            Self::Exchange(_) => "exchange",
            Self::TooLarge { .. } => "too_large",
            Self::Timeout => "timeout",
        }
    }
}
