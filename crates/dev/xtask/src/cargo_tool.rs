//! Programs that cargo installs: pinned, built once, and kept in the cache.

use std::{path::PathBuf, process::Command};

use anyhow::Context;

use crate::{command::show, paths};

/// A program on the registry of crates, named like its package.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
    /// The default features are for people who write and watch; a check needs none of them.
    flags: &'static [&'static str],
}

/// Builds the book.
pub(crate) const MDBOOK: CargoTool = CargoTool {
    name: "mdbook",
    version: "0.5.4",
    flags: &["--no-default-features", "--features", "search"],
};
/// Writes the bill of materials of a release.
pub(crate) const CYCLONEDX: CargoTool = CargoTool {
    name: "cargo-cyclonedx",
    version: "0.5.9",
    flags: &[],
};

impl CargoTool {
    /// The program, which is built where the cache does not have it.
    pub(crate) fn program(&self) -> anyhow::Result<PathBuf> {
        let Self { name, version, flags } = self;
        let root = paths::cache()?.join("tools").join(format!("{name}-{version}"));
        let program = root.join("bin").join(name);
        if !program.is_file() {
            let mut cargo = Command::new("cargo");
            cargo
                .args(["install", name, "--version", version, "--locked", "--root"])
                .arg(&root)
                .args(*flags);
            // The flags of our own build are not for it.
            for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS"] {
                cargo.env_remove(variable);
            }
            show(&mut cargo).with_context(|| format!("failed to install {name}"))?;
        }
        Ok(program)
    }
}
