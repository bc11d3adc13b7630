//! The files of the repository.

use std::{fs, path::Path, process::Command};

use anyhow::Context;

use crate::{command::capture, paths};

/// The files that exist and that git tracks, or would track.
pub(super) fn files() -> anyhow::Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let paths = capture(list.current_dir(paths::repository()))?;
    let exists = |path: &&str| !path.is_empty() && paths::repository().join(path).is_file();
    Ok(paths.split('\0').filter(exists).map(str::to_owned).collect())
}

/// The text of a file of the repository.
pub(super) fn read(path: &str) -> anyhow::Result<String> {
    let bytes = fs::read(paths::repository().join(Path::new(path)))
        .with_context(|| format!("failed to read {path}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
