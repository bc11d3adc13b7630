//! Private keys: reading them in any encoding, and signing with them.

use p256::{
    ecdsa::signature::Signer as _,
    pkcs8::{ObjectIdentifier, PrivateKeyInfoRef},
};
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer};
use thiserror::Error;

use crate::authority::KeyAlgorithm;

/// `rsaEncryption`, RFC 8017 appendix C.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// `id-ecPublicKey`, RFC 5480 section 2.1.1.
const ELLIPTIC_CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// Why a key cannot be used for signing. No variant shows a part of the key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The PKCS#8 structure cannot be parsed.
    #[error("its PKCS#8 encoding is damaged")]
    Damaged,
    /// PKCS#8 names an unsupported algorithm.
    #[error("its algorithm {0} is neither RSA nor elliptic curve")]
    UnsupportedAlgorithm(String),
    /// An unsupported elliptic curve key.
    #[error("it is damaged, or on a curve other than P-256 and P-384")]
    Curve,
    /// An unsupported RSA key.
    #[error("it is damaged, or not of 2048 to 8192 bits")]
    Rsa(#[source] rcgen::Error),
}

/// A private key, with the values that are computed from it once.
pub(crate) struct PrivateKey {
    /// The key in the encoding in which it was read.
    encoded: PrivateKeyDer<'static>,
    /// The secret of the key, which does not depend on the encoding: the scalar, or the PKCS#1 structure.
    secret: Vec<u8>,
    signer: Signer,
}

impl PrivateKey {
    pub(crate) fn read(encoded: PrivateKeyDer<'static>) -> Result<Self, KeyError> {
        let (secret, signer) = match &encoded {
            PrivateKeyDer::Pkcs1(der) => rsa(der.secret_pkcs1_der())?,
            PrivateKeyDer::Sec1(der) => elliptic_curve(
                p256::SecretKey::from_sec1_der(der.secret_sec1_der()).ok(),
                p384::SecretKey::from_sec1_der(der.secret_sec1_der()).ok(),
            )?,
            PrivateKeyDer::Pkcs8(der) => {
                let info =
                    PrivateKeyInfoRef::try_from(der.secret_pkcs8_der()).map_err(|_| KeyError::Damaged)?;
                match info.algorithm.oid {
                    RSA => rsa(info.private_key.as_bytes())?,
                    ELLIPTIC_CURVE => elliptic_curve(
                        p256::SecretKey::try_from(info.clone()).ok(),
                        p384::SecretKey::try_from(info).ok(),
                    )?,
                    other => return Err(KeyError::UnsupportedAlgorithm(other.to_string())),
                }
            }
            _ => return Err(KeyError::Damaged),
        };
        Ok(Self {
            encoded,
            secret,
            signer,
        })
    }

    pub(crate) fn signer(&self) -> &Signer {
        &self.signer
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The DER from which the key was read, with its PEM label.
    pub(crate) fn encoded(&self) -> (&'static str, &[u8]) {
        let label = match &self.encoded {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        (label, self.encoded.secret_der())
    }
}

fn rsa(pkcs1: &[u8]) -> Result<(Vec<u8>, Signer), KeyError> {
    let der = PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(pkcs1));
    let pair = KeyPair::from_der_and_sign_algo(&der, &rcgen::PKCS_RSA_SHA256).map_err(KeyError::Rsa)?;
    Ok((pkcs1.to_vec(), Signer::Rsa(pair)))
}

fn elliptic_curve(
    p256: Option<p256::SecretKey>,
    p384: Option<p384::SecretKey>,
) -> Result<(Vec<u8>, Signer), KeyError> {
    match (p256, p384) {
        (Some(key), _) => Ok((key.to_bytes().to_vec(), Signer::p256(&key))),
        (None, Some(key)) => Ok((key.to_bytes().to_vec(), Signer::p384(&key))),
        (None, None) => Err(KeyError::Curve),
    }
}

/// A key that signs certificates.
///
/// Elliptic-curve signatures are not made by rcgen, whose signatures are randomised: with RFC 6979 nonces, a restarted
/// process issues the same certificate. RSA signatures (PKCS#1 v1.5) are deterministic anyway.
pub(crate) enum Signer {
    Rsa(KeyPair),
    P256 {
        key: p256::ecdsa::SigningKey,
        public: Vec<u8>,
    },
    P384 {
        key: p384::ecdsa::SigningKey,
        public: Vec<u8>,
    },
}

impl Signer {
    pub(crate) fn p256(secret: &p256::SecretKey) -> Self {
        // The signing key computes the public key, which is most of the work.
        let key = p256::ecdsa::SigningKey::from(secret);
        let public = key.verifying_key().to_sec1_point(false).as_bytes().to_vec();
        Self::P256 { key, public }
    }

    pub(crate) fn p384(secret: &p384::SecretKey) -> Self {
        let key = p384::ecdsa::SigningKey::from(secret);
        let public = key.verifying_key().to_sec1_point(false).as_bytes().to_vec();
        Self::P384 { key, public }
    }

    /// The algorithm, if it is one that Cluster API offers.
    pub(crate) fn key_algorithm(&self) -> Option<KeyAlgorithm> {
        match self {
            // RFC 8017, appendix A.1.1: a modulus with a leading zero, the exponent 65537 and three headers, which are
            // 14 bytes besides the modulus.
            Self::Rsa(pair) => match pair.der_bytes().len().saturating_sub(14) * 8 {
                2048 => Some(KeyAlgorithm::Rsa2048),
                3072 => Some(KeyAlgorithm::Rsa3072),
                4096 => Some(KeyAlgorithm::Rsa4096),
                _ => None,
            },
            Self::P256 { .. } => Some(KeyAlgorithm::EcdsaP256),
            Self::P384 { .. } => Some(KeyAlgorithm::EcdsaP384),
        }
    }
}

impl PublicKeyData for Signer {
    fn der_bytes(&self) -> &[u8] {
        match self {
            Self::Rsa(pair) => pair.der_bytes(),
            Self::P256 { public, .. } | Self::P384 { public, .. } => public,
        }
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self {
            Self::Rsa(_) => &rcgen::PKCS_RSA_SHA256,
            Self::P256 { .. } => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::P384 { .. } => &rcgen::PKCS_ECDSA_P384_SHA384,
        }
    }
}

impl SigningKey for Signer {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        match self {
            Self::Rsa(pair) => pair.sign(message),
            Self::P256 { key, .. } => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                Ok(signature.to_der().as_bytes().to_vec())
            }
            Self::P384 { key, .. } => {
                let signature: p384::ecdsa::Signature = key.sign(message);
                Ok(signature.to_der().as_bytes().to_vec())
            }
        }
    }
}
