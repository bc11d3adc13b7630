//! An error with its causes, for people.

use std::error::Error;

/// The message of an error and those of its causes, each after a colon. A cause whose text is shown already is left
/// out, since some libraries print a cause and return it too.
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

/// The beginning of a text, of so many bytes at most, and that there was more of it.
pub(crate) fn beginning(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Several messages as Kubernetes writes them: each once, in brackets when there are more than one.
pub(crate) fn aggregate<T: ToString>(errors: &[T]) -> String {
    let mut messages: Vec<String> = Vec::new();
    for message in errors.iter().map(ToString::to_string) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_between_characters() {
        assert_eq!(beginning("abc", 3), "abc");
        assert_eq!(beginning("aüü", 2), "a...");
        assert_eq!(beginning("ü", 0), "...");
    }

    #[test]
    fn messages_are_there_once() {
        assert_eq!(aggregate(&["a"]), "a");
        assert_eq!(aggregate(&["b", "a", "b"]), "[b, a]");
    }
}
