//! A call, its answer, and what sends the one and receives the other.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
use tokio::time::Instant;

use super::error::TransportError;

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

/// Sends calls to extensions. Implemented by [`Https`](super::Https); a test or an extension in this process can have its own.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call and waits for the answer, until the deadline.
    fn send(&self, call: Outgoing) -> BoxFuture<'_, Result<Incoming, TransportError>>;
}
