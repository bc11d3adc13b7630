//! `cargo xtask bench up`: clusters in `nephele up --cluster-api`, and what each of its processes costs.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::future::try_join_all;
use nephele_e2e::{Management, Scope, Shape, manager};
use serde::Deserialize;

use super::{
    clusters::{Available, QUIET, all_available},
    measure::refuse_zero,
    quantiles::middle,
};
use crate::{
    cluster::{self, Programs},
    paths,
    provider::{self, Profile},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of clusters at once; repeatable, for one start each.
    #[arg(short = 'n', value_name = "NUMBER", default_values_t = [1, 20, 50])]
    numbers: Vec<usize>,
    /// Workers of each cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    workers: u32,
    /// Use this program, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What `nephele up --json` prints when it is ready.
#[derive(Debug, Deserialize)]
struct Report {
    management: Server,
    processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Server {
    kubeconfig: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Process {
    name: String,
    id: u32,
}

/// The figures of one start.
struct Round {
    number: usize,
    /// From the start of the program until it serves.
    ready: Duration,
    /// From the creation of the first cluster until each was seen available, sorted.
    available: Vec<Duration>,
    /// By name of the process.
    processes: BTreeMap<String, Cost>,
}

/// What a process costs.
struct Cost {
    cpu_seconds_until_ready: f64,
    /// From then until all clusters are available and all is quiet.
    cpu_seconds: f64,
    resident_kib: u64,
}

/// A program that is killed with its processes when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    refuse_zero(&args.numbers)?;
    let program = (args.program.clone()).map_or_else(|| provider::build(Profile::Dist), Ok)?;
    let programs = cluster::programs()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start a runtime")?;
    let mut rounds = Vec::new();
    for &number in &args.numbers {
        rounds.push(runtime.block_on(round(&program, &programs, number, args.workers))?);
    }
    print(&rounds);
    Ok(())
}

async fn round(program: &Path, programs: &Programs, number: usize, workers: u32) -> anyhow::Result<Round> {
    let start = Instant::now();
    let folder = paths::cache()?.join("bench-up");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("failed to remove the folder of an earlier run")?;
    }
    let mut command = Command::new(program);
    command
        .args(["up", "--json", "--cluster-api", "--folder"])
        .arg(&folder);
    for (name, components) in &programs.components {
        let run = format!("{name}={}", programs.folder.join(name).display());
        command.arg("--provider").arg(components).args(["--run", &run]);
    }
    command.env("KUBEBUILDER_ASSETS", &programs.folder);
    // It ends with its input.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.context("failed to start nephele up")?);
    let mut line = String::new();
    let said = running.0.stdout.take().context("nephele up has no output")?;
    BufReader::new(said)
        .read_line(&mut line)
        .context("failed to read what nephele up prints")?;
    let report: Report = serde_json::from_str(&line).context("nephele up printed no report")?;
    let ready = start.elapsed();
    let mut ids: Vec<_> = report
        .processes
        .into_iter()
        .map(|process| (process.name, process.id))
        .collect();
    ids.push(("nephele".to_owned(), running.0.id()));
    let times = || {
        ids.iter()
            .map(|(_, id)| manager::cpu_seconds(*id))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let until_ready = times()?;

    let scope = Scope::on(Management::of(&report.management.kubeconfig).await?, "bench").await?;
    let start = Instant::now();
    let names: Vec<_> = (0..number).map(|index| format!("c{index:04}")).collect();
    try_join_all(
        names
            .iter()
            .map(|name| scope.of_class(name, Shape::new(1, workers))),
    )
    .await?;
    let Available { times: available, .. } = all_available(&scope, number, start).await?;
    tokio::time::sleep(QUIET).await;
    let mut processes = BTreeMap::new();
    for (((name, id), before), after) in ids.iter().zip(until_ready).zip(times()?) {
        let cost = Cost {
            cpu_seconds_until_ready: before,
            cpu_seconds: after - before,
            resident_kib: manager::resident_kib(*id)?,
        };
        processes.insert(name.clone(), cost);
    }
    Ok(Round {
        number,
        ready,
        available,
        processes,
    })
}

fn print(rounds: &[Round]) {
    for round in rounds {
        let seconds = |time: Option<&Duration>| time.copied().unwrap_or_default().as_secs_f64();
        println!(
            "\n{} clusters: ready after {:.1} s; Available after {:.1} s in the middle, {:.1} s the last.\n",
            round.number,
            round.ready.as_secs_f64(),
            middle(&round.available).as_secs_f64(),
            seconds(round.available.last()),
        );
        println!("| Process | CPU s until ready | CPU s for the clusters | per cluster | resident MiB |");
        println!("|---|---:|---:|---:|---:|");
        for (name, cost) in &round.processes {
            println!(
                "| {name} | {:.2} | {:.2} | {:.3} | {:.1} |",
                cost.cpu_seconds_until_ready,
                cost.cpu_seconds,
                cost.cpu_seconds / round.number as f64,
                cost.resident_kib as f64 / 1024.0,
            );
        }
    }
}
