//! What cargo says of the workspace.

use std::{path::PathBuf, process::Command};

use anyhow::Context;
use serde::Deserialize;

use crate::{command::capture, paths};

/// A package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A package that another one uses.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None for an ordinary one.
    pub(crate) kind: Option<String>,
}

/// What cargo builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// The absolute path of the file with the root module.
    pub(crate) src_path: PathBuf,
    /// Whether `cargo test` runs it unless its features are missing.
    pub(crate) test: bool,
}

/// The packages of the workspace.
pub(crate) fn packages() -> anyhow::Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let text = capture(cargo.current_dir(paths::repository()))?;
    let metadata: Metadata = serde_json::from_str(&text).context("failed to parse cargo's metadata")?;
    Ok(metadata.packages)
}
