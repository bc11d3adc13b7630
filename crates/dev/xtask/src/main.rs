//! Project automation: `cargo xtask <task>`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line speaks through its output"
)]

mod bench;
mod book;
mod cargo_tool;
mod chart;
mod cluster;
mod codegen;
mod command;
mod commands;
mod conditions;
mod contract;
mod dashboard;
mod definitions;
mod dist;
mod e2e;
mod emptied;
mod figures;
mod files;
mod found;
mod installed;
mod krew;
mod kube_state_metrics;
mod machine;
mod metadata;
mod page;
mod paths;
mod picture;
mod provider;
mod queries;
mod record_hooks;
mod release;
mod schemas;
mod seeded;
mod stand_in;
mod target;
mod tidy;
mod up;
mod upstream;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::commands::Commands;

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
    /// Check the book in `docs`, and build it with mdBook, which the cache keeps.
    Book,
    /// Write the generated files.
    Codegen,
    /// Check the Helm chart: what it renders and refuses, and that it installs the same as clusterctl.
    Chart(chart::Args),
    /// Lay out the providers' release as a clusterctl local repository.
    Release(release::Args),
    /// Write everything that a release publishes, for the processor of this machine.
    Dist(dist::Args),
    /// Write the manifest of `kubectl nephele` for krew, from the archives of a release.
    Krew(krew::Args),
    /// Run the black-box tests on a real cluster.
    E2e(e2e::Args),
    /// Install the Helm chart on a real cluster, in place of what clusterctl installed, and run its tests there.
    Helm(chart::cluster::Args),
    /// Install release folders by clusterctl on a real cluster, in place of what is there, and run tests of the
    /// pods.
    Installed(installed::Args),
    /// Measure on a real cluster.
    Bench(bench::Args),
    /// Run Cluster API's own end-to-end specifications on a real cluster.
    Upstream(upstream::Args),
    /// Send hostile requests, drawn from a seed, to the API server, and check that it survives: `[--seed S]
    /// [--requests N]`. With `--neighbours`, attack a whole manager and measure what others see.
    Hostile(seeded::Args),
    /// Report which rows of Cluster API's contracts hold, and by which tests.
    Contract(contract::Args),
    /// Run the tests of the live page in Chromium.
    Page(page::Args),
    /// Make the pictures of the README from real runs: `docs/src/demo.svg` of `nephele demo`, or with `--page`
    /// `docs/src/page.png` of the live page.
    Picture(picture::Args),
    /// Make fixtures of Cluster API's calls that a manager recorded: those of
    /// `NEPHELE_RUNTIME_EXTENSION_RECORDINGS=FOLDER cargo xtask e2e extension`.
    RecordHooks(record_hooks::Args),
    /// Check what compilers do not: purity of crates, freshness of files, lints, sizes, words and their spelling,
    /// and the numbers that may only fall.
    Tidy,
    /// Draw the floors of the crates, or of a crate's files: each uses only what is below it, except for files in a
    /// circle. For these, print what to cut.
    Floors(tidy::FloorsArgs),
    /// Run worlds drawn from seeds, and report those that break a rule: `--seeds N [--from SEED]`.
    Worlds(seeded::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Cluster(action) => cluster::run(&action),
        Task::Book => book::run(&Commands::of::<Cli>()),
        Task::Codegen => codegen::run(),
        Task::Chart(args) => chart::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Release(args) => release::run(&args),
        Task::Krew(args) => krew::run(&args),
        Task::E2e(args) => e2e::run(&args),
        Task::Helm(args) => chart::cluster::run(&args),
        Task::Installed(args) => installed::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Upstream(args) => upstream::run(&args),
        Task::Hostile(args) => seeded::run("nephele-hostile", &args),
        Task::Contract(args) => contract::run(&args),
        Task::Page(args) => page::run(&args),
        Task::Picture(args) => picture::run(&args),
        Task::RecordHooks(args) => record_hooks::run(&args),
        Task::Tidy => tidy::run(&Commands::of::<Cli>()),
        Task::Floors(args) => tidy::floors(&args),
        Task::Worlds(args) => seeded::run("nephele-simulation", &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
