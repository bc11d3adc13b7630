//! `helm` and `kubectl`, as their users run them.

use std::process::Command;

use anyhow::Context;
use nephele_e2e::program;

/// The name of the release.
pub(crate) const RELEASE: &str = "nephele";
pub(crate) const NAMESPACE: &str = "nephele-system";

/// The packaged chart, and the image it installs.
pub(crate) struct Chart {
    file: String,
    /// Values that name the image.
    image: Vec<String>,
}

impl Chart {
    /// Reads the environment that `cargo xtask helm` sets.
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let variable = |name: &str| {
            std::env::var(name).with_context(|| format!("{name} is not set: run cargo xtask helm"))
        };
        let image = variable("NEPHELE_E2E_IMAGE")?;
        let (registry, rest) = image.split_once('/').context("an image has a registry")?;
        let (repository, tag) = rest.rsplit_once(':').context("an image has a tag")?;
        let values = [("registry", registry), ("repository", repository), ("tag", tag)];
        let image = values.map(|(name, value)| format!("--set=image.{name}={value}"));
        Ok(Self {
            file: variable("NEPHELE_E2E_CHART")?,
            image: image.into(),
        })
    }

    /// Installs the chart, or upgrades the release, and waits until it is ready.
    pub(crate) async fn apply(&self, verb: &str, values: &[&str]) -> anyhow::Result<()> {
        let mut arguments = vec![
            verb,
            RELEASE,
            &self.file,
            "--namespace",
            NAMESPACE,
            "--wait",
            "--timeout=3m",
        ];
        arguments.extend(self.image.iter().map(String::as_str));
        let values: Vec<_> = values.iter().map(|value| format!("--set={value}")).collect();
        arguments.extend(values.iter().map(String::as_str));
        run("helm", &arguments).await.map(drop)
    }
}

/// Runs Helm on the release.
pub(crate) async fn helm(verb: &str, more: &[&str]) -> anyhow::Result<String> {
    run(
        "helm",
        &[&[verb, RELEASE, "--namespace", NAMESPACE], more].concat(),
    )
    .await
}

/// What Helm printed when the release was installed.
pub(crate) async fn notes() -> anyhow::Result<String> {
    run("helm", &["get", "notes", RELEASE, "--namespace", NAMESPACE]).await
}

/// Runs kubectl.
pub(crate) async fn kubectl(arguments: &[&str]) -> anyhow::Result<String> {
    run("kubectl", arguments).await
}

async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    program::output(&format!("{program} {}", arguments.join(" ")), command).await
}
