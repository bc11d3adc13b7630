//! Where the changes of a store go so that they outlive it, and how a store comes back from there.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::object::{Key, Object};
use super::{Store, StoreOptions, definition};

/// Keeps what a store is told to keep. A store without one is in memory alone.
pub trait Journal: Send + Sync {
    /// One change of the store and all that followed from it, to be kept as a whole, with the store's version after it.
    /// Called in the order of the changes, under the store's lock: it must not wait, and cannot fail.
    fn record(&self, resource_version: u64, changes: Vec<Recorded>);

    /// Ready when everything recorded before is kept, or cannot be for now.
    fn kept(&self) -> Pin<Box<dyn Future<Output = Result<(), Unkept>> + Send>>;

    /// Whether a change that is made now can be expected to be kept. Clients' changes are refused when not.
    ///
    /// # Errors
    /// When it cannot.
    fn admits(&self) -> Result<(), Unkept>;
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its name.
    pub key: Key,
    /// How it is now, or was when it went.
    pub state: Kept,
}

/// What is kept of an object.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The object.
    There(Arc<Object>),
    /// That it is gone; this was its last state.
    Gone(Arc<Object>),
}

/// Why something is not kept, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unkept(pub String);

/// What was kept cannot be what a store has written.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// It is not JSON.
    #[error("failed to read {}{} {:?}", resource(.0), namespace(.0), .0.name)]
    Json(Key, #[source] serde_json::Error),
    /// It is another object, or none.
    #[error("failed to find {}{} {:?} in what was kept of it", resource(.0), namespace(.0), .0.name)]
    Other(Key),
}

fn resource(key: &Key) -> String {
    key.resource.to_string()
}

fn namespace(key: &Key) -> String {
    if key.namespace.is_empty() { String::new() } else { format!(" {:?}", key.namespace) }
}

impl Store {
    /// A store with what was kept of another one: objects are as they were, their versions among it, and the kinds are
    /// served that definitions among them define. What is changed from now on goes to `journal`.
    ///
    /// The counter starts above every object's version and at [`StoreOptions::first_version`] at least, which has to be
    /// above every version that was recorded: the latest may have been a deletion's. The log is empty: who watched
    /// before is told to list again.
    ///
    /// # Errors
    /// When something that was kept is not what a store has written.
    pub fn restored(
        options: StoreOptions,
        now: Timestamp,
        kept: Vec<(Key, Bytes)>,
        journal: Arc<dyn Journal>,
    ) -> Result<Arc<Self>, RestoreError> {
        let mut objects = Vec::with_capacity(kept.len());
        for (key, bytes) in kept {
            let value: Value =
                serde_json::from_slice(&bytes).map_err(|error| RestoreError::Json(key.clone(), error))?;
            let object = Object::kept(&value, bytes).filter(|object| object.key(&key.resource) == key);
            objects.push((object.ok_or_else(|| RestoreError::Other(key.clone()))?, key));
        }
        objects.sort_by_key(|(object, _)| object.resource_version);
        let newest = objects.last().map_or(0, |(object, _)| object.resource_version);
        let first_version = options.first_version.max(newest.saturating_add(1));
        let store = Self::with_journal(StoreOptions { first_version, ..options }, Some(journal));
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

    /// Ready when all that was changed before is kept; at once without a journal.
    ///
    /// # Errors
    /// When it is not kept, for now.
    pub async fn kept(&self) -> Result<(), Unkept> {
        match &self.journal {
            Some(journal) => journal.kept().await,
            None => Ok(()),
        }
    }

    /// Whether what is changed now can be expected to be kept, as far as it has to be.
    ///
    /// # Errors
    /// When it cannot.
    pub fn admits(&self) -> Result<(), Unkept> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.admits())
    }
}
