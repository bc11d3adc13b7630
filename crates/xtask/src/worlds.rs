//! `cargo xtask worlds`: many seeded worlds of the whole product on simulated time; `crates/world` says what they are.

use std::{ffi::OsString, process::Command};

use clap::Args as ClapArgs;

use crate::{command::show, paths};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Build with optimization: pays from some thousand seeds on.
    #[arg(long)]
    release: bool,
    /// What the worlds are told: `--seeds N`, `--from SEED`, `--replay JSON`, `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--locked", "--package", "nephele-world"]);
    if args.release {
        cargo.arg("--release");
    }
    show(cargo.arg("--").args(&args.arguments).current_dir(paths::repository()))
}
