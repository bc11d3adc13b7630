//! The manager's image, made from a program, without a container engine.

mod archive;
mod program;

use std::path::Path;

pub(crate) use self::archive::Archive;
use self::program::Program;

/// The repository of images that were made on this machine. No registry has it.
const REPOSITORY: &str = "localhost/nephele";

/// Makes an image of the static program in a file, or of this program.
pub(crate) fn make(program: Option<&Path>) -> anyhow::Result<Archive> {
    let program = program.map_or_else(Program::own, Program::of_file)?;
    archive::pack(&program, REPOSITORY)
}
