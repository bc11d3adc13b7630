//! `clusterctl` and `kubectl`, as their users run them.

use std::process::Command;

use anyhow::Context;
use nephele_e2e::program;
use serde::Deserialize;
use serde_json::Value;

/// The releases that `cargo xtask installed` has laid out, and the configuration for them.
pub(crate) struct Releases {
    pub(crate) config: String,
    /// The first release to install.
    pub(crate) first: String,
    /// The release to upgrade to.
    pub(crate) next: String,
}

impl Releases {
    pub(crate) fn from_environment() -> anyhow::Result<Self> {
        let variable = |name: &str| {
            std::env::var(name).with_context(|| format!("{name} is not set: run cargo xtask installed"))
        };
        let versions = variable("NEPHELE_E2E_RELEASES")?;
        let (first, next) = versions.split_once(' ').context("there are two releases")?;
        Ok(Self {
            config: variable("NEPHELE_E2E_CLUSTERCTL_CONFIG")?,
            first: first.to_owned(),
            next: next.to_owned(),
        })
    }

    /// Runs clusterctl and returns its output.
    pub(crate) async fn clusterctl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("clusterctl");
        command.arg("--config").arg(&self.config).args(arguments);
        command
            .env("CLUSTER_TOPOLOGY", "true")
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        program::run(command).await
    }
}

/// Runs kubectl and returns its output.
pub(crate) async fn kubectl(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("kubectl");
    command.args(arguments);
    program::run(command).await
}

/// The objects of what clusterctl generated.
pub(crate) fn objects(manifest: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifest).map(Value::deserialize);
    documents
        .collect::<Result<_, _>>()
        .context("failed to read what was generated")
}
