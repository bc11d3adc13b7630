//! `cargo xtask release`: the files of a release, laid out as a clusterctl local repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::{cluster::write, components, paths};

/// What clusterctl calls the provider.
pub(crate) const LABEL: &str = "infrastructure-in-memory";
/// The version of the workspace, as a release is tagged.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Files that are released as they are.
const FILES: [&str; 4] = [
    "config/metadata.yaml",
    "config/templates/cluster-template.yaml",
    "config/templates/cluster-template-topology.yaml",
    "config/templates/clusterclass-in-memory.yaml",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to; the provider's folder is made in there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The manager's image, with registry and tag.
    #[arg(long, default_value = components::IMAGE)]
    image: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = lay_out(&args.out, &args.image)?;
    println!("{}", folder.display());
    Ok(())
}

/// Lays the release out with the manager in this image. The folder it is in.
pub(crate) fn lay_out(out: &Path, image: &str) -> anyhow::Result<PathBuf> {
    let folder = out.join(LABEL).join(VERSION);
    write(&folder.join("infrastructure-components.yaml"), components::render(image))?;
    for file in FILES {
        let source = paths::repository().join(file);
        let text = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
        write(&folder.join(source.file_name().expect("files have names")), text)?;
    }
    Ok(folder)
}
