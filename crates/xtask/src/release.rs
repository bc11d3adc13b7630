//! `cargo xtask release`: the files of a release, laid out as a clusterctl local repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{cluster::write, command::capture, paths};

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
    /// The manager's image, if not the released one.
    #[arg(long)]
    image: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut nephele = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    nephele.args(["run", "--quiet", "--release", "--package", "nephele-cli", "--"]);
    nephele.current_dir(paths::repository());
    let folder = lay_out(&args.out, nephele, args.image.as_deref())?;
    println!("{}", folder.display());
    Ok(())
}

/// Lays the release out with the components that this binary prints. The folder it is in.
pub(crate) fn lay_out(out: &Path, mut nephele: Command, image: Option<&str>) -> anyhow::Result<PathBuf> {
    nephele.arg("components");
    if let Some(image) = image {
        nephele.args(["--image", image]);
    }
    let components = capture(&mut nephele)?;
    let folder = out.join(LABEL).join(VERSION);
    write(&folder.join("infrastructure-components.yaml"), components)?;
    for file in FILES {
        let source = paths::repository().join(file);
        let text = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
        write(&folder.join(source.file_name().expect("files have names")), text)?;
    }
    Ok(folder)
}
