//! Worlds that each run in a process of their own, whose randomness comes from the seed. Such a world runs the same
//! each time, and a world that crashes its process is a violation.

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::LazyLock,
    thread,
};

use anyhow::Context as _;
use nephele_simulation::{
    Prepared, Scenario, Summary, Violation, restarts, rewind, run,
    story::{Story, tell},
};

/// The argument for a process that reads a scenario, runs it and writes the result.
pub(crate) const ARGUMENT: &str = "--alone";

/// What all worlds share, as text. Its keys are the same each time.
static PREPARED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    nephele_seeded_process::seed(0);
    // A new thread has not drawn any random numbers yet.
    let prepared = thread::spawn(Prepared::of_this_process)
        .join()
        .expect("it can be made");
    serde_json::to_vec(&prepared).expect("it is JSON")
});

/// The result of a world.
type Outcome = Result<Summary, Violation>;

/// Runs a world in another process.
pub(crate) fn run_alone(scenario: &Scenario) -> Outcome {
    ask(scenario).unwrap_or_else(|error| {
        // A crashed process is a violation.
        Err(Violation {
            step: 0,
            what: format!("{error:#}"),
        })
    })
}

fn ask(scenario: &Scenario) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command
        .spawn()
        .context("failed to start a process for the world")?;
    let mut input = process.stdin.take().context("the process has no input")?;
    let scenario = serde_json::to_vec(scenario)?;
    let parts = [scenario.as_slice(), b"\n", PREPARED.as_slice()];
    for part in parts {
        input
            .write_all(part)
            .context("the process does not read its scenario")?;
    }
    drop(input);
    let output = process
        .wait_with_output()
        .context("the process cannot be waited for")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the process of the world ended with {}", output.status))
}

/// Tells a story in another process.
pub(crate) fn told_alone(seed: u64) -> anyhow::Result<Story> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let output = Command::new(program)
        .args(["--story", &seed.to_string()])
        .output();
    let output = output.context("failed to start a process for the story")?;
    let told: Result<Story, String> = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the process of the story ended with {}", output.status))?;
    told.map_err(anyhow::Error::msg)
}

/// Tells a story and writes it, in the other process.
pub(crate) fn tell_story(seed: u64) -> anyhow::Result<()> {
    nephele_seeded_process::seed(seed);
    let told = thread::spawn(move || tell(seed)).join();
    let told = told.map_err(|_| anyhow::anyhow!("the story panicked"))?;
    serde_json::to_writer(std::io::stdout(), &told).context("failed to write the story")
}

/// Something that a world of a seed does in a process of its own. Returns what is wrong with the world.
#[derive(Clone, Copy)]
pub(crate) struct Deed {
    /// The argument of the other process.
    pub(crate) argument: &'static str,
    /// What worlds do, after their number.
    pub(crate) done: &'static str,
    deed: fn(u64) -> Result<(), String>,
}

pub(crate) const REWIND: Deed = Deed {
    argument: "--rewind",
    done: "went back to their checkpoints",
    deed: rewind,
};
pub(crate) const RESTART: Deed = Deed {
    argument: "--restart",
    done: "outlasted their managers",
    deed: restarts,
};

impl Deed {
    /// Does it in another process.
    pub(crate) fn alone(self, seed: u64) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = Command::new(program)
            .args([self.argument, &seed.to_string()])
            .output();
        let output = output.map_err(|error| error.to_string())?;
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| Err(format!("the process of the world ended with {}", output.status)))
    }

    /// Does it and writes the result, in the other process.
    pub(crate) fn answer(self, seed: u64) -> anyhow::Result<()> {
        nephele_seeded_process::seed(seed);
        let outcome = thread::spawn(move || (self.deed)(seed)).join();
        let outcome = outcome.map_err(|_| anyhow::anyhow!("the world panicked"))?;
        serde_json::to_writer(std::io::stdout(), &outcome).context("failed to write the result")
    }
}

/// Reads a scenario and what all worlds share, runs it and writes the result, in the other process.
pub(crate) fn answer() -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("failed to read a scenario")?;
    let (scenario, prepared) = text.split_once('\n').context("nothing follows the scenario")?;
    let scenario: Scenario = serde_json::from_str(scenario).context("failed to read a scenario")?;
    serde_json::from_str::<Prepared>(prepared)
        .context("failed to read what worlds share")?
        .take();
    nephele_seeded_process::seed(scenario.seed);
    // A new thread has not drawn any random numbers yet.
    let outcome = thread::spawn(move || run(&scenario)).join();
    let outcome = outcome.map_err(|_| anyhow::anyhow!("the world panicked"))?;
    serde_json::to_writer(std::io::stdout(), &outcome).context("failed to write the result")
}
