//! Certificate authorities.

use std::sync::Arc;

use jiff::Timestamp;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, RsaKeySize, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::derive;
use crate::leaf::{IssueError, Leaf, LeafRequest, pem};
use crate::signer::Signer;

/// A certificate authority: its certificate and the key that signs in its name. Cheap to clone.
#[derive(Clone)]
pub struct Authority {
    inner: Arc<Inner>,
}

struct Inner {
    certificate_der: Vec<u8>,
    key: PrivateKeyDer<'static>,
    issuer: Issuer<'static, Signer>,
    fingerprint: [u8; 32],
}

/// The key algorithms that Cluster API's control plane provider offers (`encryptionAlgorithm`), and that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// RSA, 2048 bits.
    Rsa2048,
    /// RSA, 3072 bits.
    Rsa3072,
    /// RSA, 4096 bits.
    Rsa4096,
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
}

/// Why a certificate and a key are no authority.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The certificate is not PEM.
    #[error("failed to read the certificate: not a PEM certificate")]
    CertificatePem(#[source] rustls_pki_types::pem::Error),
    /// The certificate's DER does not parse.
    #[error("failed to parse the certificate")]
    Certificate(#[source] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// The certificate's DER has a shape that cannot issue.
    #[error("failed to use the certificate as an issuer")]
    Issuer(#[source] rcgen::Error),
    /// The certificate is not a CA's.
    #[error("failed to use the certificate as an issuer: it is not a certificate authority's")]
    NotAnAuthority,
    /// The key is not PEM.
    #[error("failed to read the private key: not a PEM private key")]
    KeyPem(#[source] rustls_pki_types::pem::Error),
    /// The key is of an algorithm other than RSA, P-256 and P-384, or damaged.
    #[error("failed to read the private key: neither RSA nor elliptic curve P-256 or P-384")]
    KeyAlgorithm,
    /// The key is another certificate's.
    #[error("failed to pair the private key with the certificate: they do not match")]
    Mismatch,
    /// A key or certificate could not be made.
    #[error("failed to generate the authority")]
    Generate(#[source] rcgen::Error),
    /// A validity outside of what a certificate can say.
    #[error("failed to put {0} into a certificate: outside the years 0000 to 9999")]
    Validity(Timestamp),
}

impl AuthorityError {
    /// A word from a fixed set, for metrics and condition reasons.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::CertificatePem(_) | Self::Certificate(_) | Self::Issuer(_) => "InvalidCertificate",
            Self::NotAnAuthority => "NotAnAuthority",
            Self::KeyPem(_) | Self::KeyAlgorithm => "InvalidKey",
            Self::Mismatch => "KeyMismatch",
            Self::Generate(_) | Self::Validity(_) => "GenerateFailed",
        }
    }
}

impl Authority {
    /// Reads an authority from the PEM pair that a cluster's CA Secret holds (`tls.crt`, `tls.key`). An expired
    /// certificate is accepted: what it issues fails verification at the client, as it would for real.
    ///
    /// # Errors
    /// When either is not what it should be, or they do not belong together. No error shows key material.
    pub fn from_pem(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Self, AuthorityError> {
        let certificate =
            CertificateDer::from_pem_slice(certificate_pem).map_err(AuthorityError::CertificatePem)?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(AuthorityError::KeyPem)?;
        Self::from_der(&certificate, key)
    }

    fn from_der(
        certificate: &CertificateDer<'_>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, AuthorityError> {
        let signer = signer(&key)?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(AuthorityError::Certificate)?;
        if !parsed.is_ca() {
            return Err(AuthorityError::NotAnAuthority);
        }
        if parsed.public_key().subject_public_key.data.as_ref() != signer.der_bytes() {
            return Err(AuthorityError::Mismatch);
        }
        let issuer = Issuer::from_ca_cert_der(certificate, signer).map_err(AuthorityError::Issuer)?;
        let fingerprint = Sha256::digest(certificate).into();
        let certificate_der = certificate.to_vec();
        Ok(Self { inner: Arc::new(Inner { certificate_der, key, issuer, fingerprint }) })
    }

    /// Makes a new self-signed authority in the form that Cluster API's own have: common name in the subject,
    /// `keyEncipherment`, `digitalSignature` and `certSign`, path length 0 (`util/certs` in cluster-api).
    ///
    /// # Errors
    /// When the validity cannot be expressed or the operating system has no entropy.
    pub fn generate(
        common_name: &str,
        algorithm: KeyAlgorithm,
        not_before: Timestamp,
        not_after: Timestamp,
    ) -> Result<Self, AuthorityError> {
        let pair = match algorithm {
            KeyAlgorithm::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyAlgorithm::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
            KeyAlgorithm::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
            KeyAlgorithm::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            KeyAlgorithm::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        }
        .map_err(AuthorityError::Generate)?;

        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(common_name, None);
        params.not_before = date_time(not_before).ok_or(AuthorityError::Validity(not_before))?;
        params.not_after = date_time(not_after).ok_or(AuthorityError::Validity(not_after))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        let certificate = params.self_signed(&pair).map_err(AuthorityError::Generate)?;
        let key = PrivateKeyDer::try_from(pair.serialize_der())
            .expect("rcgen serialises keys as PKCS#8, which PrivateKeyDer recognises");
        Self::from_der(certificate.der(), key)
    }

    /// Issues a leaf. The same authority and request give the same certificate, whichever process asks.
    ///
    /// # Errors
    /// When a name or a time cannot be expressed in a certificate.
    pub fn issue(&self, request: &LeafRequest) -> Result<Leaf, IssueError> {
        let secret = self.inner.key.secret_der();
        let key = derive::leaf_key(secret, &request.identity);
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(&request.common_name, request.organization.as_deref());
        params.serial_number = Some(SerialNumber::from_slice(&derive::serial(secret, &request.identity)));
        params.not_before = date_time(request.not_before).ok_or(IssueError::Validity(request.not_before))?;
        params.not_after = date_time(request.not_after).ok_or(IssueError::Validity(request.not_after))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if request.server_auth {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if request.client_auth {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        for name in &request.dns_names {
            let dns = name
                .as_str()
                .try_into()
                .map_err(|source| IssueError::DnsName { name: name.clone(), source })?;
            params.subject_alt_names.push(SanType::DnsName(dns));
        }
        params.subject_alt_names.extend(request.ip_addresses.iter().copied().map(SanType::IpAddress));

        let certificate =
            params.signed_by(&Signer::p256(&key), &self.inner.issuer).map_err(IssueError::Sign)?;
        let key_der = key.to_pkcs8_der().expect("a P-256 key always encodes as PKCS#8").as_bytes().to_vec();
        Ok(Leaf { certificate_der: certificate.der().to_vec(), key_der })
    }

    /// The authority's certificate, DER.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        &self.inner.certificate_der
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.inner.certificate_der)
    }

    /// The authority's private key, PEM, in the encoding it was read in.
    #[must_use]
    pub fn key_pem(&self) -> String {
        let label = match &self.inner.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        pem(label, self.inner.key.secret_der())
    }

    /// SHA-256 of the certificate's DER: equal exactly when the authority is.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.inner.fingerprint
    }
}

impl std::fmt::Debug for Authority {
    /// Shows which authority it is, never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fingerprint: String =
            self.inner.fingerprint[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        f.debug_struct("Authority").field("fingerprint", &fingerprint).finish_non_exhaustive()
    }
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.inner.fingerprint == other.inner.fingerprint
    }
}

impl Eq for Authority {}

/// Recognises the key by trying: PKCS#8 does not say RSA or curve on its outside.
fn signer(key: &PrivateKeyDer<'static>) -> Result<Signer, AuthorityError> {
    let der = key.secret_der();
    let p256 = p256::SecretKey::from_sec1_der(der).or_else(|_| p256::SecretKey::from_pkcs8_der(der));
    if let Ok(secret) = p256 {
        return Ok(Signer::p256(&secret));
    }
    let p384 = p384::SecretKey::from_sec1_der(der).or_else(|_| p384::SecretKey::from_pkcs8_der(der));
    if let Ok(secret) = p384 {
        return Ok(Signer::p384(&secret));
    }
    KeyPair::from_der_and_sign_algo(key, &rcgen::PKCS_RSA_SHA256)
        .map(Signer::Rsa)
        .map_err(|_| AuthorityError::KeyAlgorithm)
}

/// Go writes names as `PrintableString` where they fit; clients compare issuers byte by byte, so we keep to that.
fn distinguished_name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let value = |text: &str| {
        text.try_into().map_or_else(|_| DnValue::Utf8String(text.to_owned()), DnValue::PrintableString)
    };
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, value(organization));
    }
    name.push(DnType::CommonName, value(common_name));
    name
}

