//! `kubectl`, as a user runs it.

use std::{fs, process::Command};

use anyhow::{Context, bail};

/// Runs kubectl with this kubeconfig and returns the output.
///
/// # Errors
///
/// When it fails, with its output.
pub async fn run(kubeconfig: &str, args: &[&str]) -> anyhow::Result<String> {
    let (kubeconfig, args) =
        (kubeconfig.to_owned(), args.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    tokio::task::spawn_blocking(move || blocking(&kubeconfig, &args)).await.context("kubectl was given up")?
}

fn blocking(kubeconfig: &str, args: &[String]) -> anyhow::Result<String> {
    let file = std::env::temp_dir().join(format!(
        "nephele-e2e-{}-{}.kubeconfig",
        std::process::id(),
        jiff::Timestamp::now().as_nanosecond()
    ));
    fs::write(&file, kubeconfig).with_context(|| format!("failed to write {}", file.display()))?;
    let output = Command::new("kubectl").arg("--kubeconfig").arg(&file).args(args).output();
    fs::remove_file(&file).with_context(|| format!("failed to remove {}", file.display()))?;
    let output = output.context("failed to run kubectl")?;
    if !output.status.success() {
        bail!(
            "kubectl {}: {}: {}",
            args.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).context("the output of kubectl is not text")
}
