//! `nephele scenario`: the scenarios of the library, and those of a management cluster.
//!
//! ```text
//!  library ──list, show──▶ terminal
//!     │ or file
//!     └──run──▶ setting: reads, creates ─▶ needs: what is missing, and what mends it
//!                  │
//!                  ▼
//!          management cluster ──watch──▶ follow: lines ──▶ terminal
//!             ▲         └──────────────────read──▶ report: table, JSON, YAML, JUnit
//!             └─ stop, rerun
//! ```
//!
//! `needs`, `follow` and `report` are pure.

mod follow;
mod library;
mod list;
mod needs;
mod page_library;
mod report;
mod rerun;
mod run;
mod setting;
mod show;
mod stop;

pub(crate) use list::short;
pub(crate) use needs::{Found, Lack, Seen, lacks, named};
pub(crate) use page_library::{page_entries, page_library, page_library_of};
pub(crate) use run::{create, failure, followed, lacking};
pub(crate) use setting::Setting;
pub(crate) use stop::delete;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the scenarios of the library: what each shows, what it needs, how long it takes.
    #[command(after_help = list::AFTER_HELP)]
    List,
    /// Show a scenario of the library with the cluster that it needs and its steps.
    #[command(after_help = show::AFTER_HELP)]
    Show(show::ShowArgs),
    /// Run a scenario of the library or of a file, and follow it. Exit code 0 says that it has passed.
    #[command(after_help = run::AFTER_HELP)]
    Run(run::RunArgs),
    /// Show the steps of a Scenario, also while it runs.
    Report(report::ReportArgs),
    /// Delete a Scenario with its Faults.
    #[command(after_help = stop::AFTER_HELP)]
    Stop(stop::StopArgs),
    /// Run a Scenario again from its first step, and follow it.
    #[command(after_help = rerun::AFTER_HELP)]
    Rerun(rerun::RerunArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::List => list::run(),
        Action::Show(args) => show::run(&args),
        Action::Run(args) => process::block_on(|shutdown| run::run(args, shutdown)),
        Action::Report(args) => process::block_on_interruptible(report::run(args)),
        Action::Stop(args) => process::block_on_interruptible(stop::run(args)),
        Action::Rerun(args) => process::block_on(|shutdown| rerun::run(args, shutdown)),
    }
}