fn date_time(at: Timestamp) -> Option<time::OffsetDateTime> {
    let date_time = time::OffsetDateTime::from_unix_timestamp(at.as_second()).ok()?;
    (0..=9999).contains(&date_time.year()).then_some(date_time)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::server::WebPkiClientVerifier;
    use rustls::server::danger::ClientCertVerifier as _;

    use super::*;
    use crate::client_identity;

    const DAY: i64 = 86_400;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + day * DAY).unwrap()
    }

    fn authority(algorithm: KeyAlgorithm) -> Authority {
        Authority::generate("kubernetes", algorithm, at(0), at(3650)).unwrap()
    }

    fn request() -> LeafRequest {
        LeafRequest {
            common_name: "kube-apiserver".into(),
            organization: None,
            dns_names: vec!["kubernetes.default.svc".into()],
            ip_addresses: vec!["10.0.0.7".parse().unwrap()],
            server_auth: true,
            client_auth: false,
            not_before: at(0),
            not_after: at(365),
            identity: "default/demo/kube-apiserver".into(),
        }
    }

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_700_000_000 + 10 * DAY as u64))
    }

    const ALGORITHMS: [KeyAlgorithm; 3] =
        [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384];

    #[test]
    fn server_leaf_of_every_algorithm_verifies_against_its_authority() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        for algorithm in ALGORITHMS {
            let authority = authority(algorithm);
            let leaf = authority.issue(&request()).unwrap();
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from(authority.certificate_der().to_vec())).unwrap();
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap();
            for name in ["10.0.0.7", "kubernetes.default.svc"] {
                verifier
                    .verify_server_cert(
                        &CertificateDer::from(leaf.certificate_der().to_vec()),
                        &[],
                        &ServerName::try_from(name).unwrap(),
                        &[],
                        now(),
                    )
                    .unwrap_or_else(|error| panic!("{algorithm:?} {name}: {error}"));
            }
        }
    }

    #[test]
    fn client_leaf_verifies_and_names_its_user() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = authority(KeyAlgorithm::EcdsaP256);
        let leaf = authority
            .issue(&LeafRequest {
                common_name: "kubernetes-admin".into(),
                organization: Some("system:masters".into()),
                server_auth: false,
                client_auth: true,
                ..request()
            })
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate_der().to_vec())).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        verifier
            .verify_client_cert(&CertificateDer::from(leaf.certificate_der().to_vec()), &[], now())
            .unwrap();
        let identity = client_identity(leaf.certificate_der()).unwrap();
        assert_eq!(identity.common_name, "kubernetes-admin");
        assert_eq!(identity.organizations, ["system:masters"]);
    }

    #[test]
    fn same_request_gives_the_same_certificate_after_the_authority_is_read_again() {
        for algorithm in ALGORITHMS {
            let first = authority(algorithm);
            let again =
                Authority::from_pem(first.certificate_pem().as_bytes(), first.key_pem().as_bytes()).unwrap();
            assert_eq!(first, again);
            let (a, b) = (first.issue(&request()).unwrap(), again.issue(&request()).unwrap());
            assert_eq!(a.certificate_der(), b.certificate_der(), "{algorithm:?}");
            assert_eq!(a.key_der(), b.key_der(), "{algorithm:?}");
        }
    }

    #[test]
    fn another_identity_gives_another_key_and_serial() {
        let authority = authority(KeyAlgorithm::EcdsaP256);
        let one = authority.issue(&request()).unwrap();
        let other = authority.issue(&LeafRequest { identity: "other".into(), ..request() }).unwrap();
        assert_ne!(one.key_der(), other.key_der());
        let serial =
            |leaf: &Leaf| X509Certificate::from_der(leaf.certificate_der()).unwrap().1.raw_serial().to_vec();
        assert_ne!(serial(&one), serial(&other));
    }

    #[test]
    fn issuer_of_a_leaf_is_the_subject_of_the_authority_byte_by_byte() {
        let authority = authority(KeyAlgorithm::Rsa2048);
        let leaf = authority.issue(&request()).unwrap();
        let (_, ca) = X509Certificate::from_der(authority.certificate_der()).unwrap();
        let (_, leaf) = X509Certificate::from_der(leaf.certificate_der()).unwrap();
        assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw());
    }

    /// OpenSSL writes the encodings that Go writes: PKCS#1 for RSA, SEC1 for curves.
    fn openssl_pair(key_arguments: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let run = |arguments: &[&str], stdin: &[u8]| {
            use std::io::Write as _;
            let mut child = std::process::Command::new("openssl")
                .args(arguments)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(stdin).unwrap();
            child.wait_with_output().unwrap().stdout
        };
        let key = run(key_arguments, b"");
        let certificate = run(
            &["req", "-x509", "-new", "-key", "/dev/stdin", "-subj", "/CN=kubernetes", "-days", "9"],
            &key,
        );
        (certificate, key)
    }

    #[test]
    fn keys_as_go_and_openssl_write_them_are_read() {
        let cases: [(&[&str], &str); 3] = [
            (&["genrsa", "-traditional", "2048"], "BEGIN RSA PRIVATE KEY"),
            (&["ecparam", "-name", "prime256v1", "-genkey", "-noout"], "BEGIN EC PRIVATE KEY"),
            (&["ecparam", "-name", "secp384r1", "-genkey", "-noout"], "BEGIN EC PRIVATE KEY"),
        ];
        for (arguments, label) in cases {
            let (certificate, key) = openssl_pair(arguments);
            assert!(String::from_utf8_lossy(&key).contains(label), "{arguments:?}");
            let authority = Authority::from_pem(&certificate, &key).unwrap();
            assert!(authority.key_pem().contains(label));
            authority.issue(&request()).unwrap();
        }
    }

    #[test]
    fn wrong_pairs_say_what_is_wrong_with_them() {
        let good = authority(KeyAlgorithm::EcdsaP256);
        let other = authority(KeyAlgorithm::EcdsaP256);
        let leaf = good.issue(&request()).unwrap();
        let category = |certificate: &str, key: &str| {
            Authority::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err().category()
        };
        assert_eq!(category("hello", &good.key_pem()), "InvalidCertificate");
        assert_eq!(category(&good.certificate_pem(), "hello"), "InvalidKey");
        assert_eq!(category(&good.certificate_pem(), &other.key_pem()), "KeyMismatch");
        assert_eq!(category(&leaf.certificate_pem(), &leaf.key_pem()), "NotAnAuthority");
    }

    #[test]
    fn debug_output_never_shows_the_key() {
        let authority = authority(KeyAlgorithm::EcdsaP256);
        let shown = format!("{authority:?}");
        assert!(shown.contains("fingerprint") && !shown.contains("key"), "{shown}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_an_error_and_never_a_panic(
            certificate in proptest::collection::vec(any::<u8>(), 0..300),
            key in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let armour = |label: &str, der: &[u8]| pem(label, der).into_bytes();
            prop_assert!(Authority::from_pem(&certificate, &key).is_err());
            prop_assert!(Authority::from_pem(
                &armour("CERTIFICATE", &certificate), &armour("PRIVATE KEY", &key)).is_err());
            prop_assert!(client_identity(&certificate).is_err());
        }
    }
}
