//! Turns of phrase that are nearly always worse than another.

/// A turn, and what to write instead. `|` separates words of which any one matches.
const TURNS: [(&str, &str); 25] = [
    ("is|are|was|were|be said", "name who says it: the message says, the command prints"),
    ("for|by|to|of who", "the people who, or a role: the operator"),
    ("in order to", "to"),
    ("so as to", "to"),
    ("utilize|utilizes|utilized|utilizing|utilise|utilises|utilised|utilising", "use"),
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
    ("seamless|seamlessly|effortless|effortlessly|performant", "a figure, or leave it out"),
    ("whilst", "while"),
    ("amongst", "among"),
    ("thus|hence|thereby|thereof|hereby", "so, or name the thing"),
];

/// The turns that a text contains: line numbers with messages.
pub(super) fn find(text: &str) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for (turn, better) in TURNS {
        let alternatives: Vec<Vec<&str>> = turn.split(' ').map(|word| word.split('|').collect()).collect();
        for window in words.windows(alternatives.len()) {
            let matches = window
                .iter()
                .zip(&alternatives)
                .all(|((_, word), any)| any.iter().any(|one| word.eq_ignore_ascii_case(one)));
            if let (true, Some((line, _))) = (matches, window.first()) {
                let written: Vec<&str> = window.iter().map(|(_, word)| *word).collect();
                found.push((*line, format!("`{}`; better: {better}", written.join(" "))));
            }
        }
    }
    found.sort();
    found
}

/// The words of a text with their lines. A turn can be broken over two lines of a comment, and be the name of a test.
/// Between sentences and between code and prose there is an empty word, which no turn contains.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let is_word = first.is_alphabetic();
            let end = if is_word { word_end(rest) } else { first.len_utf8() };
            let (piece, after) = rest.split_at(end);
            if is_word {
                words.push((index + 1, piece));
            } else if !first.is_whitespace() && !"_/!#\\".contains(first) {
                words.push((index + 1, ""));
            }
            rest = after;
        }
        if line.trim().is_empty() {
            words.push((index + 1, ""));
        }
    }
    words
}

/// The end of the word at the beginning of a text. A full stop between two letters belongs to it.
fn word_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let goes_on = character.is_alphabetic()
            || character == '.' && characters.peek().is_some_and(|(_, next)| next.is_alphabetic());
        if !goes_on {
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
            let written: Vec<&str> =
                turn.split(' ').map(|word| word.split('|').next().unwrap_or_default()).collect();
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
    fn words_of_two_sentences_are_no_turn() {
        for text in
            ["They are in order. To answer, wait.", "in order, to", "a `via.rs` file", "in order\n\nto"]
        {
            assert_eq!(find(text), [], "{text}");
        }
    }
}
