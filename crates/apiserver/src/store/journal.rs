//! The journal, which keeps the changes of a store, and the restoration of a store from its records.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::object::{Key, Object};
use super::{Store, StoreOptions, definition};
use crate::http::check_types;

/// The largest resource version that is restored. A store that counts a million changes a second from here has a hundred
/// thousand years left.
const VERSION_MAX: u64 = 1 << 62;

/// Keeps the changes of a store. A store without a journal is only in memory.
pub trait Journal: Send + Sync {
    /// Records one change of the store with all its consequences, to be kept as a whole, and the store's version after
    /// it. Called in the order of the changes and under the store's lock, so it must not wait and cannot fail.
    fn record(&self, resource_version: u64, changes: Vec<Recorded>);

    /// Ready when everything recorded before is kept, or when that is impossible for now.
    fn kept(&self) -> Pin<Box<dyn Future<Output = Result<(), Unkept>> + Send>>;

    /// Whether a change made now is likely to be kept. If not, changes by clients are refused.
    ///
    /// # Errors
    /// When it is not likely to be kept.
    fn admits(&self) -> Result<(), Unkept>;
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its key.
    pub key: Key,
    /// Its new state, or its last state if it is gone.
    pub state: Kept,
}

/// The state to keep of an object.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The object exists in this version.
    There(Arc<Object>),
    /// The object is gone; this was its last version.
    Gone(Arc<Object>),
}

/// Why a change could not be kept, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unkept(pub String);

/// The records cannot have been written by a store.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The record is not JSON.
    #[error("failed to read {}{} {:?}", resource(.0), namespace(.0), .0.name)]
    Json(Key, #[source] serde_json::Error),
    /// The object has a field of another type than its kind has.
    #[error("failed to restore {}{} {:?}: {message}", resource(.key), namespace(.key), .key.name)]
    Type {
        /// The object.
        key: Key,
        /// Which field it is.
        message: String,
    },
    /// No store counts that far.
    #[error("failed to restore {}{} {:?}: its resource version is too large", resource(.0), namespace(.0), .0.name)]
    Version(Key),
    /// The record contains another object, or none.
    #[error("failed to restore {}{} {:?}: its record holds another object", resource(.0), namespace(.0), .0.name)]
    Other(Key),
}

fn resource(key: &Key) -> String {
    key.resource.to_string()
}

fn namespace(key: &Key) -> String {
    if key.namespace.is_empty() { String::new() } else { format!(" {:?}", key.namespace) }
}

impl Store {
    /// A store with the objects that another store kept, at their versions, and the kinds of the definitions among
    /// them. Later changes are recorded in `journal`, if there is one.
    ///
    /// The counter starts above every object's version and at least at [`StoreOptions::first_version`]. That has to
    /// be above every recorded version, because the latest may belong to a deletion. The log is empty, so earlier
    /// watchers have to list again.
    ///
    /// # Errors
    /// When a record cannot have been written by a store.
    pub fn restored(
        options: StoreOptions,
        now: Timestamp,
        kept: Vec<(Key, Bytes)>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Result<Arc<Self>, RestoreError> {
        let mut objects = Vec::with_capacity(kept.len());
        for (key, bytes) in kept {
            let value: Value =
                serde_json::from_slice(&bytes).map_err(|error| RestoreError::Json(key.clone(), error))?;
            if let Some(kind) = options.registry.get(&key.resource) {
                check_types(kind, &value)
                    .map_err(|error| RestoreError::Type { key: key.clone(), message: error.message })?;
            }
            let object = Object::kept(&value, bytes).filter(|object| object.key(&key.resource) == key);
            let object = object.ok_or_else(|| RestoreError::Other(key.clone()))?;
            if object.resource_version > VERSION_MAX {
                return Err(RestoreError::Version(key));
            }
            objects.push((object, key));
        }
        objects.sort_by_key(|(object, _)| object.resource_version);
        let newest = objects.last().map_or(0, |(object, _)| object.resource_version);
        let first_version = options.first_version.max(newest.saturating_add(1));
        let store = Self::with_journal(StoreOptions { first_version, ..options }, journal);
        {
            let mut state = store.state.lock();
            for (object, key) in objects {
                let object = state.place(&key, object).0;
                if let Some(kind) = state.registry.get(&key.resource).cloned() {
                    definition::written(&mut state, &kind, &object);
                }
                state.note_event(now, &key, &object);
            }
        }
        Ok(store)
    }

    /// Ready when all earlier changes are kept. Ready at once without a journal.
    ///
    /// # Errors
    /// When the changes cannot be kept for now.
    pub async fn kept(&self) -> Result<(), Unkept> {
        match &self.journal {
            Some(journal) => journal.kept().await,
            None => Ok(()),
        }
    }

    /// Whether a change made now is likely to be kept. Always true without a journal.
    ///
    /// # Errors
    /// When it is not likely to be kept.
    pub fn admits(&self) -> Result<(), Unkept> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.admits())
    }
}
