//! Error texts.

/// The beginning of a text, cut to a number of bytes. A cut text ends with `...`.
pub(crate) fn beginning(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Joins messages as Kubernetes does: each once, in brackets when there is more than one.
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
