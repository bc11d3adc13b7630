//! `cargo xtask e2e`: the black-box tests on a real cluster.
//!
//! ```text
//!  first lane:   with --all: helm ─▶ installed ─▶ our providers ─▶ alone ─▶ what is left of the next ─┐
//!                                                 ╰▶ what is left of the next ────────────────────────┤
//!  two lanes:    clusterctl, leaders, runtime, releases ──────────────────────────────────────────────┼─▶ lifecycle,
//!  fourth lane:  quiet ─▶ what is left of these ──────────────────────────────────────────────────────┘   ipam, input
//! ```

mod gate;
mod older;
mod program;
mod releases;

use std::{
    ffi::OsString,
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context, bail};

use self::older::OLDER;
pub(crate) use self::program::{Queue, Tests};
use crate::{
    chart,
    cluster::{ClusterApi, helm},
    command::{capture, is_installed, path_with},
    found::Found,
    installed,
    provider::Profile,
    target::Target,
};

/// The tests that kill a manager of the cluster with a node.
const ALONE: [&str; 1] = ["alone"];
/// The tests that mostly wait, on management clusters of their own.
const QUIET: [&str; 1] = ["quiet"];
/// The tests that share the cluster with a node, the slowest first.
const TOGETHER: [&str; 3] = ["lifecycle", "ipam", "input"];
/// The tests that run beside these, but only when a filter begins with their name, because they take long.
const ASKED_FOR: &str = "faults";
/// The number of these tests at a time. They mostly wait, and 18 tests create about 18 clusters. No other tests run
/// beside them: on CPUs that are too busy, Cluster API's managers lose their leases and restart.
const TOGETHER_AT_ONCE: usize = 18;
/// The tests that start one or two management clusters of their own, the slowest first. With two of them beside the tests
/// on the cluster with a node, two cores have 40 % of their time left, so there is a third one.
const WITH_CLUSTERS_OF_THEIR_OWN: [&str; 4] = ["clusterctl", "leaders", "runtime", "releases"];
/// Long enough for the kubelet's back-off, which grows each time a manager is killed.
const AVAILABLE_LIMIT: &str = "--timeout=300s";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// First run the tests of `cargo xtask helm` and `cargo xtask installed`, beside those that have management clusters
    /// of their own.
    #[arg(long)]
    all: bool,
    /// Run the tests of releases with this release of Cluster API alone, and write the result into the book; repeatable.
    #[arg(long, value_enum, conflicts_with_all = ["all", "filter"])]
    cluster_api: Vec<ClusterApi>,
    /// Run only tests whose names contain this. With faults, the long tests of the scenarios run, too.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.cluster_api.is_empty() {
        return releases::run(&args.cluster_api, &args.target.program(Profile::Dev)?);
    }
    let tests = Tests::build()?;
    if args.filter.is_none() {
        older::build()?;
        helm()?;
    }
    args.target.work(Profile::Dev, |changing| {
        let mut environment = environment(changing.found())?;
        if args.filter.is_none() {
            // So that one failed test leaves its processors and its number to the others.
            environment.push(("NEPHELE_STOP_FAILED", "true".into()));
        }
        let tests = &tests.with(&environment);
        let of = |groups: &[&str]| Queue::new(tests.names(groups, args.filter.as_deref()));
        let is_asked_for = args
            .filter
            .as_deref()
            .is_some_and(|filter| filter.starts_with(ASKED_FOR));
        let slow = is_asked_for.then_some(ASKED_FOR);
        let together = of(&slow.into_iter().chain(TOGETHER).collect::<Vec<_>>());
        let apart = of(&WITH_CLUSTERS_OF_THEIR_OWN);
        let quiet = of(&QUIET);
        let alone = of(&ALONE);
        tests.announce();
        // A failure of one group does not keep the others from running.
        let results = Mutex::new(Vec::new());
        let done = |result| {
            results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(result);
        };
        let is_installed = thread::scope(|scope| {
            let apart = &apart;
            let done = &done;
            scope.spawn(move || done(tests.run(apart, 2)));
            scope.spawn(move || {
                done(tests.run(&quiet, 1));
                done(tests.run(apart, 1));
            });
            if args.all {
                done(chart::cluster::test(changing, args.filter.as_deref()));
                done(installed::test(changing, args.filter.as_deref()));
            }
            let installed = changing.install();
            let is_installed = installed.is_ok();
            done(installed);
            if !is_installed {
                return false;
            }
            scope.spawn(move || done(tests.run(apart, 1)));
            done(tests.run(&alone, 1));
            done(tests.run(apart, 1));
            true
        });
        if is_installed && !together.is_empty() {
            done(available(&environment));
            done(tests.run(&together, TOGETHER_AT_ONCE));
        }
        results
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .into_iter()
            .collect()
    })
}

/// The environment variables with which tests find the cluster and its programs.
fn environment(found: &Found) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let mut environment = vec![("KUBECONFIG", found.kubeconfig.clone().into_os_string())];
    // Tests that need several management clusters start them with `this`, to run `program`.
    if let Some(program) = &found.program {
        let this = std::env::current_exe().context("failed to find this program")?;
        let program = std::path::absolute(program).context("failed to find our program")?;
        environment.push(("NEPHELE_XTASK", this.into()));
        environment.push(("NEPHELE_PROGRAM", program.into()));
        let older = OLDER.map(|(variable, release)| (variable, release.name().into()));
        environment.extend(older);
    }
    match &found.programs {
        Some(folder) => environment.push(("PATH", path_with([folder.as_path()])?)),
        None => {
            for program in ["kubectl", "clusterctl"] {
                if !is_installed(program) {
                    bail!("not installed: {program}");
                }
            }
        }
    }
    Ok(environment)
}

/// Waits until all managers are available.
fn available(environment: &[(&str, OsString)]) -> anyhow::Result<()> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args([
        "wait",
        "deployments",
        "--all",
        "--all-namespaces",
        "--for=condition=Available",
    ]);
    kubectl
        .arg(AVAILABLE_LIMIT)
        .envs(environment.iter().map(|(name, value)| (name, value)));
    capture(&mut kubectl).map(drop)
}
