//! The program with the black-box tests. Each test runs as its own process. This module decides what runs in
//! parallel, reports each test as soon as it ends, with its time, and stops one that hangs.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::gate::Gate;
use crate::{
    command::{capture, show, show_failure},
    paths,
};

/// The test target, and its package in the repository.
const TARGET: &str = "e2e";
const FOLDER: &str = "e2e/tests";
/// The group of tests whose output is what they measure.
const MEASURES: &str = "takeovers";
/// The time limit of a test. No test takes half as long on two busy cores.
const SECONDS_MAX: &str = "1200";

/// Tests that run once each, on the next free worker.
pub(crate) struct Queue<'a> {
    names: Vec<&'a str>,
    next: AtomicUsize,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(names: Vec<&'a str>) -> Self {
        Self {
            names,
            next: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn next(&self) -> Option<&'a str> {
        self.names.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// The tests and their environment.
#[derive(Clone)]
pub(crate) struct Tests {
    program: PathBuf,
    names: Vec<String>,
    environment: Vec<(OsString, OsString)>,
    /// All lanes share it, so that their tests start one after another.
    gate: Arc<Gate>,
}

impl Tests {
    /// Builds the tests with the features that `cargo test --workspace` resolves, so that nothing is built twice.
    pub(crate) fn build() -> anyhow::Result<Self> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "test",
            "--locked",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
        cargo.args([
            "--workspace",
            "--features",
            "nephele-e2e-tests/cluster,nephele-page-tests/browser",
            "--test",
            TARGET,
        ]);
        let output = cargo
            .current_dir(paths::repository())
            .stderr(Stdio::inherit())
            .output()
            .context("failed to build the tests")?;
        if !output.status.success() {
            bail!("failed to build the tests: {}", output.status);
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let program = messages.lines().find_map(built).context("no tests were built")?;
        let listed = capture(Command::new(&program).args(["--list", "--format=terse"]))?;
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned);
        Ok(Self {
            names: names.collect(),
            program,
            environment: Vec::new(),
            gate: Arc::default(),
        })
    }

    /// The tests with these variables in addition.
    pub(crate) fn with<N: AsRef<OsStr>, V: AsRef<OsStr>>(&self, variables: &[(N, V)]) -> Self {
        let mut tests = self.clone();
        let owned = |(name, value): &(N, V)| (name.as_ref().to_owned(), value.as_ref().to_owned());
        tests.environment.extend(variables.iter().map(owned));
        tests
    }

    /// The tests of these modules, in their order, whose names contain the filter.
    pub(crate) fn names(&self, groups: &[&str], filter: Option<&str>) -> Vec<&str> {
        select(&self.names, groups, filter)
    }

    /// Prints which program runs, as `cargo test` would.
    pub(crate) fn announce(&self) {
        println!("     Running {FOLDER}/main.rs ({})", self.program.display());
    }

    /// Runs the remaining tests of a queue, this many at once, and reports failures.
    pub(crate) fn run(&self, queue: &Queue<'_>, at_once: usize) -> anyhow::Result<()> {
        let failed = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..at_once.min(queue.names.len()) {
                scope.spawn(|| {
                    while let Some(name) = queue.next() {
                        if let Err(error) = self.run_one(name) {
                            eprintln!("{error:#}");
                            failed.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if failed.is_empty() {
            Ok(())
        } else {
            bail!("failed: {}", failed.join(", "))
        }
    }

    fn run_one(&self, name: &str) -> anyhow::Result<()> {
        let _running = self.gate.pass()?;
        let started = Instant::now();
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=10", SECONDS_MAX])
            .arg(&self.program)
            .args(["--exact", name]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The errors name the place and the cause. A backtrace of the test harness would hide them.
        command
            .env("RUST_BACKTRACE", "0")
            .current_dir(paths::repository().join(FOLDER));
        let measures = name.split("::").next() == Some(MEASURES);
        let result = if measures {
            show(command.arg("--nocapture"))
        } else {
            show_failure(&mut command)
        };
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {outcome} <{:.1} s>",
            started.elapsed().as_secs_f64()
        );
        result
    }
}

/// The program in a message of a build, if it is the tests.
fn built(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let target = &message["target"];
    let is_it =
        message["profile"]["test"] == true && target["kind"] == json!(["test"]) && target["name"] == TARGET;
    is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
}

fn select<'a>(names: &'a [String], groups: &[&str], filter: Option<&str>) -> Vec<&'a str> {
    let of = |group: &str| {
        let prefix = format!("{group}::");
        names
            .iter()
            .filter(move |name| name.starts_with(&prefix))
            .map(String::as_str)
    };
    let matches = |name: &&str| filter.is_none_or(|filter| name.contains(filter));
    groups
        .iter()
        .flat_map(|group| of(group))
        .filter(matches)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_selected_by_module_in_order_and_by_a_part_of_the_name() {
        let names = ["lifecycle::a::b", "runtime::lifecycle::b", "alone::c"].map(str::to_owned);
        assert_eq!(select(&names, &["lifecycle"], None), ["lifecycle::a::b"]);
        assert_eq!(
            select(&names, &["runtime", "alone"], None),
            ["runtime::lifecycle::b", "alone::c"]
        );
        assert_eq!(select(&names, &["runtime", "alone"], Some("::c")), ["alone::c"]);
    }

    #[test]
    fn the_program_is_the_executable_of_the_test_target() {
        let message = |kind: &str, name: &str| {
            let target = json!({"kind": [kind], "name": name});
            json!({"target": target, "profile": {"test": true}, "executable": "/t/e2e-1"}).to_string()
        };
        assert_eq!(built(&message("test", "e2e")), Some("/t/e2e-1".into()));
        assert_eq!(
            (built(&message("lib", "e2e")), built(&message("test", "http"))),
            (None, None)
        );
        assert_eq!(built("not JSON"), None);
    }
}
