//! The documents of a text. Pure.

/// The documents of a text, in order: a line that begins with `---` begins one, and one that begins with `...` ends one
/// (YAML 1.2.2, section 9.1). No other line can begin like that. Neither comments nor directives before a document are one.
pub(crate) fn documents_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (document, after) = split(rest);
            rest = after;
            if !is_blank(document) {
                return Some(document);
            }
        }
        None
    })
}

/// The first document of a text, and what is after it.
fn split(text: &str) -> (&str, &str) {
    let mut at = 0_usize;
    for line in text.split_inclusive('\n') {
        let end = at.saturating_add(line.len());
        if is_marker(line, "...") {
            return (&text[..at], &text[end..]);
        }
        if at > 0 && is_marker(line, "---") {
            return (&text[..at], &text[at..]);
        }
        at = end;
    }
    (text, "")
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether this has nothing but comments, directives and empty lines, and no mark that a document begins.
fn is_blank(document: &str) -> bool {
    let is_blank = |line: &str| {
        let text = line.trim_start_matches('\u{feff}');
        text.starts_with('%') || text.trim_start().is_empty() || text.trim_start().starts_with('#')
    };
    document.lines().all(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_begins_and_ends_at_a_mark() {
        for (text, expected) in [
            ("", &[][..]),
            ("# only this\n\n", &[]),
            ("a: 1", &["a: 1"]),
            ("---\na: 1\n", &["---\na: 1\n"]),
            (
                "# first\n---\na: 1\n--- # second\nb: 2\n",
                &["---\na: 1\n", "--- # second\nb: 2\n"],
            ),
            ("--- {a: 1}\n---\n---\n", &["--- {a: 1}\n", "---\n", "---\n"]),
            ("%YAML 1.2\n---\na: 1\n...\n# end\n", &["---\na: 1\n"]),
            ("a: 1\n...\nb: 2\n", &["a: 1\n", "b: 2\n"]),
            (
                "a: |\n  ---\n  ...\n---b: 2\n----\n",
                &["a: |\n  ---\n  ...\n---b: 2\n----\n"],
            ),
            ("a: 1\r\n---\r\nb: 2\r\n", &["a: 1\r\n", "---\r\nb: 2\r\n"]),
        ] {
            assert_eq!(documents_of(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
