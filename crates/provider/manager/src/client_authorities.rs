//! The authorities of client certificates, in a file that is reloaded when it changes.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nephele_controller::chain;
use nephele_watched_files::{INTERVAL, ReadError, WatchedFiles};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::aws_lc_rs,
    server::{
        VerifierBuilderError, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{
    CertificateDer, UnixTime,
    pem::{self, PemObject as _},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Why a file gives no client authorities.
#[derive(Debug, thiserror::Error)]
pub enum ClientAuthoritiesError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file is not PEM.
    #[error("failed to read {} as PEM", path.display())]
    Pem {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    /// A certificate in the file cannot be an authority.
    #[error("failed to use a certificate of {} as an authority", path.display())]
    Authority {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    /// The file has no certificate.
    #[error("failed to find a client authority in {}", path.display())]
    Verifier {
        path: PathBuf,
        #[source]
        source: VerifierBuilderError,
    },
}

/// Verifies that clients have a certificate of an authority in a file. Cheap to clone; all clones share the state.
#[derive(Clone)]
pub(crate) struct ClientAuthorities {
    path: PathBuf,
    file: Arc<WatchedFiles<Arc<dyn ClientCertVerifier>, ClientAuthoritiesError>>,
}

impl ClientAuthorities {
    /// The authorities in a file.
    ///
    /// # Errors
    /// When the file cannot be read or has no authority.
    pub(crate) fn load(path: PathBuf) -> Result<Self, ClientAuthoritiesError> {
        let file = WatchedFiles::new([path.clone()], {
            let path = path.clone();
            move |contents| verifier(&path, &contents[0])
        });
        file.look()?;
        Ok(Self {
            path,
            file: Arc::new(file),
        })
    }

    /// Reloads the file until `shutdown`. While the file cannot be used, the previous authorities stay in use.
    pub(crate) async fn follow(self, shutdown: CancellationToken) {
        let Self { path, file } = self;
        let following = file.follow(INTERVAL, |reloaded| match reloaded {
            Ok(None) => {}
            Ok(Some(_)) => info!(path = %path.display(), "Reloaded the client authorities"),
            Err(error) => warn!(error = %chain(&error), "Failed to reload the client authorities"),
        });
        shutdown.run_until_cancelled(following).await;
    }

    fn current(&self) -> Arc<dyn ClientCertVerifier> {
        self.file
            .current()
            .expect("`load` returns only after the first look")
    }
}

fn verifier(path: &Path, bytes: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, ClientAuthoritiesError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        let certificate = certificate.map_err(|source| ClientAuthoritiesError::Pem {
            path: path.to_owned(),
            source,
        })?;
        let added = roots.add(certificate);
        added.map_err(|source| ClientAuthoritiesError::Authority {
            path: path.to_owned(),
            source,
        })?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| ClientAuthoritiesError::Verifier {
            path: path.to_owned(),
            source,
        })
}

impl ClientCertVerifier for ClientAuthorities {
    /// No hints: the authorities may change while this configuration stays, and clients send their certificate
    /// without hints as well.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.current().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities")
            .field("path", &self.path)
            .finish()
    }
}
