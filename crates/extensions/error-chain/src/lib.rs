//! The message of an error with its causes, for people. The crate depends on no other crate of Nephele, so that
//! `runtime-sdk` can be used without the rest.

use std::error::Error;

/// The message of an error, followed by the messages of its causes, joined by `: `.
///
/// A cause is left out if an earlier message already contains its text: several libraries print the cause in the
/// message and return it as the source, too. The answer of an API server reads as `kubectl` prints it: kube adds the Rust
/// value to it, which says the same again.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = without_answers(error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let message = without_answers(cause.to_string());
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    text
}

/// How kube begins an answer of an API server, and the Rust value after its message.
const ANSWER: &str = "ApiError: ";
const VALUE: &str = " (Status {";

/// A message without the Rust values of answers in it.
fn without_answers(mut text: String) -> String {
    while let Some(begin) = text.find(VALUE) {
        let end = end_of_value(&text[begin..]).map_or(text.len(), |length| begin + length);
        text.replace_range(begin..end, "");
    }
    text.replace(ANSWER, "")
}

/// How long the value in parentheses is that a text begins with, if it is whole. What is quoted in it may have
/// parentheses of its own.
fn end_of_value(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
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

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str);

    #[test]
    fn answer_of_an_api_server_has_no_rust_value() {
        let status = r#"Status { status: Some(Failure), code: 403, message: "no \"(x", details: Some(StatusDetails { name: ")" }) }"#;
        for (said, read) in [
            (
                format!("ApiError: no (x: Forbidden ({status})"),
                "no (x: Forbidden",
            ),
            (
                format!("failed to list: ApiError: no: Forbidden ({status}); try again"),
                "failed to list: no: Forbidden; try again",
            ),
            ("ApiError: cut (Status { status: Some(".to_owned(), "cut"),
            ("nothing (of it)".to_owned(), "nothing (of it)"),
        ] {
            assert_eq!(chain(&Said(said.leak())), read);
        }
    }

    #[test]
    fn each_cause_is_named_once() {
        let text = chain(&Outer(Middle(Inner)));
        assert_eq!(
            text,
            "failed to read the secret: ServiceError: connection refused"
        );
    }
}
