//! A mistake in a spec.

use thiserror::Error;

/// A field of the spec that cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("spec.{field}: {message}")]
pub(crate) struct Mistake {
    field: String,
    message: String,
}

pub(crate) type Valid<T> = Result<T, Mistake>;

pub(crate) fn mistake(field: impl Into<String>, message: impl Into<String>) -> Mistake {
    Mistake { field: field.into(), message: message.into() }
}
