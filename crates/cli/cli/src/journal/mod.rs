//! `nephele journal`: the calls of a simulated cloud, and the events in it.

mod account;
mod replay;
mod show;
mod story;

use std::process::ExitCode;

pub(crate) use account::manager;
use clap::Subcommand;
pub(crate) use show::path;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show what happened in the simulated cloud: every call, every stage of a machine, every fault
    #[command(after_help = show::AFTER_HELP)]
    Show(Box<show::ShowArgs>),
    /// Replay a manager's journal on a new cloud, and report the first difference.
    ///
    /// Makes every call again at the time it was made. Each answer and each event has to equal the one in the
    /// journal, which shows that the same seed gives the same cloud.
    Replay(replay::ReplayArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Show(args) => process::block_on(|shutdown| show::run(*args, shutdown)),
        Action::Replay(args) => replay::run(&args),
    }
}
