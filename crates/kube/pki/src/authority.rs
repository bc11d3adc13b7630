//! Certificate authorities.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use p256::pkcs8::EncodePrivateKey as _;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, RsaKeySize, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate, X509Error};

use crate::{
    certificate::{Unsigned, name},
    derive,
    key::{KeyError, PrivateKey, Signer},
    leaf::{IssueError, Leaf, LeafRequest},
    pem::{self, PemError},
};

/// A certificate authority: its certificate and its private key. Cheap to clone.
#[derive(Clone)]
pub struct Authority {
    inner: Arc<Inner>,
}

struct Inner {
    certificate_der: Vec<u8>,
    /// The subject as encoded in the certificate. It is the issuer of every leaf, byte by byte.
    subject_der: Vec<u8>,
    /// The subject key identifier, if the certificate has one. Every leaf refers to it.
    key_identifier: Option<Vec<u8>>,
    key: PrivateKey,
    fingerprint: [u8; 32],
}

/// The key algorithms that Cluster API offers for its control plane (`encryptionAlgorithm`). Authorities can have any
/// of them.
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

impl KeyAlgorithm {
    /// The algorithm's name in `encryptionAlgorithm` (kubeadm, `apis/kubeadm/v1beta4/types.go`).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rsa2048 => "RSA-2048",
            Self::Rsa3072 => "RSA-3072",
            Self::Rsa4096 => "RSA-4096",
            Self::EcdsaP256 => "ECDSA-P256",
            Self::EcdsaP384 => "ECDSA-P384",
        }
    }
}

