//! Runs Helm on the chart, without a cluster and without the user's settings.

use std::{path::PathBuf, process::Command};

use anyhow::Context;
use serde_json::Value;

use super::object;
use crate::{
    cluster,
    command::{capture, feed},
    paths,
};

/// The usual name of a release.
pub(super) const RELEASE: &str = "nephele";
/// The namespace that clusterctl uses too.
pub(super) const NAMESPACE: &str = "nephele-system";

pub(crate) struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Builds Helm if the cache does not have it.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            program: cluster::helm()?,
        })
    }

    /// The path of Helm.
    pub(super) fn program(&self) -> &std::path::Path {
        &self.program
    }

    /// Fails on every warning.
    pub(super) fn lint(&self, values: &str) -> anyhow::Result<()> {
        feed(
            self.command()
                .args(["lint", "--strict", "--values", "-"])
                .arg(chart()),
            values,
        )
        .map(drop)
    }

    /// The objects of a release, in the order of creation, including hooks.
    pub(super) fn objects(&self, release: &str, namespace: &str, values: &str) -> anyhow::Result<Vec<Value>> {
        let text = self.template(release, namespace, &[], values)?;
        object::read(&text).context("failed to read what was rendered")
    }

    /// The rendered text of a release, with additional flags.
    pub(super) fn template(
        &self,
        release: &str,
        namespace: &str,
        flags: &[&str],
        values: &str,
    ) -> anyhow::Result<String> {
        let mut helm = self.command();
        helm.args(["template", release])
            .arg(chart())
            .args(["--namespace", namespace, "--values", "-"])
            .args(flags);
        feed(&mut helm, values)
    }

    /// The notes that Helm prints after an installation.
    pub(super) fn notes(&self, release: &str, namespace: &str, values: &str) -> anyhow::Result<String> {
        let mut helm = self.command();
        helm.args(["install", release]).arg(chart());
        helm.args(["--namespace", namespace, "--values", "-", "--dry-run=client"]);
        let said = feed(&mut helm, values)?;
        said.split_once("\nNOTES:\n")
            .map(|(_, notes)| notes.to_owned())
            .context("no notes")
    }

    /// Packs the chart into a folder. Returns the output, which names the file.
    pub(crate) fn package(&self, folder: &std::path::Path) -> anyhow::Result<String> {
        capture(
            self.command()
                .arg("package")
                .arg(chart())
                .arg("--destination")
                .arg(folder),
        )
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Helm must not use a cluster, or plugins that happen to be installed.
        command
            .env("KUBECONFIG", "/dev/null")
            .env("HELM_PLUGINS", "/dev/null");
        command
    }
}

fn chart() -> PathBuf {
    paths::repository().join(paths::CHART)
}
