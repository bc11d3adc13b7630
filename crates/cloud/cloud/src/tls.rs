//! TLS: the certificates of a cluster's servers, and the identification of their clients.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use nephele_apiserver::UserInfo;
use nephele_pki::{Authority, AuthorityError, IssueError, KeyAlgorithm, Leaf, parse_client};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs::kx_group, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{
        NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::{
    certificates,
    spec::{Authorities, ClusterSpec, MachineSpec},
};

/// Without the post-quantum group: it doubles the cost of a handshake, and nothing here has to stay secret.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    Arc::new(CryptoProvider {
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        ..rustls::crypto::aws_lc_rs::default_provider()
    })
});

/// One ticketer for all clusters: its keys rotate together.
static TICKETER: LazyLock<Option<Arc<dyn ProducesTickets>>> =
    LazyLock::new(|| rustls::crypto::aws_lc_rs::Ticketer::new().ok());

/// The credentials of a cluster's servers.
pub(crate) struct Credentials {
    pub(crate) frontend: Arc<ApiServerTls>,
    authorities: Authorities,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Session tickets are bound to this fingerprint of the authority.
    realm: [u8; 32],
    /// Issued when a tunnel first asks for them: most control-plane machines are asked every few seconds, workers
    /// never. Those of API servers have the expiry that a fault says.
    api_servers: BTreeMap<String, (Option<Timestamp>, Arc<ApiServerTls>)>,
    etcd_members: BTreeMap<String, Arc<ServerConfig>>,
}

