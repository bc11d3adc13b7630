//! Checks that the words of the product that pages quote are in its sources: messages, annotations, labels.

use crate::{files, paths};

/// Pages with messages: every code span of several words is a message, with `…` for what varies.
const MESSAGES: &str = "troubleshooting.md";
/// A page with the names of annotations, labels and finalizers in the first column of its tables.
const NAMES: &str = "reference/annotations.md";
/// Messages of other programs.
const OF_OTHERS: [&str; 4] = [
    "failed to call webhook",
    "no such host",
    "connection refused",
    "kubectl ",
];
/// Pieces of messages that are shorter say nothing.
const PIECE_MIN: usize = 6;

/// The sources of the product, with strings of several lines in one piece, in lower case: a message that begins a
/// sentence has a capital letter.
pub(super) struct Sources(String);

impl Sources {
    pub(super) fn read() -> anyhow::Result<Self> {
        let mut text = String::new();
        for (_, folder) in paths::crates()?.into_iter().filter(|(name, _)| name != "xtask") {
            for source in files::sources(&folder.join("src"))? {
                text += &files::read(&source)?;
            }
        }
        Ok(Self::of(&text))
    }

    fn of(text: &str) -> Self {
        let mut joined = String::with_capacity(text.len());
        let mut pieces = text.split("\\\n");
        joined.push_str(pieces.next().unwrap_or_default());
        pieces.for_each(|piece| joined.push_str(piece.trim_start()));
        Self(joined.to_ascii_lowercase())
    }

    /// The words of a page that no source has.
    pub(super) fn missing(&self, page: &str, spans: &[(usize, String)]) -> Vec<String> {
        let has = |text: &str| self.0.contains(&text.to_ascii_lowercase());
        let mut missing = Vec::new();
        for (column, span) in spans {
            let is_known = if page.ends_with(MESSAGES) {
                let is_message = span.contains(' ') && OF_OTHERS.iter().all(|other| !span.starts_with(other));
                let pieces = || {
                    span.split('…')
                        .map(str::trim)
                        .filter(|piece| piece.len() >= PIECE_MIN)
                };
                !is_message || (pieces().next().is_some() && pieces().all(has))
            } else if page.ends_with(NAMES) {
                *column != 1 || !span.contains('.') || has(span)
            } else {
                true
            };
            if !is_known {
                missing.push(format!("no source has `{span}`"));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_in_the_sources_piece_by_piece() {
        let sources = Sources::of("format!(\"the cloud has no {wanted}; it \\\n    has {known}\")");
        let missing = |page: &str, column: usize, span: &str| sources.missing(page, &[(column, span.into())]);
        assert_eq!(missing(MESSAGES, 0, "The cloud has no …; it has …"), [""; 0]);
        assert_eq!(missing(MESSAGES, 0, "kubectl get pods"), [""; 0]);
        assert_eq!(
            missing(MESSAGES, 0, "the cloud lacks …"),
            ["no source has `the cloud lacks …`"]
        );
        assert_eq!(missing(NAMES, 1, "a.b/c"), ["no source has `a.b/c`"]);
        assert_eq!(missing(NAMES, 2, "a.b/c"), [""; 0]);
    }
}
