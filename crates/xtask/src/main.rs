//! Project automation: `cargo xtask <task>`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through its output")]

mod cluster;
mod command;
mod paths;
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
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cluster(action) => cluster::run(&action),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
