//! Leaf certificates.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use thiserror::Error;

/// What a leaf certificate shall say.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    /// Subject common name.
    pub common_name: String,
    /// Subject organization (Kubernetes: the user's group).
    pub organization: Option<String>,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ip_addresses: Vec<IpAddr>,
    /// Whether the leaf may identify a server.
    pub server_auth: bool,
    /// Whether the leaf may identify a client.
    pub client_auth: bool,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// What the key and the serial are derived from. Requests that may differ in what they say but are meant to be
    /// one certificate share it; two certificates of one authority must not.
    pub identity: String,
}

/// A certificate with its private key.
#[derive(Clone)]
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
        pem("CERTIFICATE", &self.certificate_der)
    }

    /// The private key, PKCS#8 PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key_der)
    }
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf").field("certificate_der", &self.certificate_der.len()).finish_non_exhaustive()
    }
}

/// Why a leaf could not be issued.
#[derive(Debug, Error)]
pub enum IssueError {
    /// A DNS name is not ASCII.
    #[error("failed to put {name:?} into a certificate: not a DNS name")]
    DnsName {
        /// The name as requested.
        name: String,
        /// What rcgen says.
        #[source]
        source: rcgen::Error,
    },
    /// A time lies outside of what a certificate can say.
    #[error("failed to put {0} into a certificate: outside the years 0000 to 9999")]
    Validity(Timestamp),
    /// The signature could not be made.
    #[error("failed to sign the certificate")]
    Sign(#[source] rcgen::Error),
}

/// RFC 7468 textual encoding, 64 characters a line.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let body = BASE64.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
