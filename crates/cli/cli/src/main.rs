//! The binary `nephele`: arguments, environment, signals and logging. Everything else is in the libraries.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line speaks through its output"
)]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of flags are help texts, with brackets as people write them"
)]

mod access;
mod allocator;
mod args;
mod checkpoint;
mod clock;
mod columns;
mod completion;
mod components;
mod connect;
mod crds;
mod demo;
mod diagnostics;
mod doctor;
mod embedded;
mod exit;
mod fault;
#[cfg(test)]
mod forwarding_api;
mod groups;
mod hold;
mod image;
mod inspect;
mod install;
mod journal;
mod label;
mod load;
mod logging;
mod loopback;
mod manager;
mod manager_page;
mod manager_socket;
mod manifests;
mod matcher;
mod objects;
mod output;
mod page;
mod process;
mod provider;
mod published;
#[cfg(test)]
mod reference;
mod runtime;
mod scenario;
mod suggestion;
mod template;
mod tip;
mod top;
mod up;
mod watched;
mod workshop;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    components::ComponentsArgs, connect::ConnectArgs, demo::DemoArgs, manager::ManagerArgs, up::UpArgs,
};

/// A simulated cloud for Cluster API.
#[derive(Debug, Parser)]
#[command(name = "nephele", version, propagate_version = true, max_term_width = 110, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the manager: the providers of its roles and the simulated cloud.
    Manager(Box<ManagerArgs>),
    /// Run everything in one process, without Kubernetes, and watch two clusters come up.
    Demo(DemoArgs),
    /// Install or upgrade the manager on a management cluster, from this program alone.
    Install(install::Args),
    /// Remove what `nephele install` installed.
    Uninstall(install::uninstall::Args),
    /// Check a management cluster and print fixes.
    Doctor(doctor::Args),
    /// Print a template for `clusterctl generate cluster --from -`.
    Template(template::Args),
    /// Make workload clusters reachable from this machine, and write kubeconfigs.
    Connect(ConnectArgs),
    /// Show clusters, machines, pools, faults and more of a management cluster.
    Get(inspect::GetArgs),
    /// Show one of these objects with its conditions and events.
    Describe(inspect::DescribeArgs),
    /// Show the live page of a management cluster in a browser.
    Page(page::PageArgs),
    /// Show the clusters, machines and Faults of a management cluster in this terminal, live.
    Top(top::TopArgs),
    /// Show or change the clock of a simulated cloud.
    Clock(clock::ClockArgs),
    /// Let a simulated cloud, its machines or its clusters misbehave, and heal them.
    #[command(subcommand)]
    Fault(fault::Action),
    /// Run a scenario of faults and checks on a management cluster, and report how it ended.
    #[command(subcommand)]
    Scenario(scenario::Action),
    /// Learn Cluster API chapter by chapter: a cluster, a task, a check.
    #[command(subcommand)]
    Workshop(workshop::Action),
    /// Create many clusters, measure how long they take, and delete them.
    #[command(after_help = load::AFTER_HELP)]
    Load(load::Args),
    /// Run everything in one process, for tests: clusters from files, kubeconfigs in a folder.
    #[command(after_help = up::AFTER_HELP)]
    Up(Box<UpArgs>),
    /// Print all objects of a provider, as clusterctl installs it.
    Components(ComponentsArgs),
    /// Write the manager's image to a file, for a registry.
    #[command(after_help = image::AFTER_HELP)]
    Image(image::Args),
    /// Print the custom resource definitions as YAML.
    Crds,
    /// Show or replay the journal of a simulated cloud: its calls, and what happened in it.
    #[command(subcommand)]
    Journal(journal::Action),
    /// Save clusters with everything in them to a file, and bring them back.
    #[command(subcommand)]
    Checkpoint(checkpoint::Action),
    /// Check extensions for Cluster API's Runtime SDK.
    #[command(subcommand)]
    Runtime(runtime::Action),
    /// Print what makes a shell complete commands and flags.
    #[command(after_help = completion::AFTER_HELP)]
    Completion(completion::CompletionArgs),
    /// Write man pages into a folder.
    #[command(hide = true)]
    Manual(completion::ManualArgs),
    /// Become a program that ends with the process that started this one.
    #[command(hide = true)]
    Hold(hold::HoldArgs),
    /// Print the version.
    Version,
}

fn main() -> ExitCode {
    let mut command = groups::grouped(Cli::command());
    if let Some(name) = args::called(std::env::args_os().next().as_ref()) {
        command = command.bin_name(name);
    }
    let arguments = args::normalised(std::env::args_os());
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .unwrap_or_else(|mut error| {
            tip::add(&mut error, &arguments);
            error.exit()
        });
    // Fails only where the flags and the fields of `Cli` differ.
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            output::print_error(&error);
            exit::code(&error)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Manager(args) => {
            let verbosity = args.logging.install()?;
            process::block_on(|shutdown| manager::run(*args, verbosity, shutdown))
        }
        Command::Demo(args) => process::block_on(|shutdown| demo::run(args, shutdown)),
        Command::Install(args) => process::block_on_interruptible(install::run(args)),
        Command::Uninstall(args) => process::block_on_interruptible(install::uninstall::run(args)),
        Command::Doctor(args) => process::block_on_interruptible(doctor::run(args)),
        Command::Template(args) => template::run(&args),
        Command::Connect(args) => process::block_on(|shutdown| connect::run(args, shutdown)),
        Command::Get(args) => process::block_on(|shutdown| inspect::get(args, shutdown)),
        Command::Describe(args) => process::block_on(|shutdown| inspect::describe(args, shutdown)),
        Command::Page(args) => process::block_on(|shutdown| page::run(args, shutdown)),
        Command::Top(args) => process::block_on(|shutdown| top::run(args, shutdown)),
        Command::Clock(args) => process::block_on_interruptible(clock::run(args)),
        Command::Fault(action) => fault::run(action),
        Command::Scenario(action) => scenario::run(action),
        Command::Workshop(action) => workshop::run(action),
        Command::Load(args) => process::block_on(|shutdown| load::run(args, shutdown)),
        Command::Up(args) => process::block_on(|shutdown| up::run(*args, shutdown)),
        Command::Components(args) => components::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Crds => crds::run(),
        Command::Journal(action) => journal::run(action),
        Command::Checkpoint(action) => checkpoint::run(action),
        Command::Runtime(action) => runtime::run(action),
        Command::Completion(args) => completion::run(&args, Cli::command()),
        Command::Manual(args) => completion::write_manual(&args, Cli::command()),
        Command::Hold(args) => hold::run(&args),
        Command::Version => {
            println!(
                "nephele {} ({})",
                nephele_manager::version(),
                nephele_manager::revision()
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
