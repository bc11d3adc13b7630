//! The status of a response.

use std::{error::Error, fmt};

use crate::wire::text;

text! {
    /// The result of a call, as the extension reports it.
    pub enum ResponseStatus {
        /// The call succeeded.
        Success = "Success",
        /// The call failed. The message says why.
        Failure = "Failure",
    }
}

// Clippy suggests to derive this, but the macro writes the enumeration.
#[allow(clippy::derivable_impls, reason = "the enumeration comes from a macro")]
impl Default for ResponseStatus {
    fn default() -> Self {
        Self::Success
    }
}

impl ResponseStatus {
    /// The status of a response without one; callers refuse it.
    #[must_use]
    pub fn absent() -> Self {
        Self::Other(String::new())
    }
}

/// Why a handler failed. It becomes the message of a response with status `Failure`, which Cluster API shows in
/// conditions, so the same failure should always have the same text.
///
/// `?` converts any error. The message has the error and its causes, separated by colons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
}

impl Failure {
    /// A failure with a message for people.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
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
