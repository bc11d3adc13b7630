use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use nephele_pki::{Authority, AuthorityError, IssueError, KeyAlgorithm, LeafRequest};
use nephele_webhook::TlsPolicy;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

/// Longer than any pod lives; each start makes a new certificate.
const VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Clocks of two machines may differ.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// Why a server could not get a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The authority could not be generated.
    #[error("failed to generate an authority for the certificate")]
    Authority(#[source] AuthorityError),
    /// The certificate itself could not be made.
    #[error("failed to issue the certificate")]
    Issue(#[source] IssueError),
    /// TLS refused the certificate.
    #[error("failed to set up TLS with the certificate")]
    Tls(#[source] rustls::Error),
}

/// TLS with a certificate that this process makes, and the certificate's fingerprint. Scrapers do not verify it, as with
/// controller-runtime; they authenticate with a token. Our own commands compare it with the published fingerprint.
pub(crate) struct SelfSigned {
    pub(crate) tls: TlsAcceptor,
    pub(crate) fingerprint: String,
}

/// The fingerprint of a certificate in DER, as the lease has it: `sha256:` and 64 hexadecimal digits.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> String {
    let digits = Sha256::digest(certificate)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("sha256:{digits}")
}

/// Makes a certificate for what has this name, such as `diagnostics`.
pub(crate) fn self_signed(
    name: &str,
    now: Timestamp,
    tls: &TlsPolicy,
) -> Result<SelfSigned, CertificateError> {
    let not_before = now - BACKDATED;
    let not_after = now + VALIDITY;
    let authority = Authority::generate(
        &format!("nephele-{name}-ca"),
        KeyAlgorithm::EcdsaP256,
        not_before,
        not_after,
    )
    .map_err(CertificateError::Authority)?;
    let leaf = authority
        .issue(&LeafRequest {
            common_name: format!("nephele-{name}"),
            organizations: Vec::new(),
            dns_names: vec!["localhost".to_owned()],
            ip_addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
            server_auth: true,
            client_auth: false,
            not_before,
            not_after,
            identity: name.to_owned(),
        })
        .map_err(CertificateError::Issue)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf.key_der().to_vec()));
    let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
    let fingerprint = fingerprint(&certificate);
    let config = tls
        .server()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let mut config = config.map_err(CertificateError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(SelfSigned {
        tls: TlsAcceptor::from(Arc::new(config)),
        fingerprint,
    })
}
