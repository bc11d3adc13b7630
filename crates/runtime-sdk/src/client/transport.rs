//! How calls get to extensions.

mod https;
mod identity;
mod resolve;

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
use thiserror::Error;
use tokio::time::Instant;

pub use https::{Https, HttpsSettings, TrustError};
pub use identity::{Identity, IdentityError, IdentityFiles};

/// A call, written.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where it goes.
    pub uri: Uri,
    /// What the extension's certificate may come from, in PEM; the system's authorities when it is empty.
    pub ca_bundle: Arc<[u8]>,
    /// The request, in JSON.
    pub body: Bytes,
    /// Nobody waits for the answer after that.
    pub deadline: Instant,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The status of HTTP.
    pub code: u16,
    /// The whole body when the status is 200, or else the beginning of it.
    pub body: Bytes,
}

/// Gets calls to extensions: [`Https`], or whatever a test or a process with the extension in it puts there.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call and waits for the answer, until the deadline.
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>>;
}

/// Why nothing came back.
#[derive(Debug, Error)]
pub enum TransportError {
    /// No call can be made with this bundle or identity; no failure policy lets that pass.
    #[error("failed to set up TLS")]
    Trust(#[source] TrustError),
    /// There is no connection, so that the extension has not seen the call.
    #[error("failed to connect")]
    Connect(#[source] BoxedError),
    /// The connection ended, or something came that is not HTTP.
    #[error("failed to send the request or read the response")]
    Exchange(#[source] BoxedError),
    /// The answer is too long.
    #[error("the response is longer than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Nothing came in time.
    #[error("no answer came in time")]
    Timeout,
}

/// An error of a library.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl TransportError {
    /// A word for it, out of few.
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
