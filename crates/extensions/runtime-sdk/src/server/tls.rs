//! The server's certificate and the client authorities, reloaded when their files change.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nephele_watched_files::{INTERVAL, ReadError, WatchedFiles};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    server::{VerifierBuilderError, WebPkiClientVerifier},
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject as _},
};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::Metrics;

/// The TLS files, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The client authorities. If set, clients need a certificate of one of them.
    pub client_authorities: Option<PathBuf>,
    /// How often the files are read.
    pub interval: Duration,
}

impl TlsFiles {
    /// `tls.crt` and `tls.key` of a folder, the file names of a Secret of type `kubernetes.io/tls`. Clients need no
    /// certificate.
    #[must_use]
    pub fn in_folder(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        Self {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            client_authorities: None,
            interval: INTERVAL,
        }
    }
}

/// Why a certificate cannot be served.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The PEM content is not as expected.
    #[error("failed to read {what} as PEM")]
    Pem {
        what: &'static str,
        #[source]
        source: pem::Error,
    },
    /// There is no certificate.
    #[error("there is no certificate among {what}")]
    Empty {
        /// The source of the certificates.
        what: &'static str,
    },
    /// The client authorities cannot be used.
    #[error("failed to use the client authorities")]
    Authorities(#[source] VerifierBuilderError),
    /// TLS refuses the certificate or its key.
    #[error("failed to use the certificate")]
    Certificate(#[source] rustls::Error),
}

/// The TLS settings of connections. Cheap to clone; all clones change together.
#[derive(Clone)]
pub struct Tls {
    /// How often to look at the files, if the settings are from files.
    interval: Option<Duration>,
    /// The current settings, of the certificate, its key and the client authorities if there are any.
    settings: Arc<WatchedFiles<Arc<ServerConfig>, TlsError>>,
}

impl Tls {
    /// Settings from a certificate with its chain and its key, all PEM. With client authorities, clients need a
    /// certificate of one of them.
    ///
    /// # Errors
    /// When the certificate, the key or the authorities cannot be used.
    pub fn from_pem(
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
        client_authorities: Option<Vec<u8>>,
    ) -> Result<Self, TlsError> {
        let tls = Self::of(None, Vec::new());
        tls.replace(certificate, key, client_authorities)?;
        Ok(tls)
    }

    /// Settings from files. While the extension is served, changed files are reloaded.
    ///
    /// # Errors
    /// When the files or their content cannot be used.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles {
            certificate,
            key,
            client_authorities,
            interval,
        } = files;
        let paths = [certificate, key].into_iter().chain(client_authorities).collect();
        let tls = Self::of(Some(interval), paths);
        tls.settings.look_in_task().await?;
        Ok(tls)
    }

    fn of(interval: Option<Duration>, paths: Vec<PathBuf>) -> Self {
        Self {
            interval,
            settings: Arc::new(WatchedFiles::new(paths, config)),
        }
    }

    /// Reads the files again and serves their content. Returns whether the content has changed. If it is invalid, the
    /// previous settings stay.
    ///
    /// # Errors
    /// When the content cannot be served.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        if self.interval.is_none() {
            return Ok(false);
        }
        Ok(self.settings.look_in_task().await?.is_some())
    }

    /// Serves another certificate to new connections, for callers whose certificate is not in files. If it is invalid,
    /// the previous certificate stays.
    ///
    /// # Errors
    /// When the certificate cannot be served.
    pub fn replace(
        &self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
        client_authorities: Option<Vec<u8>>,
    ) -> Result<(), TlsError> {
        let contents = [certificate.into(), key.into()]
            .into_iter()
            .chain(client_authorities)
            .collect();
        self.settings.replace(contents)?;
        Ok(())
    }

    /// Reloads changed files until `shutdown`.
    pub(super) async fn follow(self, metrics: Metrics, shutdown: CancellationToken) {
        let Some(interval) = self.interval else { return };
        let following = self.settings.follow(interval, |reloaded| match reloaded {
            Ok(None) => {}
            Ok(Some(_)) => {
                metrics.reloaded(true);
                info!("Serving a changed certificate");
            }
            Err(error) => {
                metrics.reloaded(false);
                warn!(
                    error = &error as &(dyn Error + 'static),
                    "Failed to load a changed certificate"
                );
            }
        });
        shutdown.run_until_cancelled(following).await;
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(
            self.settings
                .current()
                .expect("each constructor makes the first settings"),
        )
    }
}

/// The settings of the certificate, its key and perhaps the client authorities, in this order.
fn config(contents: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = certificates(&contents[0], "the certificate")?;
    let key = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(|source| TlsError::Pem {
        what: "the key",
        source,
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Certificate)?;
    let builder = match contents.get(2) {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities, "the authorities of clients")? {
                roots.add(authority).map_err(TlsError::Certificate)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(TlsError::Authorities)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(TlsError::Certificate)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(bytes: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::Pem { what, source })?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { what });
    }
    Ok(certificates)
}
