//! `nephele fault`: lets a simulated cloud misbehave, and heals it again. `nephele get faults` shows what is wrong.

mod add;
mod flags;
mod heal;
mod preview;
mod selection;
mod selector;

pub(crate) use heal::heal;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Let operations fail, or machines or clusters misbehave, until the fault is healed.
    #[command(after_help = add::AFTER_HELP)]
    Add(Box<add::AddArgs>),
    /// Say what a fault would hit, and create nothing.
    #[command(after_help = preview::AFTER_HELP)]
    Preview(Box<preview::PreviewArgs>),
    /// Delete faults, so that what they have hit heals.
    Heal(heal::HealArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Add(args) => process::block_on_interruptible(add::run(*args)),
        Action::Preview(args) => process::block_on_interruptible(preview::run(*args)),
        Action::Heal(args) => process::block_on_interruptible(heal::run(args)),
    }
}
