//! How a call went.

use std::{error::Error, fmt};

use crate::wire::text;

text! {
    /// How a call went, in the extension's words.
    pub enum ResponseStatus {
        /// It was done.
        Success = "Success",
        /// It was not; the message says why.
        Failure = "Failure",
    }
}

// Not derived: clippy would, but the macro writes the enumeration.
#[allow(clippy::derivable_impls, reason = "the enumeration comes from a macro")]
impl Default for ResponseStatus {
    fn default() -> Self {
        Self::Success
    }
}

impl ResponseStatus {
    /// What a response without a status has; a caller refuses it.
    #[must_use]
    pub fn absent() -> Self {
        Self::Other(String::new())
    }
}

/// Why a handler did not do what it was asked. It becomes the message of a response with status `Failure`, which
/// Cluster API shows in conditions: the same failure should read the same each time.
///
/// Any error is one by `?`; its causes follow, each after a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
}

impl Failure {
    /// With a message for people.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self { message }
    }
}
