//! Programs that run to their end.

use std::process::{Command, Output};

use anyhow::{Context, bail};

/// Runs a program and returns its output. Errors name the command as it was given.
///
/// # Errors
///
/// As [`output`].
pub async fn run(command: Command) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    output(&what, command).await
}

/// Runs a program and returns its output. `what` names the command in errors.
///
/// # Errors
///
/// When it cannot be started or fails, with what it said, or when the output is not text.
pub async fn output(what: &str, mut command: Command) -> anyhow::Result<String> {
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .context("given up")?;
    let Output {
        status,
        stdout,
        stderr,
    } = output.with_context(|| format!("failed to run {what}"))?;
    let stdout = String::from_utf8(stdout).with_context(|| format!("the output of {what} is not text"))?;
    if !status.success() {
        let separator = if stdout.is_empty() { "" } else { "\n" };
        bail!(
            "{what}: {status}: {}{separator}{stdout}",
            String::from_utf8_lossy(&stderr).trim()
        );
    }
    Ok(stdout)
}
