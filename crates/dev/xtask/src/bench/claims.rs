//! `cargo xtask bench claims`: how fast claims are bound and released, the latency of a single one meanwhile, and
//! the cost.
//!
//! ```text
//!  measure ─▶ create n ─▶ all bound ─▶ measure ─▶ delete n ─▶ all gone ─▶ measure
//!              └ one more at a time on a pool of its own, which has to wait behind none
//! ```
//!
//! The load runs on the same CPUs. The table shows its share beside all others.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use nephele_e2e::{
    Management, Scope,
    load::{Load, Tally, Witness},
    management::kinds,
    manager::{self, Provider::Ipam},
};
use serde_json::json;
use tokio::{sync::watch, time};

use super::{
    durations::Durations,
    measure::{measure, refuse_zero},
    processors::{Processors, SHOWN},
    quantiles::quantile,
    requests::Requests,
};
use crate::target::Target;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of claims; repeatable, for one round each.
    #[arg(short = 'n', value_name = "NUMBER", default_values_t = [2000, 20_000])]
    numbers: Vec<usize>,
    /// Number of pools; repeatable, for one round with each number of claims.
    #[arg(long, value_name = "NUMBER", default_values_t = [1, 20])]
    pools: Vec<usize>,
    /// Start the manager with this additional argument, and leave it so; repeatable.
    #[arg(long = "manager-arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    manager_args: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Long enough for 20,000 claims at ten claims a second.
const LIMIT: Duration = Duration::from_secs(2000);
/// The pool of the claims that are created one by one.
const SINGLE: &str = "single";
/// The wait before memory is measured, because an allocator returns memory late.
const QUIET: Duration = Duration::from_secs(5);
/// The most activities of the API server that are shown, longest first.
const DURATIONS_MAX: usize = 16;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    refuse_zero(&args.numbers)?;
    refuse_zero(&args.pools)?;
    measure(&args.target, async |kubeconfig| rounds(args, kubeconfig).await)
}

async fn rounds(args: &Args, kubeconfig: &Path) -> anyhow::Result<()> {
    let management = Management::of(kubeconfig).await?;
    if !args.manager_args.is_empty() {
        manager::add_arguments(&management, Ipam, &args.manager_args).await?;
    }
    let mut rounds = Vec::new();
    for &number in &args.numbers {
        for &pools in &args.pools {
            let round = round(&management, Ipam.namespace(), number, pools).await;
            rounds.push(round.with_context(|| format!("{number} claims on {pools} pools"))?);
            println!("{number} claims on {pools} pools: done");
        }
    }
    print(&rounds);
    Ok(())
}

/// The figures of one round.
pub(super) struct Round {
    number: usize,
    pools: usize,
    pub(super) binding: Phase,
    pub(super) releasing: Phase,
    /// Times from the request that creates a claim until its address was seen, sorted.
    latencies: Vec<Duration>,
    /// The same for claims that are created one by one.
    single_latencies: Vec<Duration>,
    /// Resident memory of the manager: before, with all bound, with all gone.
    resident_kib: [u64; 3],
}

/// The phase of binding or of releasing.
pub(super) struct Phase {
    /// Including the claims that are created one by one.
    claims: usize,
    elapsed: Duration,
    pub(super) processors: Processors,
    requests: Requests,
    /// Seconds in the API server, longest first.
    durations: Vec<(String, f64)>,
}

impl Phase {
    pub(super) fn per_second(&self) -> f64 {
        self.claims as f64 / self.elapsed.as_secs_f64()
    }

    pub(super) fn ms_per_claim(&self, seconds: f64) -> f64 {
        seconds * 1000.0 / self.claims as f64
    }
}

