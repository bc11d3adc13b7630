//! How a store is restored from the records of its journal.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::{Store, StoreOptions, definition, journal::Journal, key::Key, object::Object};
use crate::http::check_types;

/// The largest resource version that is restored. A store that counts a million changes a second from here has a hundred
/// thousand years left.
const VERSION_MAX: u64 = 1 << 62;

/// The records cannot have been written by a store.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The record is not JSON.
    #[error("failed to read {}{} {:?}", resource(.0), namespace(.0), .0.name)]
    Json(Key, #[source] serde_json::Error),
    /// The object has a field of another type than its kind has.
    #[error("failed to restore {}{} {:?}: {message}", resource(.key), namespace(.key), .key.name)]
    Type { key: Key, message: String },
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
    if key.namespace.is_empty() {
        String::new()
    } else {
        format!(" {:?}", key.namespace)
    }
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
                check_types(kind, &value).map_err(|error| RestoreError::Type {
                    key: key.clone(),
                    message: error.message,
                })?;
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
        let store = Self::with_journal(
            StoreOptions {
                first_version,
                ..options
            },
            journal,
        );
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
}
