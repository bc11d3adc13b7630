//! `nephele image`: the manager's image as a file, for registries and for machines without a network.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::install::image;
use crate::output::print;

/// The flags of `nephele image`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The archive to write: an OCI archive that Docker reads, too.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Make the image from this static program for Linux, instead of from the running one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What the flags do not say.
pub(crate) const AFTER_HELP: &str = "\
Prints the name of the image. To push it: skopeo copy oci-archive:FILE docker://REGISTRY/nephele:TAG, or docker load \
--input FILE. Then install it with nephele install --image.";

/// Writes the archive, and prints the name of the image.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let archive = image::make(args.program.as_deref())?;
    fs::write(&args.output, &archive.content)
        .with_context(|| format!("failed to write {}", args.output.display()))?;
    print(&format!("{}\n", archive.name))?;
    Ok(ExitCode::SUCCESS)
}
