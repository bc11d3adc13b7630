//! Why there is no answer of an extension.

use rustls_pki_types::pem;
use thiserror::Error;

/// Why a CA bundle or an identity cannot be used.
#[derive(Debug, Error)]
pub enum TrustError {
    /// The bundle is not PEM.
    #[error("failed to read the CA bundle")]
    Bundle(#[source] pem::Error),
    /// A certificate of the bundle is invalid.
    #[error("failed to use a certificate of the CA bundle")]
    Certificate(#[source] rustls::Error),
    /// There is no certificate in the bundle.
    #[error("there is no certificate in the CA bundle")]
    Empty,
    /// The system has no authorities.
    #[error("failed to find certificate authorities of the system")]
    System,
    /// TLS refuses the client certificate.
    #[error("failed to use the client certificate")]
    Identity(#[source] rustls::Error),
    /// The cryptography provider supports no TLS version of this crate.
    #[error("failed to set up the versions of TLS")]
    Versions(#[source] rustls::Error),
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
