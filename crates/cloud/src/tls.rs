//! TLS: what a cluster's servers show, and how their clients are told apart.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use nephele_apiserver::UserInfo;
use nephele_pki::{Authority, IssueError, Leaf, LeafRequest, parse_client};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

use crate::cluster::{Authorities, ClusterSpec, MachineSpec};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// One ticketer for all clusters: its keys rotate together, and a ticket holds no more than what a full handshake
/// would establish, since the client's certificate in it is verified for each connection anyway.
static TICKETER: LazyLock<Option<Arc<dyn ProducesTickets>>> =
    LazyLock::new(|| rustls::crypto::aws_lc_rs::Ticketer::new().ok());

/// The credentials of a cluster's servers.
pub(crate) struct Credentials {
    pub(crate) api_server: Arc<ApiServerTls>,
    etcd: Option<Authority>,
}

/// How the API server of a cluster speaks TLS.
pub(crate) struct ApiServerTls {
    pub(crate) config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Credentials {
    pub(crate) fn issue(spec: &ClusterSpec, authorities: &Authorities) -> Result<Self, IssueError> {
        let leaf = authorities.cluster.issue(&api_server_request(spec))?;
        let roots = roots(&authorities.cluster);
        let verifier: Arc<dyn ClientCertVerifier> = match roots.map(|roots| client_verifier(roots)) {
            Some(verifier) => verifier,
            // An authority that cannot be a trust anchor verifies nobody.
            None => Arc::new(NobodyVerifier),
        };
        let deferred = Arc::new(DeferredVerifier {
            hints: verifier.root_hint_subjects().to_vec(),
            algorithms: PROVIDER.signature_verification_algorithms,
        });
        let mut config = server_config(&leaf, deferred);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let api_server = Arc::new(ApiServerTls { config: Arc::new(config), verifier });
        Ok(Self { api_server, etcd: authorities.etcd.clone() })
    }

    /// How an etcd member speaks TLS; none without an etcd authority.
    pub(crate) fn etcd_member(&self, spec: &ClusterSpec, machine: &MachineSpec) -> Option<Arc<ServerConfig>> {
        let authority = self.etcd.as_ref()?;
        let leaf = match authority.issue(&etcd_request(spec, machine)) {
            Ok(leaf) => leaf,
            Err(error) => {
                tracing::warn!(machine = %machine.id, %error, "Failed to issue an etcd certificate");
                return None;
            }
        };
        let mut config = server_config(&leaf, client_verifier(roots(authority)?));
        config.alpn_protocols = vec![b"h2".to_vec()];
        Some(Arc::new(config))
    }
}

impl ApiServerTls {
    /// The user that a connection's client certificate proves, or none when there is no certificate or it proves
    /// nothing to this cluster: such a client is answered 401, not cut off.
    pub(crate) fn user(&self, certificates: Option<&[CertificateDer<'_>]>) -> Option<UserInfo> {
        let (leaf, intermediates) = certificates?.split_first()?;
        self.verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).ok()?;
        let identity = parse_client(leaf).ok()?;
        let mut groups = identity.organizations;
        groups.push("system:authenticated".to_owned());
        Some(UserInfo { name: identity.common_name, groups })
    }
}

fn roots(authority: &Authority) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate_der().to_vec())).ok()?;
    Some(roots)
}

fn client_verifier(roots: RootCertStore) -> Arc<dyn ClientCertVerifier> {
    match WebPkiClientVerifier::builder_with_provider(Arc::new(roots), PROVIDER.clone()).build() {
        Ok(verifier) => verifier,
        Err(_) => Arc::new(NobodyVerifier),
    }
}

fn server_config(leaf: &Leaf, verifier: Arc<dyn ClientCertVerifier>) -> ServerConfig {
    let certificate = CertificateDer::from(leaf.certificate_der().to_vec());
    let key = PrivateKeyDer::try_from(leaf.key_der().to_vec()).expect("leaf keys are PKCS#8");
    let mut config = ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .expect("the provider has suites for both versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .expect("the leaf's key is its certificate's, and of a kind the provider signs with");
    // Sessions are resumed by ticket; a cache per cluster would cost more than the clusters.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(ticketer) = &*TICKETER {
        config.ticketer = ticketer.clone();
        config.send_tls13_tickets = 1;
    }
    config
}

/// As kubeadm issues it: valid for a year from the cluster's creation. A year is counted in hours because calendar
/// years have no fixed length.
fn api_server_request(spec: &ClusterSpec) -> LeafRequest {
    let mut dns_names = vec![
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        format!("kubernetes.default.svc.{}", spec.service_domain),
    ];
    let mut ip_addresses: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    ip_addresses.extend(spec.service_address(1).parse::<IpAddr>());
    if let Some(endpoint) = &spec.endpoint {
        match endpoint.host.parse() {
            Ok(address) => ip_addresses.push(address),
            Err(_) => dns_names.push(endpoint.host.clone()),
        }
    }
    ip_addresses.dedup();
    let (not_before, not_after) = validity(spec.created_at);
    LeafRequest {
        common_name: "kube-apiserver".to_owned(),
        organizations: Vec::new(),
        dns_names,
        ip_addresses,
        server_auth: true,
        client_auth: false,
        not_before,
        not_after,
        identity: format!("{}/kube-apiserver", spec.id),
    }
}

fn etcd_request(spec: &ClusterSpec, machine: &MachineSpec) -> LeafRequest {
    let name = &machine.id.name;
    let addresses = machine.addresses.iter().filter_map(|address| address.address.parse().ok());
    let loopback: [IpAddr; 2] = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    let (not_before, not_after) = validity(spec.created_at);
    LeafRequest {
        common_name: name.clone(),
        organizations: Vec::new(),
        dns_names: vec!["localhost".to_owned(), name.clone(), format!("etcd-{name}")],
        ip_addresses: loopback.into_iter().chain(addresses).collect(),
        server_auth: true,
        client_auth: true,
        not_before,
        not_after,
        identity: format!("{}/etcd/{name}", spec.id),
    }
}

/// Ten years: nothing renews the certificates of a simulated machine, and a real one's are renewed by an upgrade.
fn validity(created_at: Timestamp) -> (Timestamp, Timestamp) {
    let not_before = created_at.checked_sub(5.minutes()).unwrap_or(created_at);
    let not_after = created_at.checked_add(Duration::from_secs(10 * 365 * 86_400)).unwrap_or(created_at);
    (not_before, not_after)
}

/// Lets every handshake with a certificate through, whoever signed it, so that a client who is not known gets an
/// answer: 401, as a real API server gives. The client must still prove that the certificate is its own. Who it is
/// gets decided by [`ApiServerTls::user`].
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

/// Knows nobody.
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
        Err(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &PROVIDER.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &PROVIDER.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
