//! `cargo xtask hostile`: hostile but authenticated clients of the API server.

use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args as ClapArgs;

use crate::paths;

/// Send requests that nobody should send to the API server, and check that it survives them.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// What the requests are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many requests are sent.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// How many connections send them. With one, the server gets them in the same order on every run.
    #[arg(long, default_value_t = 4)]
    connections: u64,
}

/// Runs it as a process of its own, which a stack overflow ends without a word.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Args { seed, requests, connections } = args;
    let arguments =
        [format!("--seed={seed}"), format!("--requests={requests}"), format!("--connections={connections}")];
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--locked", "--quiet", "--package", "nephele-hostile", "--"]).args(&arguments);
    let status = cargo.current_dir(paths::repository()).status().context("failed to run cargo")?;
    if !status.success() {
        bail!("the server did not survive ({status}); again: cargo xtask hostile {}", arguments.join(" "));
    }
    Ok(())
}
