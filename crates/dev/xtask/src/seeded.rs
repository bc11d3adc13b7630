//! `cargo xtask worlds` and `cargo xtask hostile`: programs driven by a seed. Each is its own crate and its own
//! process, so a stack overflow ends only that program.

use std::{ffi::OsString, process::Command};

use clap::Args as ClapArgs;

use crate::{command::show, paths};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Build with optimization, for long runs.
    #[arg(long)]
    optimized: bool,
    /// Arguments of the program; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Args {
    /// The arguments of the program that are text.
    pub(crate) fn of_program(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().filter_map(|argument| argument.to_str())
    }
}

pub(crate) fn run(package: &str, args: &Args) -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--locked", "--package", package]);
    if args.optimized {
        cargo.args(["--profile", "bench"]);
    }
    show(
        cargo
            .arg("--")
            .args(&args.arguments)
            .current_dir(paths::repository()),
    )
}
