//! Messages for people that print an error with all its causes by anyhow's own format. An answer of an API server then has a
//! Rust value in it; `nephele_controller::chain` leaves that out.

use anyhow::bail;

use super::tracked::{files, read};

/// The crates that print errors for developers alone, and what does not use `nephele-controller`.
const FOR_DEVELOPERS: [&str; 4] = ["hostile", "runtime-sdk", "simulation", "xtask"];
/// The formats of anyhow with all causes, and of the Rust value.
const FORMATS: [&str; 4] = ["error:#}", "error:?}", "error:#?}", "{:#}"];

/// Fails if a program prints an error so that a person may see a Rust value.
pub(super) fn check() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in files()? {
        let in_room = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        let Some((krate, file)) = in_room.and_then(|(_, rest)| rest.split_once("/src/")) else {
            continue;
        };
        let is_test = file.ends_with("tests.rs") || file.contains("tests/");
        if file.ends_with(".rs") && !is_test && !FOR_DEVELOPERS.contains(&krate) {
            found.extend(
                formats(&read(&path)?)
                    .into_iter()
                    .map(|line| format!("{path}:{line}")),
            );
        }
    }
    if !found.is_empty() {
        bail!(
            "these messages may show a Rust value, use nephele_controller::chain: {}",
            found.join(", ")
        );
    }
    Ok(())
}

/// The lines of a source, without its tests, that print an error in one of the formats.
fn formats(source: &str) -> Vec<usize> {
    // Tests come last.
    let source = source.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let has = |line: &str| FORMATS.iter().any(|format| line.contains(format));
    source
        .lines()
        .zip(1..)
        .filter(|(line, _)| has(line))
        .map(|(_, number)| number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_all_causes_is_found_outside_of_tests() {
        let source = "a(format!(\"{error:#}\"));\nb(\"{error}\");\nc(\"{:#}\", error);\n#[cfg(test)]\nmod tests { d(\"{error:?}\") }";
        assert_eq!(formats(source), [1, 3]);
    }
}
