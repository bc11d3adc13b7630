//! Runs other programs; errors include their output.

use std::{
    ffi::OsStr,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, bail};

/// The most bytes of a failed program's output in the error.
const OUTPUT_IN_ERROR_MAX: usize = 3000;

/// Runs a program and returns its output.
pub(crate) fn capture(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| attempt(command))?;
    text(command, output)
}

/// Runs a program and returns its output with what it says on standard error.
pub(crate) fn capture_all(command: &mut Command) -> anyhow::Result<String> {
    let mut output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| attempt(command))?;
    let stderr = std::mem::take(&mut output.stderr);
    output.stdout.extend(stderr);
    text(command, output)
}

/// Runs a program with the given input and returns its output.
pub(crate) fn feed(command: &mut Command, input: &str) -> anyhow::Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| attempt(command))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let output = std::thread::scope(|scope| {
        // A program that ends early closes its input. Its own message says why.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    });
    text(command, output.with_context(|| attempt(command))?)
}

/// Runs a program with output to the terminal.
pub(crate) fn show(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| attempt(command))?;
    if !status.success() {
        bail!("{}: {status}", attempt(command));
    }
    Ok(())
}

/// Runs a program; on failure, prints its output in one piece.
pub(crate) fn show_failure(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| attempt(command))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "{}\n{}: {}",
            String::from_utf8_lossy(&said).trim_end(),
            attempt(command),
            output.status
        );
    }
    Ok(())
}

/// Whether a program of this name is on the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The search path with more folders in front.
pub(crate) fn path_with<'a>(
    folders: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<std::ffi::OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let rest = std::env::split_paths(&rest).collect::<Vec<_>>();
    std::env::join_paths(folders.into_iter().map(Path::to_owned).chain(rest)).context("failed to extend PATH")
}

fn text(command: &Command, output: Output) -> anyhow::Result<String> {
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        bail!(
            "{}: {}: {}",
            attempt(command),
            output.status,
            tail(said.trim(), OUTPUT_IN_ERROR_MAX)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{}: output is not text", attempt(command)))
}

fn attempt(command: &Command) -> String {
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy);
    format!("failed to run {}", words.collect::<Vec<_>>().join(" "))
}

/// The end of a text, cut to a number of bytes.
pub(crate) fn tail(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_what_the_program_said() {
        let error =
            capture(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).expect_err("exits 3");
        let message = error.to_string();
        assert!(
            message.contains("out\nerr") && message.contains("exit status: 3"),
            "{message}"
        );
    }

    #[test]
    fn input_larger_than_a_pipe_arrives_whole() {
        let input = "x".repeat(1 << 20);
        assert_eq!(feed(&mut Command::new("cat"), &input).expect("cat runs"), input);
    }

    #[test]
    fn a_tail_does_not_split_a_character() {
        assert_eq!(tail("aéb", 2), "b");
        assert_eq!(tail("aéb", 3), "éb");
        assert_eq!(tail("ab", 9), "ab");
    }
}