/// Why a certificate and a key cannot be used as an authority. No variant, and no source of one, shows the key.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// There is no certificate in the text.
    #[error("failed to read the certificate from PEM")]
    CertificatePem(#[source] PemError),
    /// The certificate's DER cannot be parsed.
    #[error("failed to parse the certificate")]
    Certificate(#[source] x509_parser::nom::Err<X509Error>),
    /// The certificate is not one of a CA, or may not sign certificates.
    #[error("failed to use the certificate as an issuer: it is not a certificate authority's")]
    NotAnAuthority,
    /// There is no private key in the text.
    #[error("failed to read the private key from PEM")]
    KeyPem(#[source] PemError),
    /// The key is damaged, or of an unsupported algorithm.
    #[error("failed to read the private key")]
    Key(#[source] KeyError),
    /// The key belongs to another certificate.
    #[error("failed to pair the private key with the certificate: they do not match")]
    Mismatch,
    /// A key or a certificate could not be generated.
    #[error("failed to generate the authority")]
    Generate(#[source] rcgen::Error),
    /// A time that a certificate cannot express.
    #[error("failed to put {0} into a certificate: outside the years 0000 to 9999")]
    Validity(Timestamp),
}

impl AuthorityError {
    /// A short name from a fixed set, for metrics and condition reasons.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::CertificatePem(_) | Self::Certificate(_) => "InvalidCertificate",
            Self::NotAnAuthority => "NotAnAuthority",
            Self::Key(KeyError::UnsupportedAlgorithm(_)) => "UnsupportedKeyAlgorithm",
            Self::KeyPem(_) | Self::Key(_) => "InvalidKey",
            Self::Mismatch => "KeyMismatch",
            Self::Generate(_) | Self::Validity(_) => "GenerateFailed",
        }
    }
}

impl Authority {
    /// Reads an authority from the PEM texts of a cluster's CA Secret (`tls.crt`, `tls.key`): the first certificate and
    /// the first private key. An expired certificate is accepted. Clients refuse the leaves that it issues, as in a
    /// real cluster.
    ///
    /// # Errors
    /// When the certificate or the key cannot be used, or they do not match. No error shows key material.
    pub fn from_pem(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Self, AuthorityError> {
        let certificate: CertificateDer<'_> =
            pem::decode(certificate_pem).map_err(AuthorityError::CertificatePem)?;
        let key = pem::decode(key_pem).map_err(AuthorityError::KeyPem)?;
        Self::new(
            certificate.to_vec(),
            PrivateKey::read(key).map_err(AuthorityError::Key)?,
        )
    }

    fn new(certificate_der: Vec<u8>, key: PrivateKey) -> Result<Self, AuthorityError> {
        let (_, certificate) =
            X509Certificate::from_der(&certificate_der).map_err(AuthorityError::Certificate)?;
        if !is_authority(&certificate) {
            return Err(AuthorityError::NotAnAuthority);
        }
        if certificate.public_key().subject_public_key.data.as_ref() != key.signer().der_bytes() {
            return Err(AuthorityError::Mismatch);
        }
        let subject_der = certificate.subject().as_raw().to_vec();
        let key_identifier = subject_key_identifier(&certificate);
        let fingerprint = Sha256::digest(&certificate_der).into();
        let inner = Inner {
            certificate_der,
            subject_der,
            key_identifier,
            key,
            fingerprint,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Generates a self-signed authority like those of Cluster API: a common name as the subject, `keyEncipherment`,
    /// `digitalSignature` and `certSign`, path length 0 (`util/certs` in cluster-api).
    ///
    /// # Errors
    /// When a certificate cannot express the validity, or the operating system has no entropy.
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
        let key = PrivateKey::read(PrivateKeyDer::Pkcs8(pair.serialize_der().into()))
            .map_err(AuthorityError::Key)?;

        let mut params = CertificateParams::default();
        params.not_before = date_time(not_before).ok_or(AuthorityError::Validity(not_before))?;
        params.not_after = date_time(not_after).ok_or(AuthorityError::Validity(not_after))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        let subject = name(&[], common_name);
        let certificate_der = Unsigned::new(&params, &subject, &subject, key.signer(), key.signer())
            .and_then(|certificate| certificate.sign(key.signer()))
            .map_err(AuthorityError::Generate)?;
        Self::new(certificate_der, key)
    }

    /// Issues a leaf. The same authority and request always give the same certificate, in any process and for any
    /// encoding of the authority's key.
    ///
    /// # Errors
    /// When a name or a time cannot be expressed in a certificate.
    pub fn issue(&self, request: &LeafRequest) -> Result<Leaf, IssueError> {
        let Inner {
            key,
            subject_der,
            key_identifier,
            ..
        } = &*self.inner;
        let leaf_key = derive::leaf_key(key.secret(), &request.identity);
        let subject = name(&request.organizations, &request.common_name);
        let mut params = leaf_params(request)?;
        // Since 3.13 Python verifies strictly by default and requires the identifier, which Go writes, too.
        if let Some(identifier) = key_identifier {
            params.use_authority_key_identifier_extension = true;
            params.key_identifier_method = KeyIdMethod::PreSpecified(identifier.clone());
        }
        let mut certificate = Unsigned::new(
            &params,
            subject_der,
            &subject,
            &Signer::p256(&leaf_key),
            key.signer(),
        )
        .map_err(IssueError::Sign)?;
        let serial = derive::serial(key.secret(), &request.identity, &certificate.content());
        certificate.set_serial(&serial);
        let certificate_der = certificate.sign(key.signer()).map_err(IssueError::Sign)?;
        let key_der = leaf_key
            .to_pkcs8_der()
            .expect("a P-256 key always encodes as PKCS#8")
            .as_bytes()
            .to_vec();
        Ok(Leaf {
            certificate_der,
            key_der,
        })
    }

    /// The authority's certificate, DER.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        &self.inner.certificate_der
    }

    /// The authority's certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem::certificate_pem(&self.inner.certificate_der)
    }

    /// The authority's private key, PEM, in the encoding in which it was read.
    #[must_use]
    pub fn key_pem(&self) -> String {
        let (label, der) = self.inner.key.encoded();
        pem::encode(label, der)
    }

    /// The algorithm of the key; none if the key has a size that Cluster API does not offer.
    #[must_use]
    pub fn key_algorithm(&self) -> Option<KeyAlgorithm> {
        self.inner.key.signer().key_algorithm()
    }

    /// SHA-256 of the certificate's DER. Two authorities are equal if and only if their fingerprints are equal.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.inner.fingerprint
    }
}

impl fmt::Debug for Authority {
    /// Shows the beginning of the fingerprint, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint: String = self.inner.fingerprint[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        f.debug_struct("Authority")
            .field("fingerprint", &fingerprint)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Authority {
    /// Compares the certificates only: they contain the public key, and the private key was checked against it.
    fn eq(&self, other: &Self) -> bool {
        self.inner.fingerprint == other.inner.fingerprint
    }
}

impl Eq for Authority {}

/// Whether verifiers accept signatures of the certificate's key: its basic constraints mark it as an authority, and its
/// key usage, if there is one, includes `keyCertSign` (RFC 5280 section 4.2.1.3; Go checks both).
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    let may_sign = match certificate.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    certificate.is_ca() && may_sign
}

fn subject_key_identifier(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        })
}

fn leaf_params(request: &LeafRequest) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.not_before = date_time(request.not_before).ok_or(IssueError::Validity(request.not_before))?;
    params.not_after = date_time(request.not_after).ok_or(IssueError::Validity(request.not_after))?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if request.server_auth {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    if request.client_auth {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    for name in &request.dns_names {
        let dns = name.as_str().try_into().map_err(|source| IssueError::DnsName {
            name: name.clone(),
            source,
        })?;
        params.subject_alt_names.push(SanType::DnsName(dns));
    }
    params
        .subject_alt_names
        .extend(request.ip_addresses.iter().copied().map(SanType::IpAddress));
    Ok(params)
}

fn date_time(at: Timestamp) -> Option<time::OffsetDateTime> {
    let date_time = time::OffsetDateTime::from_unix_timestamp(at.as_second()).ok()?;
    (0..=9999).contains(&date_time.year()).then_some(date_time)
}
