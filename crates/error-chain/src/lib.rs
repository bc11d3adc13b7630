//! The message of an error with its causes, for people. The crate depends on no other crate of Nephele, so that
//! `runtime-sdk` can be used without the rest.

use std::error::Error;

/// The message of an error, followed by the messages of its causes, joined by `: `.
///
/// A cause is left out if an earlier message already contains its text: several libraries print the cause in the
/// message and return it as the source, too.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to read the secret")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("ServiceError: {0}")]
    struct Middle(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("connection refused")]
    struct Inner;

    #[test]
    fn each_cause_is_named_once() {
        let text = chain(&Outer(Middle(Inner)));
        assert_eq!(text, "failed to read the secret: ServiceError: connection refused");
    }
}
