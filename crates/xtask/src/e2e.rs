//! `cargo xtask e2e`: the black-box tests on a real cluster.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::{
    command::{capture, is_installed, path_with},
    paths,
    place::Place,
};

/// Tests wait most of their time.
const THREADS: &str = "--test-threads=16";
/// Of each of those that run side by side: 24 clusters at most come up at once.
const THREADS_BESIDE_OTHERS: &str = "--test-threads=6";
/// The tests that kill managers, or take from them what others need.
const ALONE: &str = "alone";
/// Those that bring up management clusters of their own.
const WITH_CLUSTERS_OF_THEIR_OWN: [&str; 3] = ["clusterctl", "releases", "runtime"];
/// Of each of those: three clusters at once are enough for a small machine.
const THREADS_WITH_CLUSTERS: &str = "--test-threads=3";
/// For managers that were killed again and again: the kubelet lets them wait longer each time.
const AVAILABLE_LIMIT: &str = "--timeout=300s";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Run only tests whose names contain this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.place.work(|found| {
        let mut environment = vec![("KUBECONFIG", found.kubeconfig.clone().into_os_string())];
        // For tests that need more management clusters than one: this brings them up, with this program in them.
        if let Some(program) = &found.program {
            let this = std::env::current_exe().context("failed to find this program")?;
            let program = std::path::absolute(program).context("failed to find our program")?;
            environment.push(("NEPHELE_XTASK", this.into()));
            environment.push(("NEPHELE_PROGRAM", program.into()));
        }
        match &found.programs {
            Some(folder) => {
                environment.push(("PATH", path_with([folder.as_path()])?));
            }
            None => {
                for program in ["kubectl", "clusterctl"] {
                    if !is_installed(program) {
                        bail!("not installed: {program}");
                    }
                }
            }
        }
        let (alone, others): (Vec<_>, Vec<_>) = build()?.into_iter().partition(|test| test.name == ALONE);
        let (apart, together): (Vec<_>, Vec<_>) =
            (others.into_iter()).partition(|test| WITH_CLUSTERS_OF_THEIR_OWN.contains(&test.name.as_str()));
        let run =
            |tests: &[Test], threads| side_by_side(tests, threads, args.filter.as_deref(), &environment);
        // What fails in the one is no reason not to run the others.
        let mut results = vec![run(&alone, THREADS), available(&environment)];
        results.push(run(&together, THREADS_BESIDE_OTHERS));
        results.extend(apart.chunks(1).map(|test| run(test, THREADS_WITH_CLUSTERS)));
        results.into_iter().collect()
    })
}

/// Tests that were built together.
struct Test {
    name: String,
    source: String,
    program: PathBuf,
}

impl Test {
    /// One of the messages of a build, if it is about tests.
    fn read(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let target = &message["target"];
        let is_test = message["profile"]["test"] == true && target["kind"] == json!(["test"]);
        let read = || {
            Some(Self {
                name: text(&target["name"])?,
                source: text(&target["src_path"])?,
                program: text(&message["executable"])?.into(),
            })
        };
        is_test.then(read)?
    }
}

fn build() -> anyhow::Result<Vec<Test>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(["--package", "nephele-e2e", "--features", "cluster", "--tests"]);
    let output = cargo
        .current_dir(paths::repository())
        .stderr(Stdio::inherit())
        .output()
        .context("failed to build the tests")?;
    if !output.status.success() {
        bail!("failed to build the tests: {}", output.status);
    }
    let tests: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().filter_map(Test::read).collect();
    if tests.is_empty() {
        bail!("no tests were built");
    }
    Ok(tests)
}

/// Waits until all managers are there.
fn available(environment: &[(&str, OsString)]) -> anyhow::Result<()> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["wait", "deployments", "--all", "--all-namespaces", "--for=condition=Available"]);
    kubectl.arg(AVAILABLE_LIMIT).envs(environment.iter().map(|(name, value)| (name, value)));
    capture(&mut kubectl).map(drop)
}

/// Runs tests at once. What they print comes when they end, under the line that `cargo test` would print.
fn side_by_side(
    tests: &[Test],
    threads: &str,
    filter: Option<&str>,
    environment: &[(&str, OsString)],
) -> anyhow::Result<()> {
    let run = |test: &Test| {
        let mut command = Command::new(&test.program);
        command.arg(threads).args(filter).envs(environment.iter().map(|(name, value)| (name, value)));
        // The errors say where and what; a backtrace of the test harness would bury them.
        command.env("RUST_BACKTRACE", "0").current_dir(paths::repository().join("e2e"));
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("failed to run {}", test.program.display()))?;
        let root = format!("{}/", paths::repository().join("e2e").display());
        let source = test.source.strip_prefix(&root).unwrap_or(&test.source);
        let (printed, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        println!("     Running {source} ({})\n{errors}{printed}", test.program.display());
        if !output.status.success() {
            bail!("failed: {source}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = tests.iter().map(|test| scope.spawn(move || run(test))).collect();
        let ended = running.into_iter().map(|test| test.join().expect("it reports what goes wrong"));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}
