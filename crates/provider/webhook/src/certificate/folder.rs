//! Certificates in a folder, where another program renews them.

use std::{error::Error, path::PathBuf, sync::Arc};

use nephele_watched_files::{INTERVAL, ReadError, WatchedFiles};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject as _},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::ServedCertificate;
use crate::metrics::Metrics;

/// The certificate's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
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
        Self {
            path: path.into(),
            certificate: "tls.crt".to_owned(),
            key: "tls.key".to_owned(),
        }
    }
}

/// Why the files cannot be served.
#[derive(Debug, Error)]
pub enum FolderError {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file does not have the expected PEM content.
    #[error("failed to read {path} as PEM")]
    Pem {
        path: PathBuf,
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
    let files = Arc::new(watched(&folder, certificate));
    let report = |loaded: Result<Option<bool>, FolderError>| {
        metrics.read_certificate(loaded.is_ok());
        match loaded {
            Ok(Some(true)) => info!(path = %folder.path.display(), "Serving a changed certificate"),
            Ok(Some(false) | None) => {}
            Err(error) => {
                warn!(
                    error = &error as &(dyn Error + 'static),
                    "Failed to load the webhooks' certificate"
                );
            }
        }
    };
    report(files.look_in_task().await);
    shutdown.run_until_cancelled(files.follow(INTERVAL, report)).await;
}

/// The files of a folder, whose content is served when it has changed. The value is whether the certificate is another
/// one.
pub fn watched(folder: &Folder, certificate: ServedCertificate) -> WatchedFiles<bool, FolderError> {
    let paths = [&folder.certificate, &folder.key].map(|name| folder.path.join(name));
    WatchedFiles::new(paths.clone(), move |contents| {
        let failed = |index: usize| {
            let path = paths[index].clone();
            move |source| FolderError::Pem { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&contents[0])
            .collect::<Result<_, _>>()
            .map_err(failed(0))?;
        let key = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(failed(1))?;
        certificate.set(chain, key).map_err(FolderError::Serve)
    })
}
