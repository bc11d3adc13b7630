//! The journal, which keeps the changes of a store.

use std::{future::Future, pin::Pin, sync::Arc};

use thiserror::Error;

use super::{key::Key, object::Object};

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
