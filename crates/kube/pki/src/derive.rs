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

/// Expands (`secret`, `purpose`, `identity`) into `N` bytes with HKDF-SHA-256 (RFC 5869).
fn expand<const N: usize>(secret: &[u8], purpose: &str, identity: &[u8]) -> [u8; N] {
    const { assert!(N <= 32 * 255, "HKDF-SHA-256 yields no more") };
    let pseudo_random_key = hkdf::Salt::new(hkdf::HKDF_SHA256, b"nephele-pki/v1").extract(secret);
    let info = [purpose.as_bytes(), &[0], identity];
    let mut out = [0; N];
    pseudo_random_key
        .expand(&info, Length(N))
        .and_then(|material| material.fill(&mut out))
        .expect("the length was checked above");
    out
}

/// The P-256 key that belongs to `identity` under this authority.
pub(crate) fn leaf_key(secret: &[u8], identity: &str) -> SecretKey {
    // A candidate is out of range for the curve's order with probability 2^-32: try again until one is in range.
    (0u32..)
        .find_map(|attempt| {
            let candidate: [u8; 32] = expand(secret, &format!("leaf-key/{attempt}"), identity.as_bytes());
            SecretKey::from_slice(&candidate).ok()
        })
        .expect("2^32 independent candidates cannot all be out of range")
}

/// A positive serial of 16 bytes (RFC 5280 section 4.1.2.2 allows up to 20). It depends on the identity and on the
/// content, because a certificate that was renewed or got a new name must not have the serial of the earlier one.
pub(crate) fn serial(secret: &[u8], identity: &str, content: &[u8]) -> [u8; 16] {
    // The length separates the end of the identity from the beginning of the content.
    let length = (identity.len() as u64).to_be_bytes();
    let mut serial: [u8; 16] = expand(
        secret,
        "serial",
        &[&length, identity.as_bytes(), content].concat(),
    );
    serial[0] = (serial[0] & 0x7f) | 0x40;
    serial
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value was computed with another implementation of RFC 5869. If it changes, the certificates of all clusters
    /// change with the next release.
    #[test]
    fn derived_bytes_never_change() {
        let key: [u8; 32] = expand(b"secret", "leaf-key/0", b"default/demo/kube-apiserver");
        let shown: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            shown,
            "6c91ab2655147a1ba896bb1efd8cd0fcdda86aaa6a7c396aadf5317e08a604f7"
        );
    }
}