/// Binds and releases claims by the manager in this namespace.
pub(super) async fn round(
    management: &Management,
    namespace: &str,
    number: usize,
    pools: usize,
) -> anyhow::Result<Round> {
    let scope = Scope::on(management.clone(), "bench").await?;
    let pool_name = |index: usize| format!("pool-{:03}", index % pools);
    for pool in (0..pools).map(pool_name).chain([SINGLE.to_owned()]) {
        let spec = json!({"addresses": ["10.0.0.0/8"], "prefix": 8});
        scope.pool(kinds::IP_POOL, &pool, spec).await?;
    }
    let pid = manager::process_in(management, namespace).await?;
    let names: Vec<_> = (0..number).map(|index| format!("claim-{index:06}")).collect();
    let load = Load::start(management, &scope.namespace).await?;
    time::sleep(QUIET).await;
    let resident_before = manager::resident_kib(pid)?;

    let meter = Meter::start(management, pid).await?;
    let (ended, end) = watch::channel(false);
    let bind = async {
        let claims = names
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), pool_name(index)));
        load.create(claims, kinds::IP_POOL).await?;
        load.until("every claim to be bound", LIMIT, |tally| {
            tally.bound("claim") == number
        })
        .await?;
        let elapsed = meter.elapsed();
        ended.send_replace(true);
        anyhow::Ok(elapsed)
    };
    let (elapsed, singles) = tokio::try_join!(bind, one_by_one(&load, end))?;
    let all = number + singles.len();
    let binding = meter
        .stop(management, elapsed, all, "POST ipaddressclaims 201")
        .await?;
    load.addresses(|witness| each_has_one(witness, all))?;
    time::sleep(QUIET).await;
    let resident_bound = manager::resident_kib(pid)?;

    let meter = Meter::start(management, pid).await?;
    load.delete(names.iter().chain(&singles).cloned()).await?;
    load.until("every claim to be gone", LIMIT, Tally::is_empty)
        .await?;
    let elapsed = meter.elapsed();
    load.until_addresses("every address to be gone", LIMIT, |witness| {
        witness.held().len() == 0
    })
    .await?;
    let releasing = meter
        .stop(management, elapsed, all, "DELETE ipaddressclaims 200")
        .await?;
    let (latencies, single_latencies) =
        load.claims(|tally| (tally.latencies(&names), tally.latencies(&singles)));
    drop(load);
    scope.finish().await?;
    time::sleep(QUIET).await;
    ensure!(
        manager::process_in(management, namespace).await? == pid,
        "the manager was restarted while it was measured"
    );
    let resident_kib = [resident_before, resident_bound, manager::resident_kib(pid)?];
    Ok(Round {
        number,
        pools,
        binding,
        releasing,
        latencies,
        single_latencies,
        resident_kib,
    })
}

/// Checks that each claim has an address of its own.
fn each_has_one(witness: &Witness, claims: usize) -> anyhow::Result<()> {
    let held = witness.held().len();
    ensure!(held == claims, "{held} addresses of {claims} claims");
    let duplicates = witness.duplicates();
    ensure!(duplicates.is_empty(), "given twice: {duplicates:?}");
    Ok(())
}

/// Creates claims one after the other, each once the one before is bound, until the end. Returns their names.
async fn one_by_one(load: &Load, end: watch::Receiver<bool>) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    while !*end.borrow() {
        let name = format!("single-{:06}", names.len());
        load.create([(name.clone(), SINGLE.to_owned())], kinds::IP_POOL)
            .await?;
        load.until("a single claim to be bound", LIMIT, |tally| tally.is_bound(&name))
            .await?;
        names.push(name);
    }
    Ok(names)
}

/// Counters at the beginning of a phase.
struct Meter {
    manager: u32,
    start: Instant,
    processors: Processors,
    requests: Requests,
    durations: Durations,
}

