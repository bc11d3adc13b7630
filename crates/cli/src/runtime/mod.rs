//! `nephele runtime`: what extensions of Cluster API's Runtime SDK are judged by.

mod lint;
mod openapi;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Print the OpenAPI document of the hooks that a release of Cluster API knows, or of those of the simulated cloud.
    Openapi(openapi::OpenapiArgs),
    /// Ask an extension what it offers, and say what Cluster API would refuse.
    Lint(lint::LintArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Openapi(args) => openapi::run(&args),
        Action::Lint(args) => process::block_on(|_shutdown| lint::run(args)),
    }
}
