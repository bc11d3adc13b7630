//! The textual encoding of certificates and keys (RFC 7468).

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rustls_pki_types::pem::{self, PemObject};
use thiserror::Error;

/// Why a PEM text cannot be decoded. The error quotes no part of the text: a key whose line breaks were lost is one
/// single line, and an error with that line would show the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PemError {
    /// There is no section of the expected kind.
    #[error("it has no PEM section of that kind")]
    NoSection,
    /// A section has no end line.
    #[error("a PEM section has no end line")]
    NoEnd,
    /// The first line of a section is malformed; often the line breaks were lost.
    #[error("the line that begins a PEM section is malformed")]
    MalformedStart,
    /// The content of the section is not base64.
    #[error("a PEM section holds something other than base64")]
    NotBase64,
}

/// Reads the first section of kind `T`.
pub(crate) fn decode<T: PemObject>(text: &[u8]) -> Result<T, PemError> {
    T::from_pem_slice(text).map_err(|error| match error {
        pem::Error::MissingSectionEnd { .. } => PemError::NoEnd,
        pem::Error::IllegalSectionStart { .. } => PemError::MalformedStart,
        pem::Error::Base64Decode(_) => PemError::NotBase64,
        // The enum is non-exhaustive; its other variants are about readers and sections of more than 256 MB.
        _ => PemError::NoSection,
    })
}

/// A certificate in DER, as PEM.
#[must_use]
pub fn certificate_pem(certificate_der: &[u8]) -> String {
    encode("CERTIFICATE", certificate_der)
}

/// Writes one section, with 64 characters per line.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let body = BASE64.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
