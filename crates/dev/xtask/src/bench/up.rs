//! `cargo xtask bench up`: clusters in `nephele up --cluster-api`, and what each of its processes costs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::future::try_join_all;
use nephele_e2e::{Management, Scope, Shape, manager};

use super::{
    clusters::{Available, QUIET, all_available},
    measure::refuse_zero,
    quantiles::middle,
};
use crate::{
    cluster::{self, Programs},
    paths,
    provider::{self, Profile},
    up::Up,
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
    let up = Up::start(program, programs, &programs.folder, &folder, &[])?;
    let ready = start.elapsed();
    let times = || {
        up.processes
            .iter()
            .map(|process| manager::cpu_seconds(process.id))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let until_ready = times()?;

    let scope = Scope::on(Management::of(&up.kubeconfig).await?, "bench").await?;
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
    for ((process, before), after) in up.processes.iter().zip(until_ready).zip(times()?) {
        let cost = Cost {
            cpu_seconds_until_ready: before,
            cpu_seconds: after - before,
            resident_kib: manager::resident_kib(process.id)?,
        };
        processes.insert(process.name.clone(), cost);
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
