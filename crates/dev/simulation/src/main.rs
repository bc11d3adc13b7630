//! Runs worlds: `cargo xtask worlds --seeds N [--from SEED]`.

#![allow(clippy::print_stdout, reason = "a command line speaks through its output")]

mod alone;
mod leftovers;
mod seeds;
mod slope;
mod stories;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use anyhow::Context as _;
use clap::Parser;
use nephele_simulation::{Scenario, Summary, Violation, shrink};
use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;

use crate::alone::run_alone;

/// The manager's allocator. A world allocates much, so it also takes a tenth less time than with the system's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A line for every so many worlds, so that a run that is stopped has said how far it came: a minute or two apart on
/// two cores.
const PROGRESS_EVERY: u64 = 250;

/// Runs worlds and prints those that break a rule.
#[derive(Debug, Parser)]
struct Args {
    /// How many worlds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The seed of the first world.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many worlds run at a time, each in a process of its own.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Run this scenario, as a failing world prints it, instead of seeds.
    #[arg(long, value_name = "JSON")]
    replay: Option<String>,
    /// How many scenarios to try to make a failing one shorter.
    #[arg(long, default_value_t = 60)]
    shrink: usize,
    /// Run every Nth world twice, and compare the requests of managers with their times and order; 0 for none.
    #[arg(long, default_value_t = 20)]
    twice: u64,
    /// Stop after this many failing worlds.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Instead of worlds, create and delete clusters in so many rounds, and print what a cluster leaves behind.
    #[arg(long, value_name = "ROUNDS")]
    memory: Option<usize>,
    /// Instead of worlds, tell a story with ten faults in so many worlds of other seeds, and compare it with the first one.
    #[arg(long, value_name = "TIMES")]
    stories: Option<u64>,
    /// Instead of worlds, let so many worlds go back to a checkpoint.
    #[arg(long, value_name = "TIMES")]
    rewinds: Option<u64>,
    /// Instead of worlds, restart the manager of so many worlds while Faults are in force, and compare what is at rest.
    #[arg(long, value_name = "TIMES")]
    restarts: Option<u64>,
    /// Restart the manager of a world of this seed, as each of those processes does.
    #[arg(long, value_name = "SEED", hide = true)]
    restart: Option<u64>,
    /// Let a world of this seed go back to a checkpoint, as each of those processes does.
    #[arg(long, value_name = "SEED", hide = true)]
    rewind: Option<u64>,
    /// Tell that story once, in a world of this seed, as each of those processes does.
    #[arg(long, value_name = "SEED", hide = true)]
    story: Option<u64>,
    /// Read a scenario from the input, run it and write the result, as each of those processes does.
    #[arg(long, hide = true)]
    alone: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    // A world has its own time, and lines without times can be compared.
    tracing_subscriber::fmt()
        .without_time()
        .with_ansi(false)
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off")))
        .with_writer(std::io::stderr)
        .init();
    if args.alone {
        alone::answer()?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(seed) = args.story {
        alone::tell_story(seed)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (deed, seed, times) in [
        (alone::REWIND, args.rewind, args.rewinds),
        (alone::RESTART, args.restart, args.restarts),
    ] {
        if let Some(seed) = seed {
            deed.answer(seed)?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(times) = times {
            return Ok(seeds::all(deed, times, args.from, args.jobs));
        }
    }
    if let Some(times) = args.stories {
        return stories::compare(times, args.from, args.jobs);
    }
    if let Some(rounds) = args.memory {
        return leftovers::report(rounds);
    }
    if let Some(text) = &args.replay {
        let scenario: Scenario = serde_json::from_str(text).context("failed to read the scenario")?;
        print!("{scenario}");
        return Ok(match run_alone(&scenario) {
            Ok(summary) => {
                println!("ok: {summary:?}");
                ExitCode::SUCCESS
            }
            Err(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        });
    }
    let started = Instant::now();
    let failed = run_all(&args);
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    let ran = failed.ran;
    let failures = failed.found.len();
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = ran as f64 / minutes;
    println!("{ran} worlds, {failures} violations, {rate:.0} seeds per minute");
    for (scenario, violation) in &failed.found {
        report(scenario, violation, args.shrink)?;
    }
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Results {
    ran: u64,
    found: Vec<(Scenario, Violation)>,
}

fn run_all(args: &Args) -> Results {
    let next = AtomicU64::new(args.from);
    let ran = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= args.from.saturating_add(args.seeds) || found.lock().len() >= args.failures {
                        return;
                    }
                    let scenario = Scenario::of(seed);
                    let outcome = match run_alone(&scenario) {
                        Ok(first) if args.twice > 0 && seed.is_multiple_of(args.twice) => {
                            again(&scenario, first)
                        }
                        outcome => outcome,
                    };
                    if let Err(violation) = outcome {
                        println!("seed {seed}: {violation}");
                        found.lock().push((scenario, violation));
                    }
                    let ran = ran.fetch_add(1, Ordering::Relaxed) + 1;
                    if ran.is_multiple_of(PROGRESS_EVERY) {
                        println!(
                            "{ran} of {} worlds, {} violations",
                            args.seeds,
                            found.lock().len()
                        );
                    }
                }
            });
        }
    });
    Results {
        ran: ran.into_inner(),
        found: found.into_inner(),
    }
}

/// Runs a world again, with the same result.
fn again(scenario: &Scenario, first: Summary) -> Result<Summary, Violation> {
    let second = run_alone(scenario)?;
    if first == second {
        return Ok(second);
    }
    let what = format!("two runs differ: {first:?} and {second:?}");
    Err(Violation {
        step: scenario.steps.len(),
        what,
    })
}

fn report(scenario: &Scenario, violation: &Violation, tries: usize) -> anyhow::Result<()> {
    println!(
        "\n{violation}\n{scenario}again: cargo xtask worlds --seeds 1 --from {}",
        scenario.seed
    );
    if tries == 0 {
        return Ok(());
    }
    let shorter = shrink(scenario, tries, |candidate| run_alone(candidate).is_err());
    if let Err(violation) = run_alone(&shorter) {
        println!(
            "shorter: {violation}\n{shorter}again: cargo xtask worlds --replay '{}'",
            serde_json::to_string(&shorter)?
        );
    } else {
        println!("the shorter scenario does not fail each time");
    }
    Ok(())
}
