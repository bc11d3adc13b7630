//! What a command prints.

use std::io::{ErrorKind, Write as _, stderr, stdout};

use anyhow::Context as _;

/// Prints a text, unless its reader is gone, as behind `| head`.
///
/// # Errors
/// When the text cannot be written for another reason.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("failed to print"),
    }
}

/// Prints why the program failed. Its exit code says so even when the text has no reader.
pub(crate) fn print_error(error: &anyhow::Error) {
    let _ = writeln!(stderr(), "Error: {}", nephele_controller::chain(error.as_ref()));
}
