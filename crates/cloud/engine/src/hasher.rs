//! Hashing values into the same bytes on every machine and in every release.

use std::time::Duration;

use nephele_model::{ResourceId, SimTime};
use sha2::{Digest as _, Sha256};

/// A hash of a sequence of values. Each value is written so that no two sequences give the same bytes: text with its
/// length, numbers in a fixed width, options and lists with a count.
pub(crate) struct StableHasher(Sha256);

impl StableHasher {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(number.to_be_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    pub(crate) fn time(&mut self, at: SimTime) {
        self.number(at.as_millis());
    }

    pub(crate) fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(u64::from(duration.subsec_nanos()));
    }

    pub(crate) fn id(&mut self, id: &ResourceId) {
        let ResourceId {
            namespace,
            cluster,
            kind,
            name,
        } = id;
        for part in [namespace, cluster, kind.as_str(), name] {
            self.text(part);
        }
    }

    /// A list whose items are written by `write`. An option is a list of at most one item.
    pub(crate) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        let items = items.into_iter();
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }
}
