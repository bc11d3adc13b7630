//! The caller's client certificate.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use nephele_watched_files::{ReadError, WatchedFiles};
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

/// The files of an identity, such as a mounted Secret. They may change at any time.
#[derive(Debug)]
pub struct IdentityFiles {
    files: Arc<WatchedFiles<Identity, IdentityError>>,
}

impl IdentityFiles {
    /// The files of the certificate and its key, in PEM.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let paths = [certificate.into(), key.into()];
        let files = WatchedFiles::new(paths, |contents: &[Vec<u8>]| {
            Identity::from_pem(&contents[0], &contents[1])
        });
        Self {
            files: Arc::new(files),
        }
    }

    /// Reads the files; returns the identity if it has changed.
    ///
    /// # Errors
    /// When they cannot be read or hold no identity. The next call reads them again.
    pub fn changed(&mut self) -> Result<Option<Identity>, IdentityError> {
        self.files.look()
    }

    /// Keeps a transport's identity in step with the files. Reads them at this interval while the future is
    /// polled. If the files cannot be read, the identity stays.
    pub async fn keep(self, transport: Arc<Https>, interval: Duration) {
        let take = |look: Result<Option<Identity>, IdentityError>| match look {
            Ok(Some(identity)) => transport.set_identity(Some(identity)),
            Ok(None) => {}
            Err(error) => tracing::warn!(error = chain(&error), "Failed to reload the client certificate"),
        };
        take(self.files.look_in_task().await);
        self.files.follow(interval, take).await;
    }
}
