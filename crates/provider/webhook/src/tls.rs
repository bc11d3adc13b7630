//! TLS settings as in Kubernetes' own components: `--tls-min-version` and `--tls-cipher-suites` name versions and
//! suites as Go's `crypto/tls` does (kubernetes,
//! `staging/src/k8s.io/component-base/cli/flag/ciphersuites_flag.go`).
//!
//! As in Kubernetes, suites of TLS 1.3 cannot be chosen: a list without a suite of TLS 1.2 means TLS 1.3 only.

use std::sync::Arc;

use rustls::{
    CipherSuite, ConfigBuilder, ServerConfig, SupportedProtocolVersion, WantsVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
    version::{TLS12, TLS13},
};
use thiserror::Error;

/// The supported versions, by Go's names.
const VERSIONS: [(&str, &[&SupportedProtocolVersion]); 2] =
    [("VersionTLS12", &[&TLS13, &TLS12]), ("VersionTLS13", &[&TLS13])];
/// Go's names of versions that must not be used (RFC 8996) and are not supported here.
const OLD_VERSIONS: [&str; 2] = ["VersionTLS10", "VersionTLS11"];

/// The supported suites, by Go's names. The last two are older names of suites in this list.
const SUITES: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The TLS settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsPolicy {
    versions: &'static [&'static SupportedProtocolVersion],
    /// In the order of [`SUITES`]. Empty means all.
    suites: Vec<CipherSuite>,
}

impl Default for TlsPolicy {
    /// TLS 1.2 and 1.3, with all supported suites.
    fn default() -> Self {
        Self {
            versions: VERSIONS[0].1,
            suites: Vec::new(),
        }
    }
}

/// Why a policy is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TlsPolicyError {
    /// An unknown version.
    #[error("{given:?} is not supported; the minimum version can be {}", names(&VERSIONS))]
    Version { given: String },
    /// A version that Go supports and RFC 8996 forbids.
    #[error("{given} is too old (RFC 8996); the minimum version can be {}", names(&VERSIONS))]
    OldVersion { given: String },
    /// An unknown or insecure suite.
    #[error("cipher suite {given:?} is not supported; supported are {}", names(&SUITES))]
    Suite { given: String },
}

