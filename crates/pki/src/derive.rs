//! Keys and serial numbers derived from an authority's private key.

use aws_lc_rs::hkdf;
use p256::SecretKey;

/// Length of a derived secret, in bytes.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Expands (`secret`, `identity`, `purpose`) into `N` bytes with HKDF-SHA-256 (RFC 5869).
pub(crate) fn expand<const N: usize>(secret: &[u8], identity: &str, purpose: &str) -> [u8; N] {
    let pseudo_random_key = hkdf::Salt::new(hkdf::HKDF_SHA256, b"nephele-pki/v1").extract(secret);
    let info = [purpose.as_bytes(), &[0], identity.as_bytes()];
    let mut out = [0; N];
    pseudo_random_key
        .expand(&info, Length(N))
        .and_then(|material| material.fill(&mut out))
        .expect("HKDF-SHA-256 yields up to 8160 bytes and N is at most 32");
    out
}

/// The P-256 key that belongs to `identity` under this authority.
pub(crate) fn leaf_key(secret: &[u8], identity: &str) -> SecretKey {
    // A candidate is out of range for the curve's order with probability 2^-32: draw again until one fits.
    (0u32..)
        .find_map(|attempt| {
            let candidate: [u8; 32] = expand(secret, identity, &format!("leaf-key/{attempt}"));
            SecretKey::from_slice(&candidate).ok()
        })
        .expect("2^32 independent candidates cannot all be out of range")
}

/// A positive serial of 16 bytes, the same for the same identity (RFC 5280 section 4.1.2.2 allows up to 20).
pub(crate) fn serial(secret: &[u8], identity: &str) -> [u8; 16] {
    let mut serial: [u8; 16] = expand(secret, identity, "serial");
    serial[0] = (serial[0] & 0x7f) | 0x40;
    serial
}
