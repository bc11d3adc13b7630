//! The caller's client certificate.

use std::{fmt, sync::Arc};

use nephele_watched_files::ReadError;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _};
use thiserror::Error;

/// A certificate with its key, shown to extensions that ask for one.
#[derive(Clone)]
pub struct Identity {
    pub(super) inner: Arc<Pair>,
}

pub(super) struct Pair {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The certificate cannot be read.
    #[error("failed to read the client certificate")]
    Certificate(#[source] pem::Error),
    /// There is no certificate.
    #[error("there is no client certificate")]
    NoCertificate,
    /// The key cannot be read.
    #[error("failed to read the key of the client certificate")]
    Key(#[source] pem::Error),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] ReadError),
}

impl Identity {
    /// An identity from a certificate or a certificate chain, and the key.
    ///
    /// # Errors
    /// When the certificate or the key is missing or malformed.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let certificates = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(IdentityError::Certificate)?;
        if certificates.is_empty() {
            return Err(IdentityError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(IdentityError::Key)?;
        Ok(Self {
            inner: Arc::new(Pair { certificates, key }),
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificates", &self.inner.certificates.len())
            .finish_non_exhaustive()
    }
}
