//! The caller's client certificate.

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _};
use thiserror::Error;

use super::Https;
use crate::client::chain;

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
    #[error("failed to read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
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
        Ok(Self { inner: Arc::new(Pair { certificates, key }) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificates", &self.inner.certificates.len())
            .finish_non_exhaustive()
    }
}

/// The files of an identity, such as a mounted Secret. They may change at any time.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    certificate: PathBuf,
    key: PathBuf,
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl IdentityFiles {
    /// The files of the certificate and its key, in PEM.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), last: None }
    }

    /// Reads the files; returns the identity if it has changed.
    ///
    /// # Errors
    /// When they cannot be read or hold no identity. The next call reads them again.
    pub fn changed(&mut self) -> Result<Option<Identity>, IdentityError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| IdentityError::File { path: path.clone(), source })
        };
        let pair = (read(&self.certificate)?, read(&self.key)?);
        if self.last.as_ref() == Some(&pair) {
            return Ok(None);
        }
        let identity = Identity::from_pem(&pair.0, &pair.1)?;
        self.last = Some(pair);
        Ok(Some(identity))
    }

    /// Keeps a transport's identity in step with the files. Reads them at this interval while the future is
    /// polled. If the files cannot be read, the identity stays.
    pub async fn keep(mut self, transport: Arc<Https>, interval: Duration) {
        loop {
            match self.changed() {
                Ok(Some(identity)) => transport.set_identity(Some(identity)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = chain(&error), "Failed to reload the client certificate");
                }
            }
            tokio::time::sleep(interval).await;
        }
    }
}
