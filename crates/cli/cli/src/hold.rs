//! The hidden command by which `nephele up --cluster-api` starts processes that end with it.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;

/// The name of the command.
pub(crate) const COMMAND: &str = "hold";

#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// The id of the process that starts this one.
    parent: u32,
    /// The program to become.
    program: PathBuf,
    /// Its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the program. Returns only with the reason why it did not.
pub(crate) fn run(args: &HoldArgs) -> anyhow::Result<ExitCode> {
    let error = nephele_cluster_api::become_program(args.parent, &args.program, &args.arguments);
    Err(error).with_context(|| format!("failed to start {}", args.program.display()))
}
