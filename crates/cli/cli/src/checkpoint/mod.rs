//! `nephele checkpoint`: clusters with everything in them go into a file, and return from it.

pub(crate) mod maker;
mod restore;
pub(crate) mod save;
pub(crate) mod workloads;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Save all clusters of a namespace, with everything in them, to a file
    #[command(after_help = save::AFTER_HELP)]
    Save(save::SaveArgs),
    /// Bring a namespace back to what a file has: its clusters, machines, pools, clouds and faults
    #[command(after_help = restore::AFTER_HELP)]
    Restore(restore::RestoreArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Save(args) => process::block_on(|shutdown| save::run(args, shutdown)),
        Action::Restore(args) => process::block_on(|shutdown| restore::run(args, shutdown)),
    }
}
