//! Turns of phrase that are nearly always worse than another.

/// A turn, and what to write instead. `|` separates words of which any one matches.
const TURNS: [(&str, &str); 32] = [
    (
        "is|are|was|were|be said",
        "name who says it: the message says, the command prints",
    ),
    ("for|by|to|of who", "the people who, or a role: the operator"),
    ("in order to", "to"),
    ("so as to", "to"),
    (
        "utilize|utilizes|utilized|utilizing|utilise|utilises|utilised|utilising",
        "use",
    ),
    ("leverage|leverages|leveraged|leveraging", "use"),
    ("please note", "leave it out"),
    ("note that", "leave it out"),
    ("it should|must be noted", "leave it out"),
    ("simply|basically|obviously", "leave it out"),
    ("e.g", "for example"),
    ("i.e", "that is"),
    ("via", "through, over or by"),
    ("prior to", "before"),
    ("subsequent to", "after"),
    ("due to the fact", "because"),
    ("in the event of|that", "if or when"),
    ("in case of", "if or when"),
    ("is|are|was|were|be able to", "can"),
    ("functionality|functionalities", "what it does, or feature"),
    ("facilitate|facilitates", "help, or make possible"),
    (
        "seamless|seamlessly|effortless|effortlessly|performant",
        "a figure, or leave it out",
    ),
    ("whilst", "while"),
    ("amongst", "among"),
    ("thus|hence|thereby|thereof|hereby", "so, or name the thing"),
    ("anew", "again, afresh"),
    ("nobody", "name what is missing: no caller, no owner, nothing"),
    ("somebody", "name the role: a client, a user, a tenant"),
    ("is about", "concerns, affects, matches, shows"),
    ("as long as", "while, until, if"),
    ("go|goes on", "continue, keep, run"),
    ("come|comes|came back", "return, recover, reappear"),
];

/// Where a turn is right: after one of the first words, or before one of the second or a number.
const RIGHT: [(&str, &str, &str); 2] = [
    ("is about", "", "to|twice|half|ten"),
    (
        "as long as",
        "and|for|is|last|lasts|live|lives|take|taken|takes|times|took|twice|wait|waited|waits",
        "",
    ),
];

/// A name in state files and journals that has a turn in it.
const NAMES: [&str; 1] = ["came_back"];

/// The turns that a text contains: line numbers with messages.
pub(super) fn find(text: &str) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for (turn, better) in TURNS {
        let alternatives: Vec<_> = turn.split(' ').collect();
        for (at, window) in words.windows(alternatives.len()).enumerate() {
            let matches = window
                .iter()
                .zip(&alternatives)
                .all(|((_, word), any)| is_one_of(word, any));
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            let after = words.get(at + alternatives.len());
            if let (true, Some((line, _))) = (matches && !is_right(turn, before, after), window.first()) {
                let written: Vec<&str> = window.iter().map(|(_, word)| *word).collect();
                found.push((*line, format!("`{}`; better: {better}", written.join(" "))));
            }
        }
    }
    found.sort();
    found
}

fn is_one_of(word: &str, any: &str) -> bool {
    any.split('|').any(|one| word.eq_ignore_ascii_case(one))
}

/// Whether a turn is right between these words.
fn is_right(turn: &str, before: Option<&(usize, &str)>, after: Option<&(usize, &str)>) -> bool {
    let is = |word: Option<&(usize, &str)>, any: &str| {
        word.is_some_and(|(_, word)| !word.is_empty() && is_one_of(word, any))
    };
    let is_number = after.is_some_and(|(_, word)| word.starts_with(char::is_numeric));
    RIGHT.iter().any(|(right, first, second)| {
        *right == turn && (is(before, first) || is(after, second) || (is_number && !second.is_empty()))
    })
}

/// The words of a text with their lines, and the digits of its numbers. A turn can be broken over two lines of a comment, and be
/// the name of a test. Between sentences and between code and prose there is an empty word, which no turn contains.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        let mut is_within_name = false;
        while let Some(first) = rest.chars().next() {
            let name = if is_within_name { 0 } else { name_end(rest) };
            let is_known_name = NAMES.contains(&rest.split_at(name).0);
            let is_word = first.is_alphabetic();
            let end = match () {
                () if is_known_name => name,
                () if is_word => word_end(rest),
                () => first.len_utf8(),
            };
            let (piece, after) = rest.split_at(end);
            if is_known_name {
                words.push((index + 1, ""));
            } else if is_word || first.is_numeric() {
                words.push((index + 1, piece));
            } else if !first.is_whitespace() && !"_/!#\\".contains(first) {
                words.push((index + 1, ""));
            }
            is_within_name = piece.ends_with(is_of_name);
            rest = after;
        }
        if line.trim().is_empty() {
            words.push((index + 1, ""));
        }
    }
    words
}

/// Whether a character can be one of a name in code.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The end of the name at the beginning of a text.
fn name_end(text: &str) -> usize {
    text.find(|character| !is_of_name(character))
        .unwrap_or(text.len())
}

/// The end of the word at the beginning of a text. A full stop between two letters belongs to it.
fn word_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_of_word = character.is_alphabetic()
            || character == '.' && characters.peek().is_some_and(|(_, next)| next.is_alphabetic());
        if !is_of_word {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_is_reported_with_its_line_and_the_better_word() {
        for (turn, better) in TURNS {
            let written: Vec<&str> = turn
                .split(' ')
                .map(|word| word.split('|').next().unwrap_or_default())
                .collect();
            let text = format!("Something else.\nIt has {} here.", written.join(" "));
            let message = format!("`{}`; better: {better}", written.join(" "));
            assert_eq!(find(&text), [(2, message)], "{text}");
        }
    }

    #[test]
    fn a_turn_is_found_across_lines_and_in_names() {
        for text in [
            "/// It waits in order\n/// to answer.",
            "# It waits in order\n# to answer.",
            "fn it_waits_in_order_to_answer() {}",
            "\"it waits in order \\\n to answer\"",
            "In  order to",
        ] {
            let found = find(text);
            assert!(
                matches!(found.as_slice(), [(1, message)] if message.ends_with("; better: to")),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn a_turn_is_right_beside_some_words_and_in_some_names() {
        for text in [
            "It is about to end, is about 200 bytes, and is about twice of that",
            "It takes as long as that, and waits for as long as this",
            "let came_back = fault.concerns(call);",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
        for text in [
            "It is about this.",
            "What it is about.",
            "fn it_came_back() {}",
            "As long as it is there",
        ] {
            assert_eq!(find(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn words_of_two_sentences_are_no_turn() {
        for text in [
            "They are in order. To answer, wait.",
            "in order, to",
            "a `via.rs` file",
            "in order\n\nto",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
