//! The identity in a client certificate.

use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The user of a client certificate: common name and organizations (Kubernetes: the groups).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    pub common_name: String,
    /// Subject organizations, in the certificate's order.
    pub organizations: Vec<String>,
}

/// Why a certificate has no identity.
#[derive(Debug, Error)]
pub enum ClientIdentityError {
    /// The bytes are not a certificate.
    #[error("failed to parse client certificate")]
    NotACertificate(#[source] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// The subject has no common name.
    #[error("failed to find a common name in the client certificate's subject")]
    NoCommonName,
}

/// Reads the identity from a DER certificate. The caller has to verify the chain.
///
/// # Errors
/// When the bytes are not a certificate or its subject has no common name.
pub fn parse_client(certificate_der: &[u8]) -> Result<ClientIdentity, ClientIdentityError> {
    let (_, certificate) =
        X509Certificate::from_der(certificate_der).map_err(ClientIdentityError::NotACertificate)?;
    let subject = certificate.subject();
    let common_name = subject
        .iter_common_name()
        .find_map(|attribute| attribute.as_str().ok())
        .ok_or(ClientIdentityError::NoCommonName)?
        .to_owned();
    let organizations = subject
        .iter_organization()
        .filter_map(|attribute| attribute.as_str().ok())
        .map(str::to_owned)
        .collect();
    Ok(ClientIdentity {
        common_name,
        organizations,
    })
}