/// The TLS configuration of an API server.
pub(crate) struct ApiServerTls {
    pub(crate) config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Credentials {
    pub(crate) fn issue(spec: &ClusterSpec, authorities: &Authorities) -> Result<Self, IssueError> {
        let leaf = authorities.cluster.issue(&certificates::frontend(spec))?;
        let verifier = client_verifier(&authorities.cluster);
        let realm = authorities.cluster.fingerprint();
        let frontend = api_server(&leaf, verifier.clone(), Some(realm));
        Ok(Self {
            frontend,
            authorities: authorities.clone(),
            verifier,
            realm,
            api_servers: BTreeMap::new(),
            etcd_members: BTreeMap::new(),
        })
    }

    /// The TLS configuration of one machine's API server, for clients that bypass the load balancer, or whose
    /// certificate expires early because of a fault.
    pub(crate) fn api_server(
        &mut self,
        spec: &ClusterSpec,
        machine: &MachineSpec,
        started_at: Timestamp,
        expires: Option<Timestamp>,
    ) -> Result<Arc<ApiServerTls>, IssueError> {
        if let Some((expiry, tls)) = self.api_servers.get(&machine.id.name)
            && *expiry == expires
        {
            return Ok(tls.clone());
        }
        let request = certificates::api_server(spec, machine, started_at, expires);
        let leaf = self.authorities.cluster.issue(&request)?;
        // A client that resumes a session sees no certificate.
        let realm = expires.is_none().then_some(self.realm);
        let tls = api_server(&leaf, self.verifier.clone(), realm);
        self.api_servers
            .insert(machine.id.name.clone(), (expires, tls.clone()));
        Ok(tls)
    }

    /// The TLS configuration of a machine's etcd member. None without an etcd authority.
    pub(crate) fn etcd_member(
        &mut self,
        spec: &ClusterSpec,
        machine: &MachineSpec,
        started_at: Timestamp,
    ) -> Result<Option<Arc<ServerConfig>>, IssueError> {
        let Some(authority) = &self.authorities.etcd else {
            return Ok(None);
        };
        if let Some(config) = self.etcd_members.get(&machine.id.name) {
            return Ok(Some(config.clone()));
        }
        let leaf = authority.issue(&certificates::etcd_member(spec, machine, started_at))?;
        let mut config = server_config(&leaf, client_verifier(authority), Some(authority.fingerprint()));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        self.etcd_members.insert(machine.id.name.clone(), config.clone());
        Ok(Some(config))
    }

    /// Removes the credentials of a machine that is gone.
    pub(crate) fn forget(&mut self, machine: &str) {
        self.api_servers.remove(machine);
        self.etcd_members.remove(machine);
    }
}

impl ApiServerTls {
    /// The user of a connection's client certificate. None if there is no certificate or this cluster does not trust
    /// it: such a client gets a 401 response and keeps its connection.
    pub(crate) fn user(
        &self,
        certificates: Option<&[CertificateDer<'_>]>,
        now: Timestamp,
    ) -> Option<UserInfo> {
        let (leaf, intermediates) = certificates?.split_first()?;
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier.verify_client_cert(leaf, intermediates, now).ok()?;
        let identity = parse_client(leaf).ok()?;
        Some(UserInfo {
            name: identity.common_name,
            groups: identity.organizations,
        })
    }
}

/// Why there is no stranger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForeignServerError {
    #[error("failed to make the authority of another cluster")]
    Authority(#[source] AuthorityError),
    #[error("failed to issue a certificate of another cluster")]
    Issue(#[source] IssueError),
}

/// The TLS configuration of an API server of another cluster: its authority is not this cluster's, and it knows no
/// client.
pub(crate) fn foreign_server(
    spec: &ClusterSpec,
    now: Timestamp,
) -> Result<Arc<ApiServerTls>, ForeignServerError> {
    let request = certificates::foreign_server(spec, now);
    let begin = request.not_before;
    let end = request.not_after;
    let authority = Authority::generate("kubernetes", KeyAlgorithm::EcdsaP256, begin, end);
    let leaf = authority
        .map_err(ForeignServerError::Authority)?
        .issue(&request)
        .map_err(ForeignServerError::Issue)?;
    Ok(api_server(&leaf, Arc::new(NobodyVerifier), None))
}

fn api_server(
    leaf: &Leaf,
    verifier: Arc<dyn ClientCertVerifier>,
    realm: Option<[u8; 32]>,
) -> Arc<ApiServerTls> {
    let deferred = Arc::new(DeferredVerifier {
        hints: verifier.root_hint_subjects().to_vec(),
        algorithms: PROVIDER.signature_verification_algorithms,
    });
    let mut config = server_config(leaf, deferred, realm);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(ApiServerTls {
        config: Arc::new(config),
        verifier,
    })
}

/// Trusts clients whose certificate the authority signed. Trusts no client if the authority cannot be a trust anchor.
fn client_verifier(authority: &Authority) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    if roots
        .add(CertificateDer::from(authority.certificate_der().to_vec()))
        .is_err()
    {
        return Arc::new(NobodyVerifier);
    }
    match WebPkiClientVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build() {
        Ok(verifier) => verifier,
        Err(_) => Arc::new(NobodyVerifier),
    }
}

/// Without a realm, no session is resumed.
fn server_config(
    leaf: &Leaf,
    verifier: Arc<dyn ClientCertVerifier>,
    realm: Option<[u8; 32]>,
) -> ServerConfig {
    let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
    let key = PrivateKeyDer::try_from(leaf.key_der().to_vec()).expect("leaf keys are PKCS#8");
    let mut config = ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .expect("the provider has suites for both versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .expect("the leaf's key is its certificate's, and of a kind the provider signs with");
    // Sessions are resumed by ticket. A session cache per cluster would need more memory than the cluster itself.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let (Some(realm), Some(ticketer)) = (realm, &*TICKETER) {
        config.ticketer = Arc::new(RealmTicketer {
            realm,
            inner: ticketer.clone(),
        });
        config.send_tls13_tickets = 1;
    }
    config
}

/// Binds tickets to an authority. All listeners share a host, by which clients store their tickets, and a resumed
/// session presents no certificate. So a ticket of one cluster must not be valid at another.
#[derive(Debug)]
struct RealmTicketer {
    realm: [u8; 32],
    inner: Arc<dyn ProducesTickets>,
}

impl ProducesTickets for RealmTicketer {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&[&self.realm, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.inner.decrypt(cipher)?;
        plain.strip_prefix(&self.realm).map(<[u8]>::to_vec)
    }
}

/// Accepts every client certificate in the handshake, whoever signed it, so that an unknown client gets a 401 response,
/// as from a real API server. The client must still prove that it has the private key. [`ApiServerTls::user`] decides
/// who the client is.
#[derive(Debug)]
struct DeferredVerifier {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for DeferredVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Trusts no client.
#[derive(Debug)]
struct NobodyVerifier;

impl ClientCertVerifier for NobodyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Err(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer,
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &PROVIDER.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &PROVIDER.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
