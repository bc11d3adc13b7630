//! `cargo xtask e2e`: the black-box tests on a real cluster.

use std::process::Command;

use anyhow::{Context, bail};

use crate::{
    command::{is_installed, path_with, show},
    paths,
    place::Place,
};

/// Tests wait most of their time.
const THREADS: &str = "--test-threads=16";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Run only tests whose names contain this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.place.work(|found| {
        let mut tests = tests(args);
        tests.env("KUBECONFIG", &found.kubeconfig);
        // For tests that need more management clusters than one: this brings them up, with this program in them.
        if let Some(program) = &found.program {
            let this = std::env::current_exe().context("failed to find this program")?;
            let program = std::path::absolute(program).context("failed to find our program")?;
            tests.env("NEPHELE_XTASK", this).env("NEPHELE_PROGRAM", program);
        }
        match &found.programs {
            Some(folder) => {
                tests.env("PATH", path_with([folder.as_path()])?);
            }
            None => {
                for program in ["kubectl", "clusterctl"] {
                    if !is_installed(program) {
                        bail!("not installed: {program}");
                    }
                }
            }
        }
        show(&mut tests)
    })
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
