//! Paths of the repository, and of the folder outside it for builds and running clusters.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The root of the checkout this program was built from.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in crates/xtask")
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
