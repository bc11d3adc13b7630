//! The owner of an address.

use std::{
    cmp::Ordering,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// The name of a claim, which is also the name of its IPAddress: `namespace/name`.
///
/// Cheap to clone: clones share the text. Neither a namespace nor a name can contain a `/`.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner {
    /// The hash of the text, stored so that a hash table of owners can grow without reading every text. It has no
    /// random key: collisions only cost time, and a client that could create claims with colliding names could
    /// create as many claims with any names.
    hash: u64,
    text: Arc<str>,
}

impl Owner {
    /// The owner called `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self {
            hash: hasher.finish(),
            text: text.into(),
        }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Ord for Owner {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Passes on the hash that an [`Owner`] stores.
#[derive(Default)]
pub(crate) struct OwnHash(u64);

impl Hasher for OwnHash {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
