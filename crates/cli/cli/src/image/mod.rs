//! The manager's image, made from a program, without a container engine. `nephele install` gives it to nodes; `nephele
//! image` writes it to a file, for registries and for machines without a network.

mod archive;
mod program;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

pub(crate) use self::archive::Archive;
use self::program::Program;
use crate::output::print;

/// The repository of images that were made on this machine. No registry has it.
const REPOSITORY: &str = "localhost/nephele";

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
--input FILE. Then install it with nephele install --image. nephele install --load registry:… does both.";

/// Writes the archive, and prints the name of the image.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let archive = make(args.program.as_deref())?;
    fs::write(&args.output, &archive.content)
        .with_context(|| format!("failed to write {}", args.output.display()))?;
    print(&format!("{}\n", archive.name))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes an image of the static program in a file, or of this program.
pub(crate) fn make(program: Option<&Path>) -> anyhow::Result<Archive> {
    let program = program.map_or_else(Program::own, Program::of_file)?;
    archive::pack(&program, REPOSITORY)
}
