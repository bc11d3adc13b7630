//! `nephele runtime`: tools for extensions of Cluster API's Runtime SDK.

mod lint;
mod openapi;

use std::process::ExitCode;

use clap::Subcommand;

use crate::process;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Print the OpenAPI document of the hooks of a Cluster API release, or of the simulated cloud.
    Openapi(openapi::OpenapiArgs),
    /// Discover an extension's handlers, and report what Cluster API would refuse.
    Lint(lint::LintArgs),
}

pub(crate) fn run(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Openapi(args) => openapi::run(&args),
        Action::Lint(args) => process::block_on(|_shutdown| lint::run(args)),
    }
}
