//! `cargo xtask e2e`: the black-box tests on a real cluster.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, bail};

use crate::{
    cluster::{self, Layout},
    command::{is_installed, path_with, show},
    paths, provider,
};

/// Tests wait most of their time.
const THREADS: &str = "--test-threads=16";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Leave the cluster up.
    #[arg(long)]
    keep: bool,
    /// Use the cluster of KUBECONFIG as it is, with Cluster API and the provider installed.
    #[arg(long)]
    existing: bool,
    /// Use this program, static and built before, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Run only tests whose names contain this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.existing {
        let kubeconfig =
            std::env::var_os("KUBECONFIG").context("failed to find a cluster: KUBECONFIG is not set")?;
        for program in ["kubectl", "clusterctl"] {
            if !is_installed(program) {
                bail!("not installed: {program}");
            }
        }
        return show(tests(args).env("KUBECONFIG", kubeconfig));
    }
    let layout = Layout::new()?;
    let result = on_own_cluster(&layout, args);
    if !args.keep {
        let down = cluster::down(&layout);
        // What went wrong first is what matters.
        return result.and(down);
    }
    result
}

fn on_own_cluster(layout: &Layout, args: &Args) -> anyhow::Result<()> {
    let cluster = cluster::up(layout, true)?;
    provider::install(&cluster, args.program.as_deref())?;
    let mut tests = tests(args);
    tests.env("KUBECONFIG", layout.kubeconfig()).env("PATH", path_with([layout.at("bin").as_path()])?);
    show(&mut tests)
}

fn tests(args: &Args) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "test",
        "--locked",
        "--no-fail-fast",
        "--package",
        "nephele-e2e",
        "--features",
        "cluster",
        "--tests",
    ]);
    cargo.args(["--", THREADS]).args(&args.filter);
    // The errors say where and what; a backtrace of the test harness would bury them.
    cargo.current_dir(paths::repository()).env("RUST_BACKTRACE", "0");
    cargo
}
