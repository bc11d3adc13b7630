//! `cargo xtask bench idle`: the cost of idle clusters.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::bail;
use futures::future::try_join_all;
use nephele_e2e::{
    Management, Scope, Shape,
    manager::{self, Provider},
};

use super::{measure::measure, requests::Requests};
use crate::target::Target;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of clusters; repeatable, for one round each.
    #[arg(short = 'n', value_name = "NUMBER", default_values_t = [0, 50])]
    numbers: Vec<usize>,
    /// How long to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    seconds: u64,
    #[command(flatten)]
    target: Target,
}

/// The time after which the effects of a cluster's last step are over: Cluster API reconciles a control plane again
/// within a minute.
const SETTLED_AFTER: Duration = Duration::from_secs(75);
const MANAGERS: [Provider; 2] = [Provider::Infrastructure, Provider::Ipam];

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let length = Duration::from_secs(args.seconds);
    measure(&args.target, async |kubeconfig| {
        rounds(&args.numbers, length, kubeconfig).await
    })
}

async fn rounds(numbers: &[usize], length: Duration, kubeconfig: &Path) -> anyhow::Result<()> {
    let management = Management::of(kubeconfig).await?;
    let mut rounds = Vec::new();
    for &number in numbers {
        rounds.push(round(management.clone(), number, length).await?);
    }
    print(&rounds);
    let writes: u64 = rounds.iter().map(|round| round.writes.total()).sum();
    if writes > 0 {
        bail!("there were {writes} writes although nothing happened");
    }
    Ok(())
}

/// The figures of one round.
struct Round {
    number: usize,
    length: Duration,
    managers: BTreeMap<&'static str, Manager>,
    /// Writes by any client: while nothing happens, the writes of others are caused by our providers, too.
    writes: Requests,
}

struct Manager {
    cpu_seconds: f64,
    resident_kib: u64,
}

async fn round(management: Management, number: usize, length: Duration) -> anyhow::Result<Round> {
    let scope = Scope::on(management.clone(), "idle").await?;
    let names: Vec<_> = (0..number).map(|index| format!("c{index:04}")).collect();
    let clusters = try_join_all(names.iter().map(|name| scope.of_class(name, Shape::new(1, 1)))).await?;
    try_join_all(clusters.iter().map(|cluster| cluster.settled(1, 1))).await?;
    tokio::time::sleep(SETTLED_AFTER).await;

    let ids = MANAGERS.map(manager::process);
    let mut before = BTreeMap::new();
    for (provider, id) in MANAGERS.into_iter().zip(&ids) {
        if let Ok(id) = id {
            before.insert(provider.namespace(), (*id, manager::cpu_seconds(*id)?));
        }
    }
    if before.is_empty() {
        bail!("no manager runs on this machine");
    }
    let writes = Requests::writes(&management).await?;
    let started = Instant::now();
    tokio::time::sleep(length).await;
    let writes = Requests::writes(&management).await?.since(&writes);
    let length = started.elapsed();
    let mut managers = BTreeMap::new();
    for (name, (id, cpu_seconds)) in before {
        let used = manager::cpu_seconds(id)? - cpu_seconds;
        managers.insert(
            name,
            Manager {
                cpu_seconds: used,
                resident_kib: manager::resident_kib(id)?,
            },
        );
    }
    scope.finish().await?;
    Ok(Round {
        number,
        length,
        managers,
        writes,
    })
}

fn print(rounds: &[Round]) {
    println!("\n| Clusters | for s | manager of | CPU s | of a core | resident MiB |");
    println!("|---:|---:|---|---:|---:|---:|");
    for Round {
        number,
        length,
        managers,
        ..
    } in rounds
    {
        for (
            name,
            Manager {
                cpu_seconds,
                resident_kib,
            },
        ) in managers
        {
            let seconds = length.as_secs_f64();
            let share = 100.0 * cpu_seconds / seconds;
            let mib = *resident_kib as f64 / 1024.0;
            println!("| {number} | {seconds:.0} | {name} | {cpu_seconds:.2} | {share:.2} % | {mib:.1} |");
        }
    }
    println!("\nWrites by any client, except leases and the status of nodes:");
    for round in rounds {
        println!("- {} clusters: {}", round.number, round.writes.total());
        for (what, count) in round.writes.iter() {
            println!("  - {what}: {count}");
        }
    }
}
