//! The owner of an address.

use std::{
    cmp::Ordering,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// The claim an address is for, and the IPAddress of the same name: `namespace/name`.
///
/// A handle; clones share the text. Neither a namespace nor a name can hold a `/`.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner {
    /// The hash of the text, stored so that a table of owners can grow without reading texts all over memory.
    /// Unkeyed: equal hashes only cost time, and a client that could make names collide could also make as many
    /// claims.
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
        Self { hash: hasher.finish(), text: text.into() }
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

/// Passes on the hash an [`Owner`] has.
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
