//! The private key of an authority as rcgen wants it.

use p256::ecdsa::signature::Signer as _;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};

/// A key that signs certificates.
///
/// Elliptic-curve signatures are made here rather than by rcgen because theirs are randomised: RFC 6979 nonces make
/// the same certificate come out after every restart.
pub(crate) enum Signer {
    Rsa(KeyPair),
    P256 { key: p256::ecdsa::SigningKey, public: Vec<u8> },
    P384 { key: p384::ecdsa::SigningKey, public: Vec<u8> },
}

impl Signer {
    pub(crate) fn p256(secret: &p256::SecretKey) -> Self {
        let public = secret.public_key().to_sec1_point(false).as_bytes().to_vec();
        Self::P256 { key: secret.into(), public }
    }

    pub(crate) fn p384(secret: &p384::SecretKey) -> Self {
        let public = secret.public_key().to_sec1_point(false).as_bytes().to_vec();
        Self::P384 { key: secret.into(), public }
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
