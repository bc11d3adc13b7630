//! Figures that were measured stand in tables made from `docs/figures.json`, so that all pages say the same and the command
//! that measured them is known. Elsewhere they are refused.

use crate::figures::{END, MARK};

/// Pages on which every number of seconds or bytes would be read as measured.
const OF_FIGURES: [&str; 3] = ["README.md", "docs/src/introduction.md", "docs/src/sizing.md"];
/// What these pages say that was not measured.
const ALLOWED: [(&str, &str); 1] = [("docs/src/sizing.md", "30 s")];
const UNITS: [&str; 8] = ["MiB", "KiB", "GiB", "CPU", "s", "ms", "second", "seconds"];

/// The measured figures in the text of a page, outside of generated tables and code blocks.
pub(super) fn stray(page: &str, text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut in_table = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        in_table = (in_table || line.contains(MARK)) && !line.contains(END);
        if in_code || in_table {
            continue;
        }
        let words: Vec<&str> = line
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
            .collect();
        for pair in words.windows(2) {
            let &[value, unit] = pair else { continue };
            let is_number = value.starts_with(|c: char| c.is_ascii_digit())
                && value.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',');
            let figure = format!("{value} {unit}");
            let is_measured = OF_FIGURES.contains(&page) || value.contains('.') || unit == "CPU";
            if is_number && UNITS.contains(&unit) && is_measured && !ALLOWED.contains(&(page, &figure)) {
                found.push(format!(
                    "line {}: {figure} is not in docs/figures.json",
                    number + 1
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_outside_of_a_generated_table_is_found() {
        let text = "It takes 18 s, or\n| 0.5 MiB |\n```\n3 s\n```\n<!-- figures: a -->\n| 4 s |\n<!-- end of figures -->\n";
        let expected = [
            "line 1: 18 s is not in docs/figures.json",
            "line 2: 0.5 MiB is not in docs/figures.json",
        ];
        assert_eq!(stray("README.md", text), expected);
        assert_eq!(stray("docs/src/state.md", text), expected[1..]);
        assert_eq!(stray("docs/src/sizing.md", "every 30 s"), Vec::<String>::new());
    }
}
