//! Digests: the names of contents.

use std::fmt;

use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256:";

/// A digest by SHA-256. Its text has the algorithm in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn read(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(ALGORITHM)?;
        let is_hex = hex
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (hex.len() == 64 && is_hex).then(|| Self(hex.to_owned()))
    }

    pub(super) fn of(content: &[u8]) -> Self {
        Self::end(Sha256::new_with_prefix(content))
    }

    /// The digest of all that was given to a hasher.
    pub(super) fn end(hasher: Sha256) -> Self {
        let bytes = hasher.finalize();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The digits, which are the name of a folder.
    pub(super) fn hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{ALGORITHM}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_by_sha_256_is_read() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::read(empty), Some(Digest::of(b"")));
        assert_eq!(Digest::of(b"").to_string(), empty);
        for text in [
            "",
            "sha256:",
            "sha256:../../a",
            &empty.to_uppercase(),
            &empty[..70],
            &empty.replace("sha256", "sha512"),
        ] {
            assert_eq!(Digest::read(text), None, "{text}");
        }
    }
}