impl Meter {
    async fn start(management: &Management, manager: u32) -> anyhow::Result<Self> {
        let requests = Requests::of_claims(management).await?;
        let durations = Durations::now(management).await?;
        let processors = Processors::now(manager)?;
        Ok(Self {
            manager,
            processors,
            start: Instant::now(),
            requests,
            durations,
        })
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The figures of the phase. `sent` is the request of the load itself, which is not counted.
    async fn stop(
        self,
        management: &Management,
        elapsed: Duration,
        claims: usize,
        sent: &str,
    ) -> anyhow::Result<Phase> {
        let processors = Processors::now(self.manager)?.since(&self.processors);
        let requests = Requests::of_claims(management)
            .await?
            .since(&self.requests)
            .without(sent);
        let durations = Durations::now(management).await?.since(&self.durations);
        Ok(Phase {
            claims,
            elapsed,
            processors,
            requests,
            durations,
        })
    }
}

fn print(rounds: &[Round]) {
    print_rates(rounds);
    print_processors(rounds);
    print_requests(rounds);
    print_durations(rounds);
}

/// What happened in each phase of each round, and what it is called.
fn phases(rounds: &[Round]) -> impl Iterator<Item = (&'static str, &Round, &Phase)> {
    rounds.iter().flat_map(|round| {
        [
            ("bound", round, &round.binding),
            ("released", round, &round.releasing),
        ]
    })
}

fn print_rates(rounds: &[Round]) {
    println!(
        "\n| Claims | pools | bound/s | p50 ms | p99 ms | a single one, p50 ms | p99 ms | released/s | manager CPU ms per claim bound | released | resident MiB: before -> bound -> gone | KiB per claim |"
    );
    println!("|{}", "---:|".repeat(12));
    for round in rounds {
        let Round {
            number,
            pools,
            binding,
            releasing,
            latencies,
            single_latencies,
            resident_kib,
        } = round;
        let ms = |sorted: &[Duration], percent| quantile(sorted, percent).as_secs_f64() * 1000.0;
        let manager =
            |phase: &Phase| phase.ms_per_claim(phase.processors.seconds("manager").unwrap_or_default());
        let [before, bound, gone] = resident_kib.map(|kib| kib as f64 / 1024.0);
        println!(
            "| {number} | {pools} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {before:.1} -> {bound:.1} -> {gone:.1} | {:.2} |",
            binding.per_second(),
            ms(latencies, 50),
            ms(latencies, 99),
            ms(single_latencies, 50),
            ms(single_latencies, 99),
            releasing.per_second(),
            manager(binding),
            manager(releasing),
            (bound - before) * 1024.0 / binding.claims as f64,
        );
    }
}

fn print_processors(rounds: &[Round]) {
    println!(
        "\nProcessor seconds, and ms of them per claim, by program. All share the machine with the load.\n"
    );
    println!(
        "| Claims | pools | | s |{}",
        SHOWN.map(|program| format!(" {program} |")).concat()
    );
    println!("|---:|---:|---|---:|{}", "---:|".repeat(SHOWN.len()));
    for (what, round, phase) in phases(rounds) {
        let cells = SHOWN.map(|program| match phase.processors.seconds(program) {
            Some(seconds) => format!(" {seconds:.1} ({:.2}) |", phase.ms_per_claim(seconds)),
            None => " - |".to_owned(),
        });
        let elapsed = phase.elapsed.as_secs_f64();
        println!(
            "| {} | {} | {what} | {elapsed:.1} |{}",
            round.number,
            round.pools,
            cells.concat()
        );
    }
}

fn print_requests(rounds: &[Round]) {
    println!("\nRequests per claim, without the one that the load sends.\n");
    println!("| Claims | pools | | requests | of which |");
    println!("|---:|---:|---|---:|---|");
    for (what, round, phase) in phases(rounds) {
        let per_claim = |count: u64| format!("{:.2}", count as f64 / phase.claims as f64);
        // Requests that are rarer than one per hundred claims are not caused by claims.
        let parts = phase
            .requests
            .iter()
            .filter(|(_, count)| count * 100 >= phase.claims as u64);
        let parts: Vec<_> = parts
            .map(|(what, count)| format!("{} {what}", per_claim(count)))
            .collect();
        println!(
            "| {} | {} | {what} | {} | {} |",
            round.number,
            round.pools,
            per_claim(phase.requests.total()),
            parts.join(", ")
        );
    }
}

fn print_durations(rounds: &[Round]) {
    println!(
        "\nms per claim that the API server worked on requests, and within them waited for webhooks and etcd.\n"
    );
    println!("| Claims | pools | | of which |");
    println!("|---:|---:|---|---|");
    for (what, round, phase) in phases(rounds) {
        let parts = phase.durations.iter().take(DURATIONS_MAX);
        let parts: Vec<_> = parts
            .map(|(what, seconds)| format!("{:.2} {what}", phase.ms_per_claim(*seconds)))
            .collect();
        println!(
            "| {} | {} | {what} | {} |",
            round.number,
            round.pools,
            parts.join(", ")
        );
    }
}
