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

/// The most characters of a message. A text of the spec in it may have the length of an object.
const MESSAGE_MAX: usize = 512;

pub(crate) fn mistake(field: impl Into<String>, message: impl Into<String>) -> Mistake {
    Mistake {
        field: field.into(),
        message: shortened(message.into()),
    }
}

/// The message, or its beginning.
pub(crate) fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
        message.truncate(end);
        message.push_str("...");
    }
    message
}
