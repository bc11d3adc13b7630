//! Examples in documentation that rustdoc would run as tests.

/// What rustdoc accepts after the fence of an example in Rust.
const RUST: [&str; 6] = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];

/// The lines at which examples begin.
pub(super) fn find(source: &str) -> Vec<usize> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (line, number) in source.lines().zip(1..) {
        let Some(text) = documentation(line) else {
            is_inside = false;
            continue;
        };
        let Some(info) = text.trim_start().strip_prefix("```") else {
            continue;
        };
        if !is_inside && info.split(',').any(|word| RUST.contains(&word.trim())) {
            found.push(number);
        }
        is_inside = !is_inside;
    }
    found
}

/// The text of a line of documentation.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//!")
        .or_else(|| line.strip_prefix("///").filter(|rest| !rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_in_rust_are_found_and_other_blocks_are_not() {
        for (source, expected) in [
            ("//! ```\n//! let a = 1;\n//! ```\n", &[1][..]),
            (
                "fn a() {}\n    /// ```no_run\n    /// a();\n    /// ```\nfn b() {}",
                &[2],
            ),
            (
                "/// ```text\n/// a\n/// ```\n/// ```rust\n/// a();\n/// ```",
                &[4],
            ),
            ("//! ```text\n//! a ─▶ b\n//! ```\n", &[]),
            ("// ```\n//// ```\nlet a = \"```\";", &[]),
        ] {
            assert_eq!(find(source), expected, "{source}");
        }
    }
}
