//! Project automation: `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through its output")]

mod cluster;
mod codegen;
mod command;
/// What `nephele components` prints; from its source, so that a release does not need the binary.
#[path = "../../cli/src/components/render.rs"]
mod components;
mod e2e;
mod paths;
mod provider;
mod release;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Project automation.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// A real single-node Kubernetes with Cluster API on this machine, without Docker.
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// Write the files that are made from code.
    Codegen {
        /// Only say whether the files are what the types say.
        #[arg(long)]
        check: bool,
    },
    /// Lay out the provider's release as a clusterctl local repository.
    Release(release::Args),
    /// Run the black-box tests on a real cluster.
    E2e(e2e::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cluster(action) => cluster::run(&action),
        Task::Codegen { check: true } => codegen::check(),
        Task::Codegen { check: false } => codegen::run(),
        Task::Release(args) => release::run(&args),
        Task::E2e(args) => e2e::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
