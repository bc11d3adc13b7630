//! Paths of the repository, and of the folder outside it for builds and running clusters.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::Context;

use crate::files;

/// The Helm chart, within the repository.
pub(crate) const CHART: &str = "charts/nephele";

/// The library for tests in Rust, within the repository: the one package of the workspace beside `crates` and `e2e`.
pub(crate) const LIBRARY: &str = "nepheletest/rust";

/// The root of the checkout that cargo runs this program for, or else of the one it was built from. They differ when
/// two checkouts share a target folder: cargo takes what the other one built.
pub(crate) fn repository() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built_from = || PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let mut root = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built_from, PathBuf::from);
        assert!(
            root.pop() && root.pop() && root.pop(),
            "the crate lies in crates/dev/xtask"
        );
        root
    });
    &ROOT
}

/// The names and folders of the packages in `crates`, sorted by name. A package lies in a room, as `crates/kube/etcd` does.
pub(crate) fn crates() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let crates = repository().join("crates");
    let mut found = Vec::new();
    for room in files::names(&crates)?.iter().map(|room| crates.join(room)) {
        found.extend(
            files::names(&room)?
                .into_iter()
                .map(|name| (name.clone(), room.join(name))),
        );
    }
    found.sort();
    Ok(found)
}

/// The folder for tools and images, which all checkouts share: `NEPHELE_CACHE`, or else `.cache/nephele` in the home
/// directory.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    if let Some(cache) = std::env::var_os("NEPHELE_CACHE") {
        return std::path::absolute(cache).context("failed to make NEPHELE_CACHE absolute");
    }
    let home =
        std::env::var_os("HOME").context("failed to find a cache folder: set NEPHELE_CACHE or HOME")?;
    Ok(Path::new(&home).join(".cache/nephele"))
}
