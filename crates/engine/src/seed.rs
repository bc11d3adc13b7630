//! Where chance comes from.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest as _, Sha256};

use crate::identity::ResourceId;

/// The seed of a cloud: any text, three words by custom. The same seed and the same identities give the same draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed(String);

impl Seed {
    /// The seed `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text it was made of.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The generator for one decision. ChaCha is documented as portable, unlike rand's standard generator, so a seed
    /// means the same on every machine and release.
    pub(crate) fn draws(&self, id: &ResourceId, purpose: &str, attempt: u32) -> Draws {
        let mut hash = Sha256::new();
        let kind = format!("{:?}", id.kind);
        for part in [self.0.as_str(), &id.account, &id.group, &kind, &id.name, purpose] {
            // The length keeps ("ab", "c") apart from ("a", "bc").
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(attempt.to_be_bytes());
        Draws(ChaCha8Rng::from_seed(hash.finalize().into()))
    }
}

/// A stream of draws for one decision.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    /// Uniform in [0, 1), with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * SCALE
    }
}
