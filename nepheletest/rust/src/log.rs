//! Nephele's log, as far as errors show it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::output::TAIL_BYTES_MAX;

/// How many lines of the log an error shows.
const LINES_MAX: usize = 20;

/// The path of the log that an error of the program names.
pub(crate) fn named_in(said: &str) -> Option<PathBuf> {
    let (_, rest) = said.split_once("its log is ")?;
    rest.split(": ").next().map(PathBuf::from)
}

/// The path of a log and its last lines, for the end of an error.
pub(crate) fn describe(path: &Path) -> String {
    match last_lines(path) {
        Ok(lines) => format!("\nthe last lines of the log {}:\n{lines}", path.display()),
        Err(error) => format!("\nfailed to read the log {}: {error}", path.display()),
    }
}

/// The address of the live page, for the end of an error. Empty without a page.
pub(crate) fn describe_page(address: Option<&str>) -> String {
    address.map_or_else(String::new, |address| {
        format!("\nuntil Nephele ends, its page shows what is there: {address}")
    })
}

/// Reads the end of a file, whatever its size.
fn last_lines(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES_MAX as u64)))?;
    let mut end = Vec::new();
    // It can grow meanwhile.
    file.take(TAIL_BYTES_MAX as u64).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let lines: Vec<_> = end.trim().lines().collect();
    Ok(lines[lines.len().saturating_sub(LINES_MAX)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_found_in_an_error_of_the_program() {
        let said = "nephele up failed; its log is /a b/up.log: failed to do it: no";
        assert_eq!(named_in(said), Some(PathBuf::from("/a b/up.log")));
        assert_eq!(named_in("failed to read a.yaml (--file)"), None);
    }

    #[test]
    fn last_lines_of_a_large_file_are_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("up.log");
        std::fs::write(&path, "line\n".repeat(TAIL_BYTES_MAX) + "last\n").unwrap();
        let lines = last_lines(&path).unwrap();
        assert_eq!(lines.lines().count(), LINES_MAX);
        assert!(lines.ends_with("line\nlast"), "{lines:?}");
    }

    #[test]
    fn log_that_cannot_be_read_is_no_further_error() {
        let said = describe(Path::new("/absent/up.log"));
        assert!(
            said.starts_with("\nfailed to read the log /absent/up.log: "),
            "{said:?}"
        );
    }
}
