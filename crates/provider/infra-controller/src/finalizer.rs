//! Our finalizer on an object: what a plan does with it, and how far the deletion is that it waits for. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_cloud::Deletion;

/// What a plan does with our finalizer on its object. Never is it added to an object that is being deleted, nor removed from
/// one that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finalizer {
    /// It stays on the object, if it is there.
    Kept,
    /// It is added before anything is created for the object.
    Added,
    /// It is added in the write that publishes what was created for the object.
    AddedWithSpec,
    /// It is removed once nothing is left that was created for the object.
    Released,
}

/// How far the deletion is of what was created for an object.
#[derive(Debug)]
pub(crate) enum Removal<E> {
    /// Nothing is left but the object.
    Done,
    /// The cloud is deleting it, and reports the end.
    InProgress,
    /// The cloud refuses or delays the deletion.
    Refused(E),
    /// The cloud has nothing left; the claims of these names still exist.
    Releasing(Vec<String>),
}

impl<E> Removal<E> {
    /// By the answer of the cloud; none for an object that names no cluster, for which the cloud has nothing.
    pub(crate) fn answered(answer: Option<Result<Deletion, E>>) -> Self {
        match answer {
            None | Some(Ok(Deletion::Gone)) => Self::Done,
            Some(Ok(Deletion::InProgress { .. })) => Self::InProgress,
            Some(Err(error)) => Self::Refused(error),
        }
    }

    /// Once the claims were asked to go, of which those of these names are left. Addresses are in use until the cloud has
    /// nothing left.
    pub(crate) fn with_claims(self, left: Vec<String>) -> Self {
        match self {
            Self::Done if !left.is_empty() => Self::Releasing(left),
            other => other,
        }
    }

    /// Whether nothing is left, so that the finalizer may go.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

/// Whether our finalizer is on an object. Nothing was created for an object without it.
pub(crate) fn is_held(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata
        .finalizers
        .iter()
        .flatten()
        .any(|present| present == finalizer)
}

#[cfg(test)]
pub(crate) mod tests;
