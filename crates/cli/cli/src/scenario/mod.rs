//! `nephele scenario`: runs Scenarios on a management cluster, and reports how they ended.
//!
//! ```text
//!  file ──run──▶ management cluster ──watch──▶ follow: lines ──▶ terminal
//!                       └────────────────read──▶ report: table, JSON, YAML, JUnit
//! ```
//!
//! `follow` and `report` are pure.

mod follow;
mod report;
mod run;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a Scenario from a file, and follow it until it is over. Exit code 0 says that it has passed.
    Run(run::RunArgs),
    /// Show the steps of a Scenario, also while it runs.
    Report(report::ReportArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Run(args) => process::block_on(|shutdown| run::run(args, shutdown)),
        Action::Report(args) => process::block_on_interruptible(report::run(args)),
    }
}
