//! `--neighbours`: what a hostile client, tenant or stranger costs the others. A whole manager runs on loopback ports,
//! with two clusters in two namespaces. For each entry of the menu, the attacker attacks the first cluster, or an open
//! port, while probers ask the second cluster, the webhooks, the runtime extension and the health port.
//!
//! ```text
//!  threads of the attacker ──▶ hostile cluster, webhooks, extension, health, diagnostics ┐
//!  threads of the probers  ──▶ neighbour, webhooks, extension, health                    ├ threads of the manager
//! ```

mod attack;
mod probe;
mod spdy;
mod tenant;
mod thread_time;
mod whole;
mod wire;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use attack::Attack;
use probe::{ASKED, HEALTH, Seen, probe};
use thread_time::thread_time;
use tokio::runtime::{Builder, Runtime};
use whole::Whole;

/// How long the probers ask while there is no attack.
const ALONE: Duration = Duration::from_secs(5);
/// A latency that is never too long.
const LATENCY_MIN: Duration = Duration::from_millis(50);
/// How many times as long as alone an attacked neighbour's p99 may be.
const LATENCY_FACTOR: u32 = 3;
/// How late a probe of health may be answered.
const HEALTH_MAX: Duration = Duration::from_secs(1);
/// The longest time between two renewals of the lease.
const RENEWAL_MAX: Duration = Duration::from_secs(3);
/// How long a task may keep its thread.
const POLL_MAX: Duration = Duration::from_millis(10);
/// The most bytes that an attack may make the manager take.
const MEMORY_MAX: usize = 512 << 20;

/// Runs the menu, or the entries whose names contain `only`, each for some seconds. Returns whether the neighbour was
/// left in peace.
///
/// # Errors
/// When the manager does not start.
pub(crate) fn run(seconds: u64, only: &str) -> anyhow::Result<bool> {
    nephele_poll_time::measure_with(thread_time);
    // The management API is another process elsewhere, so its work is not that of the manager's threads.
    let manager = threads("manager", 2)?;
    let api = threads("api", 1)?;
    let attacker = threads("attacker", 1)?;
    let prober = threads("prober", 1)?;
    let starting = Whole::start(api.handle().clone());
    let whole = Arc::new(manager.block_on(async { tokio::spawn(starting).await.context("it panicked")? })?);
    let observe = |time| {
        let whole = whole.clone();
        prober.block_on(async move { probe(&whole, time).await })
    };
    // The first requests are slower.
    observe(Duration::from_secs(1));
    let alone = observe(ALONE);
    let mut peaceful = true;
    println!(
        "{:<30} {}  lease    memory  longest poll",
        "p99 in ms",
        ASKED.map(|name| format!("{name:>16}")).join("")
    );
    show("alone", &alone, &alone);
    for attack in Attack::MENU
        .into_iter()
        .filter(|attack| attack.name().contains(only))
    {
        let prepared = attacker.block_on(attack.prepare(&whole));
        if let Err(error) = prepared {
            println!("{:<30} not prepared: {error:#}", attack.name());
            peaceful = false;
            continue;
        }
        let attacking = attacker.spawn(attack.run(whole.clone()));
        let seen = observe(Duration::from_secs(seconds));
        attacking.abort();
        peaceful &= show(attack.name(), &alone, &seen);
        attacker.block_on(tenant::clean_up(&whole));
        // What was begun ends before the next attack.
        observe(Duration::from_secs(2));
    }
    Ok(peaceful)
}

fn threads(name: &str, count: usize) -> anyhow::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).thread_name(name).enable_all();
    builder.build().context("failed to start threads")
}

/// Prints a line. Returns whether it keeps the law.
fn show(name: &str, alone: &Seen, seen: &Seen) -> bool {
    let mut broken = Vec::new();
    let mut columns = String::new();
    for (asked, target) in ASKED.iter().enumerate() {
        let p99 = seen.p99(asked);
        let failures = seen.failures[asked];
        let limit = if asked == HEALTH {
            HEALTH_MAX
        } else {
            (alone.p99(asked) * LATENCY_FACTOR).max(LATENCY_MIN)
        };
        if p99 > limit || failures > 0 {
            broken.push(*target);
        }
        let failed = if failures > 0 {
            format!(" ({failures} failed)")
        } else {
            String::new()
        };
        columns.push_str(&format!(
            "{:>16}",
            format!("{:.1}{failed}", p99.as_secs_f64() * 1e3)
        ));
    }
    if seen.renewal_max > RENEWAL_MAX {
        broken.push("lease");
    }
    if seen.allocated_max > MEMORY_MAX {
        broken.push("memory");
    }
    let polls = seen.polls.iter().take(2).map(|(task, time)| {
        // Without optimization, each takes ten times as long.
        if *time > POLL_MAX && !cfg!(debug_assertions) {
            broken.push(task);
        }
        format!("{:.1} ms {task}", time.as_secs_f64() * 1e3)
    });
    let polls = polls.collect::<Vec<_>>().join(", ");
    let verdict = if broken.is_empty() {
        String::new()
    } else {
        format!("  hurt: {}", broken.join(", "))
    };
    println!(
        "{name:<30} {columns}  {:>4.1} s {:>5} MiB  {polls}{verdict}",
        seen.renewal_max.as_secs_f64(),
        seen.allocated_max >> 20
    );
    broken.is_empty()
}
