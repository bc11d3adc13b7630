//! Common misspellings, in prose and in identifiers, by the dictionary of typos (<https://github.com/crate-ci/typos>).

use typos_dict::WORD;
use unicase::UniCase;

/// Words that the dictionary takes for misspellings: names of crates or parts of them, a part of a query in a URL, and a name in the
/// interface of an allocator.
const RIGHT: [&str; 4] = ["flate", "ratatui", "dpending", "allocatedp"];

/// The misspellings of a text: line numbers with messages.
pub(super) fn find(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in words(line) {
            if let Some(better) = corrected(word) {
                found.push((index + 1, format!("`{word}`: write {better}")));
            }
        }
    }
    found
}

/// What a misspelled word could be.
fn corrected(word: &str) -> Option<String> {
    // Shorter ones are mostly names of variables and units.
    if word.len() < 4 || RIGHT.contains(&word.to_ascii_lowercase().as_str()) {
        return None;
    }
    let better = WORD.find(&UniCase::new(word))?;
    let better: Vec<_> = better.iter().map(|word| format!("`{word}`")).collect();
    Some(better.join(" or "))
}

/// The words of a line. Identifiers like `startTime` and `START_TIME` are several words.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !character.is_alphabetic())
        .flat_map(parts)
}

/// The parts of an identifier without underscores: a capital letter after a small one begins a part.
fn parts(identifier: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut after_small = false;
    for (at, character) in identifier.char_indices() {
        if character.is_uppercase() && after_small {
            parts.push(&identifier[begin..at]);
            begin = at;
        }
        after_small = character.is_lowercase();
    }
    parts.push(&identifier[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_found_in_prose_and_in_identifiers() {
        // The words are written in two halves, so that this file does not contain them.
        for text in [
            "Rec|ieve it",
            "x.rec|ieve()",
            "on_rec|ieve",
            "onRec|ieve(x)",
            "REC|IEVE",
        ] {
            let found = find(&format!("fine\n{}", text.replace('|', "")));
            assert!(
                matches!(found.as_slice(), [(2, message)] if message.ends_with(": write `receive`")),
                "{text}: {found:?}"
            );
        }
        assert_eq!(find("They receive what the others send.\n"), []);
    }
}
