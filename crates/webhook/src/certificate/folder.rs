//! Certificates in a folder, where another program renews them.

use std::{error::Error, fs, io, path::PathBuf, time::Duration};

use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject as _},
};
use thiserror::Error;
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::ServedCertificate;
use crate::metrics::Metrics;

/// How often the files are read. A kubelet takes up to a minute to update a changed Secret in a pod.
const INTERVAL: Duration = Duration::from_secs(10);

/// The certificate's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// The file with the certificate and its chain, PEM.
    pub certificate: String,
    /// The file with the key, PEM.
    pub key: String,
}

impl Folder {
    /// A folder with the file names of a Secret of type `kubernetes.io/tls`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), certificate: "tls.crt".to_owned(), key: "tls.key".to_owned() }
    }
}

/// Why the files cannot be served.
#[derive(Debug, Error)]
pub enum FolderError {
    /// A file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file does not have the expected PEM content.
    #[error("failed to read {path} as PEM")]
    Pem {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// TLS refused the certificate.
    #[error("failed to serve the certificate")]
    Serve(#[source] rustls::Error),
}

/// Serves the certificate in the folder until `shutdown`, and reloads changed files. While the files are invalid, the
/// last valid certificate stays in use.
pub async fn follow_folder(
    folder: Folder,
    certificate: ServedCertificate,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    loop {
        let loaded = load(&folder, &certificate).await;
        metrics.read_certificate(loaded.is_ok());
        match loaded {
            Ok(true) => info!(path = %folder.path.display(), "Serving a changed certificate"),
            Ok(false) => {}
            Err(error) => {
                warn!(error = &error as &(dyn Error + 'static), "Failed to load the webhooks' certificate");
            }
        }
        if shutdown.run_until_cancelled(sleep(INTERVAL)).await.is_none() {
            return;
        }
    }
}

/// Reads the files and serves them. Returns whether they have changed.
///
/// # Errors
/// When they cannot be served.
pub async fn load(folder: &Folder, certificate: &ServedCertificate) -> Result<bool, FolderError> {
    let (path, bytes) = read(folder.path.join(&folder.certificate)).await?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|source| FolderError::Pem { path, source })?;
    let (path, bytes) = read(folder.path.join(&folder.key)).await?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|source| FolderError::Pem { path, source })?;
    certificate.set(chain, key).map_err(FolderError::Serve)
}

async fn read(path: PathBuf) -> Result<(PathBuf, Vec<u8>), FolderError> {
    let read = move || match fs::read(&path) {
        Ok(bytes) => Ok((path, bytes)),
        Err(source) => Err(FolderError::Read { path, source }),
    };
    spawn_blocking(read).await.expect("reading a file does not panic")
}
