//! `kubectl`, as a user runs it.

use std::{fs, process::Command};

use anyhow::Context;

use crate::program;

/// Runs kubectl with this kubeconfig and returns the output.
///
/// # Errors
///
/// When it fails, with its output.
pub async fn run(kubeconfig: &str, args: &[&str]) -> anyhow::Result<String> {
    let file = std::env::temp_dir().join(format!(
        "nephele-e2e-{}-{}.kubeconfig",
        std::process::id(),
        jiff::Timestamp::now().as_nanosecond()
    ));
    fs::write(&file, kubeconfig).with_context(|| format!("failed to write {}", file.display()))?;
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(&file).args(args);
    let output = program::output(&format!("kubectl {}", args.join(" ")), command).await;
    fs::remove_file(&file).with_context(|| format!("failed to remove {}", file.display()))?;
    output
}