fn names<Value>(list: &[(&str, Value)]) -> String {
    list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl TlsPolicy {
    /// The policy for a minimum version and for suites, separated by commas. Without suites, all are supported.
    ///
    /// # Errors
    /// When the version or a suite is not supported. The error names the supported ones.
    pub fn new(min_version: &str, cipher_suites: &str) -> Result<Self, TlsPolicyError> {
        let given = || min_version.to_owned();
        let version = VERSIONS.iter().find(|(name, _)| *name == min_version);
        let (_, versions) = *version.ok_or_else(|| match OLD_VERSIONS.contains(&min_version) {
            true => TlsPolicyError::OldVersion { given: given() },
            false => TlsPolicyError::Version { given: given() },
        })?;
        let wanted = cipher_suites
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let suite = |given: &str| match SUITES.iter().find(|(name, _)| *name == given) {
            Some((_, suite)) => Ok(*suite),
            None => Err(TlsPolicyError::Suite {
                given: given.to_owned(),
            }),
        };
        Ok(Self {
            versions,
            suites: wanted.map(suite).collect::<Result<_, _>>()?,
        })
    }

    /// A builder for server settings with this policy.
    #[must_use]
    pub fn server(&self) -> ConfigBuilder<ServerConfig, WantsVerifier> {
        let Self { versions, suites } = self;
        let mut provider: CryptoProvider = aws_lc_rs::default_provider();
        let is_1_3 = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some();
        provider
            .cipher_suites
            .retain(|suite| suites.is_empty() || is_1_3(suite) || suites.contains(&suite.suite()));
        let has_1_2 = provider.cipher_suites.iter().any(|suite| !is_1_3(suite));
        let versions = if has_1_2 { versions } else { VERSIONS[1].1 };
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("there are suites of TLS 1.3, and of 1.2 where that is spoken")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{
        ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ProtocolVersion, ServerConnection,
        SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    };
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

    use super::*;

    /// Accepts any certificate, because the tests are only about versions and suites.
    #[derive(Debug)]
    struct Trusting;

    impl ServerCertVerifier for Trusting {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            aws_lc_rs::default_provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    }

    /// The version and the suite that a client with these versions negotiates; `None` when the server refuses.
    fn spoken(
        policy: &TlsPolicy,
        client: &[&'static SupportedProtocolVersion],
    ) -> Option<(ProtocolVersion, CipherSuite)> {
        let (chain, key) = certificate();
        let server = policy
            .server()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate");
        let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(client)
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting))
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = Connection::from(ClientConnection::new(Arc::new(client), name).expect("a client"));
        let mut server = Connection::from(ServerConnection::new(Arc::new(server)).expect("a server"));
        while client.is_handshaking() || server.is_handshaking() {
            pass(&mut client, &mut server)?;
            pass(&mut server, &mut client)?;
        }
        Some((
            client.protocol_version()?,
            client.negotiated_cipher_suite()?.suite(),
        ))
    }

    /// Passes the bytes from one side to the other; `None` when the other side refuses them.
    fn pass(from: &mut Connection, to: &mut Connection) -> Option<()> {
        let mut said = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut said).expect("memory");
        }
        let mut rest = said.as_slice();
        while !rest.is_empty() {
            to.read_tls(&mut rest).expect("memory");
            to.process_new_packets().ok()?;
        }
        Some(())
    }

    fn certificate() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
        let from = jiff::Timestamp::UNIX_EPOCH;
        let to = jiff::Timestamp::MAX - jiff::Span::new().hours(48);
        let authority = Authority::generate("test", KeyAlgorithm::EcdsaP256, from, to).expect("an authority");
        let leaf = authority
            .issue(&LeafRequest {
                common_name: "test".to_owned(),
                organizations: Vec::new(),
                dns_names: vec!["localhost".to_owned()],
                ip_addresses: Vec::new(),
                server_auth: true,
                client_auth: false,
                not_before: from,
                not_after: to,
                identity: "test".to_owned(),
            })
            .expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(leaf.key_der().to_vec());
        (
            vec![CertificateDer::from(leaf.certificate_der().to_vec())],
            key.into(),
        )
    }

    const OLD: &[&SupportedProtocolVersion] = &[&TLS12];
    const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

    #[test]
    fn the_least_version_is_the_least_that_is_spoken() {
        let version = |policy: &TlsPolicy, client| spoken(policy, client).map(|(version, _)| version);
        for policy in [
            TlsPolicy::default(),
            TlsPolicy::new("VersionTLS12", "").expect("a policy"),
        ] {
            assert_eq!(version(&policy, OLD), Some(ProtocolVersion::TLSv1_2));
            assert_eq!(version(&policy, BOTH), Some(ProtocolVersion::TLSv1_3));
        }
        let newest = TlsPolicy::new("VersionTLS13", "").expect("a policy");
        assert_eq!(version(&newest, OLD), None);
        assert_eq!(version(&newest, BOTH), Some(ProtocolVersion::TLSv1_3));
    }

    #[test]
    fn only_listed_suites_are_spoken_in_the_version_that_has_a_choice() {
        let suite = |suites: &str, client| {
            spoken(&TlsPolicy::new("VersionTLS12", suites).expect("a policy"), client).map(|(_, suite)| suite)
        };
        let chacha = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
        let expected = CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
        assert_ne!(
            suite("", OLD),
            Some(expected),
            "it is not what would be spoken anyway"
        );
        assert_eq!(suite(chacha, OLD), Some(expected));
        assert_eq!(
            suite(&format!(" {chacha} , TLS_AES_128_GCM_SHA256,"), OLD),
            Some(expected)
        );
        assert_eq!(
            suite("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", OLD),
            Some(expected)
        );
        // This suite needs a certificate with another type of key.
        assert_eq!(suite("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", OLD), None);
        // The other version has no such suite.
        assert_eq!(suite(chacha, BOTH), suite("", BOTH));
        assert_eq!(suite("TLS_AES_128_GCM_SHA256", OLD), None);
        assert_eq!(suite("TLS_AES_128_GCM_SHA256", BOTH), suite("", BOTH));
    }

    #[test]
    fn what_is_not_offered_is_told_with_what_is() {
        let error = |version: &str, suites: &str| {
            TlsPolicy::new(version, suites)
                .map_err(|error| error.to_string())
                .expect_err("it is not supported")
        };
        let least = "the minimum version can be VersionTLS12, VersionTLS13";
        for old in OLD_VERSIONS {
            assert_eq!(error(old, ""), format!("{old} is too old (RFC 8996); {least}"));
        }
        assert_eq!(error("1.2", ""), format!("\"1.2\" is not supported; {least}"));
        let insecure = "TLS_RSA_WITH_3DES_EDE_CBC_SHA";
        let told = error("VersionTLS12", &format!("TLS_AES_128_GCM_SHA256,{insecure}"));
        assert!(
            told.starts_with(&format!(
                "cipher suite \"{insecure}\" is not supported; supported are "
            )),
            "{told}"
        );
        assert!(SUITES.iter().all(|(name, _)| told.contains(name)), "{told}");
    }

    #[test]
    fn every_suite_that_there_is_has_a_name() {
        let provider = aws_lc_rs::default_provider();
        let unnamed = provider
            .cipher_suites
            .iter()
            .map(rustls::SupportedCipherSuite::suite);
        let unnamed: Vec<_> = unnamed
            .filter(|suite| SUITES.iter().all(|(_, named)| named != suite))
            .collect();
        assert_eq!(unnamed, []);
    }
}
