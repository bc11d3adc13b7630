//! The served certificate, and its sources.

pub mod folder;
mod injection;
pub mod keeper;
mod material;
pub mod plan;
mod secret;

use std::{fmt, sync::Arc};

pub use injection::Targets;
pub use material::MaterialError;
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

use crate::tls::TlsPolicy;

/// The served certificate, which can change between handshakes. Cheap to clone; all clones share the certificate.
#[derive(Clone)]
pub struct ServedCertificate {
    current: watch::Sender<Option<Arc<CertifiedKey>>>,
}

impl ServedCertificate {
    /// No certificate yet.
    #[must_use]
    pub fn none() -> Self {
        Self {
            current: watch::Sender::new(None),
        }
    }

    /// Waits until there is a certificate.
    pub async fn until_set(&self) {
        let mut current = self.current.subscribe();
        current
            .wait_for(Option::is_some)
            .await
            .expect("the sender is held here");
    }

    /// Whether there is a certificate.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Serves this certificate from the next handshake on. Returns whether it has changed.
    ///
    /// # Errors
    /// When key and certificate do not match, or TLS does not support the key's algorithm.
    pub fn set(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<bool, rustls::Error> {
        if self
            .current
            .borrow()
            .as_ref()
            .is_some_and(|current| current.cert == chain)
        {
            return Ok(false);
        }
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider)?;
        self.current.send_replace(Some(Arc::new(certified)));
        Ok(true)
    }

    /// TLS settings with this certificate. HTTP/2 is preferred.
    #[must_use]
    pub fn server_config(&self, tls: &TlsPolicy) -> Arc<ServerConfig> {
        let mut config = tls
            .server()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.borrow().clone()
    }
}

impl fmt::Debug for ServedCertificate {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedCertificate")
            .field("is_set", &self.is_set())
            .finish()
    }
}
