//! `nephele workshop`: chapters that a person reads and does, on any management cluster.
//!
//! ```text
//!  library ──list, show, hint, solution──▶ terminal
//!     └──start, reset──▶ clear: what chapters made goes ─▶ objects, Scenario `workshop-N-start` ─▶ the chapter's text
//!     └──check─────────▶ Scenario `workshop-N-check` ──followed──▶ trial of a person's Scenario ─▶ done, or what is missing
//! ```
//!
//! All that is known of a chapter that has begun is in the management cluster: its objects have a label with its number.

mod chapter;
mod check;
mod class;
mod clear;
mod list;
mod run;
mod start;
mod text;
mod trial;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the chapters: what each teaches, and how long it takes.
    #[command(after_help = list::AFTER_HELP)]
    List(list::ListArgs),
    /// Begin a chapter: make its cluster, let happen what the chapter begins with, and print the task.
    #[command(after_help = start::AFTER_HELP)]
    Start(start::StartArgs),
    /// Print the task of a chapter again.
    Show(text::ShowArgs),
    /// Check whether the task of a chapter is done. Exit code 0 says that it is.
    Check(check::CheckArgs),
    /// Print a hint for the task of a chapter.
    #[command(after_help = text::AFTER_HELP)]
    Hint(text::HintArgs),
    /// Print the commands that do the task of a chapter.
    Solution(text::SolutionArgs),
    /// Begin a chapter again, with a new cluster.
    #[command(after_help = start::AFTER_HELP)]
    Reset(start::StartArgs),
    /// Make a namespace, rights and a kubeconfig for each person of a class.
    #[command(after_help = class::AFTER_HELP)]
    Class(class::ClassArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::List(args) => process::block_on(|_| list::run(args)),
        Action::Start(args) => process::block_on(|shutdown| start::start(args, shutdown)),
        Action::Reset(args) => process::block_on(|shutdown| start::reset(args, shutdown)),
        Action::Check(args) => process::block_on(|shutdown| check::run(args, shutdown)),
        Action::Class(args) => process::block_on(|shutdown| class::run(args, shutdown)),
        Action::Show(args) => text::show(&args),
        Action::Hint(args) => text::hint(&args),
        Action::Solution(args) => text::solution(&args),
    }
}
