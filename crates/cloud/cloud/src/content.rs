//! What a cluster's store holds, for a file or another store.

use std::collections::BTreeSet;

use bytes::Bytes;
use nephele_apiserver::Key;

/// The content of a cluster's store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// The objects, each as JSON.
    pub(crate) objects: Vec<(Key, Bytes)>,
    /// The objects that every cluster has at first and a client deleted.
    pub(crate) deleted: BTreeSet<Key>,
}
