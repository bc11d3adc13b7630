//! Leaf certificates.

use std::{fmt, net::IpAddr};

use jiff::Timestamp;
use thiserror::Error;

use crate::pem;

/// The content of a leaf certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafRequest {
    pub common_name: String,
    /// Subject organizations (Kubernetes: the user's groups).
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    /// Whether the leaf may identify a server.
    pub server_auth: bool,
    /// Whether the leaf may identify a client.
    pub client_auth: bool,
    /// Start of validity; whole seconds.
    pub not_before: Timestamp,
    /// End of validity; whole seconds.
    pub not_after: Timestamp,
    /// The input from which the key is derived. A renewed leaf keeps its identity and so its key. Two different leaves
    /// of one authority must not have the same identity.
    pub identity: String,
}

/// A certificate with its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Leaf {
    pub(crate) certificate_der: Vec<u8>,
    pub(crate) key_der: Vec<u8>,
}

impl Leaf {
    /// The certificate, DER.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate_der
    }

    /// The private key, PKCS#8 DER.
    #[must_use]
    pub fn key_der(&self) -> &[u8] {
        &self.key_der
    }

    /// The certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem::certificate_pem(&self.certificate_der)
    }

    /// The private key, PKCS#8 PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.key_der)
    }
}

impl fmt::Debug for Leaf {
    /// Shows the length of the certificate, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf")
            .field("certificate_len", &self.certificate_der.len())
            .finish_non_exhaustive()
    }
}

/// Why a leaf could not be issued.
#[derive(Debug, Error)]
pub enum IssueError {
    /// A DNS name is not ASCII.
    #[error("failed to put {name:?} into a certificate: not a DNS name")]
    DnsName {
        name: String,
        #[source]
        source: rcgen::Error,
    },
    /// A time that a certificate cannot express.
    #[error("failed to put {0} into a certificate: outside the years 0000 to 9999")]
    Validity(Timestamp),
    /// The certificate could not be written or signed.
    #[error("failed to sign the certificate")]
    Sign(#[source] rcgen::Error),
}

impl IssueError {
    /// A short name from a fixed set, for metrics and condition reasons.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::DnsName { .. } => "InvalidDnsName",
            Self::Validity(_) => "InvalidValidity",
            Self::Sign(_) => "SignFailed",
        }
    }
}
