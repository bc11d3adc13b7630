//! Why the store refuses.

use thiserror::Error;

use super::object::GroupResource;

/// A refusal, in the terms a Kubernetes `Status` has reasons for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No such object.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// Its collection.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// An object of that name is there.
    #[error("{resource} {name:?} already exists")]
    AlreadyExists {
        /// Its collection.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// The object is not the one the writer has seen.
    #[error("Operation cannot be fulfilled on {resource} {name:?}: {message}")]
    Conflict {
        /// Its collection.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// What differs.
        message: String,
    },
    /// The object says something it may not.
    #[error("{kind} {name:?} is invalid: {field}: {message}")]
    Invalid {
        /// Its kind.
        kind: String,
        /// Its group, for the details of the answer.
        group: String,
        /// Its name.
        name: String,
        /// The offending field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// The collection is not served.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// The namespace takes nothing new.
    #[error(
        "{resource} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
    )]
    NamespaceTerminating {
        /// The collection of the object that was to be created.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
}

/// The resource version asked for is older than the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Expired {
    /// The version asked for.
    pub requested: u64,
    /// The oldest version that can still be continued from.
    pub oldest: u64,
}
