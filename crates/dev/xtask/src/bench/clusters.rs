//! `cargo xtask bench clusters`: how long clusters take to become available, and what they cost the manager.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::bail;
use futures::future::try_join_all;
use jiff::Timestamp;
use nephele_e2e::{
    Look, Management, Scope, Shape,
    management::kinds,
    manager::{self, Provider},
    state, until,
};
use serde_json::Value;

use super::{
    measure::{measure, refuse_zero},
    processors::Processors,
    quantiles::middle,
};
use crate::target::Target;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of clusters at once; repeatable, for one round each.
    #[arg(short = 'n', value_name = "NUMBER", default_values_t = [1, 20])]
    numbers: Vec<usize>,
    /// Workers of each cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    workers: u32,
    #[command(flatten)]
    target: Target,
}

/// Conditions of the Cluster that mark its phases.
const PHASES: [&str; 6] = [
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "RemoteConnectionProbe",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "Available",
];

const LIMIT: Duration = Duration::from_secs(900);
/// How long the manager may settle, before a round and when all clusters are available. The work in that time counts
/// for the clusters.
pub(super) const QUIET: Duration = Duration::from_secs(5);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    refuse_zero(&args.numbers)?;
    measure(&args.target, async |kubeconfig| {
        rounds(&args.numbers, args.workers, kubeconfig).await
    })
}

async fn rounds(numbers: &[usize], workers: u32, kubeconfig: &Path) -> anyhow::Result<()> {
    let management = Management::of(kubeconfig).await?;
    let mut rounds = Vec::new();
    for &number in numbers {
        let created =
            async |scope: &Scope, name: &str| scope.of_class(name, Shape::new(1, workers)).await.map(drop);
        rounds.push(
            round(
                management.clone(),
                Provider::Infrastructure.namespace(),
                number,
                created,
            )
            .await?,
        );
    }
    print(&rounds);
    Ok(())
}

/// The figures of one round.
pub(super) struct Round {
    number: usize,
    /// Times from the creation of the first cluster until each was seen available, sorted.
    pub(super) available: Vec<Duration>,
    /// CPU time of the manager and of the programs that serve it.
    pub(super) processors: Processors,
    resident_kib_before: u64,
    resident_kib_after: u64,
    /// Seconds from a cluster's creation until each condition became true, by cluster.
    phases: BTreeMap<&'static str, Vec<i64>>,
    deletion: Duration,
}

/// Creates clusters that the manager in this namespace provides.
pub(super) async fn round(
    management: Management,
    namespace: &str,
    number: usize,
    create: impl AsyncFn(&Scope, &str) -> anyhow::Result<()>,
) -> anyhow::Result<Round> {
    let scope = Scope::on(management, "bench").await?;
    let pid = manager::process_in(&scope.management, namespace).await?;
    // The manager may still return memory of the previous round.
    tokio::time::sleep(QUIET).await;
    let before = Processors::now(pid)?;
    let resident_kib_before = manager::resident_kib(pid)?;
    let start = Instant::now();
    let names: Vec<_> = (0..number).map(|index| format!("c{index:04}")).collect();
    try_join_all(names.iter().map(|name| create(&scope, name))).await?;

    let Available { times, clusters } = all_available(&scope, number, start).await?;
    tokio::time::sleep(QUIET).await;
    if manager::process_in(&scope.management, namespace).await? != pid {
        bail!("the manager was restarted while it was measured");
    }
    let processors = Processors::now(pid)?.since(&before);
    let resident_kib_after = manager::resident_kib(pid)?;
    let mut phases = BTreeMap::<_, Vec<_>>::new();
    for cluster in &clusters {
        for phase in PHASES {
            phases
                .entry(phase)
                .or_default()
                .extend(seconds_until(cluster, phase));
        }
    }
    let deletion = Instant::now();
    scope.finish().await?;
    Ok(Round {
        number,
        available: times,
        processors,
        resident_kib_before,
        resident_kib_after,
        phases,
        deletion: deletion.elapsed(),
    })
}

/// Clusters that are available.
pub(super) struct Available {
    /// How long each took since the start, sorted.
    pub(super) times: Vec<Duration>,
    clusters: Vec<Value>,
}

/// Waits until so many clusters of a namespace are available.
pub(super) async fn all_available(scope: &Scope, number: usize, start: Instant) -> anyhow::Result<Available> {
    let mut times = BTreeMap::new();
    let clusters = until(&format!("{number} clusters to be available"), LIMIT, async || {
        let clusters = scope
            .management
            .list(kinds::CLUSTER, &scope.namespace, "")
            .await?;
        for cluster in clusters
            .iter()
            .filter(|cluster| state::is(cluster, "Available", "True"))
        {
            times
                .entry(state::name(cluster).to_owned())
                .or_insert_with(|| start.elapsed());
        }
        Ok(if times.len() == number {
            Look::Done(clusters)
        } else {
            Look::NotYet(clusters.iter().map(state::line).collect::<Vec<_>>().join("\n"))
        })
    })
    .await?;
    let mut times: Vec<_> = times.into_values().collect();
    times.sort();
    Ok(Available { times, clusters })
}

/// Seconds from the creation of a cluster until a condition last became true.
fn seconds_until(cluster: &Value, condition: &str) -> Option<i64> {
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let created = time(&cluster["metadata"]["creationTimestamp"])?;
    let condition = state::condition(cluster, condition)?;
    Some(time(&condition["lastTransitionTime"])?.as_second() - created.as_second())
}

impl Round {
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.processors.seconds("manager").unwrap_or_default()
    }

    /// MiB of resident memory that the manager took for each cluster.
    pub(super) fn mib_per_cluster(&self) -> f64 {
        let mib = |kib: u64| kib as f64 / 1024.0;
        (mib(self.resident_kib_after) - mib(self.resident_kib_before)) / self.number as f64
    }
}

fn print(rounds: &[Round]) {
    println!(
        "\n| Clusters | Available, median s | last s | manager CPU s | per cluster | resident MiB | per cluster | gone after s |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in rounds {
        let number = round.number as f64;
        let mib = |kib: u64| kib as f64 / 1024.0;
        println!(
            "| {} | {:.1} | {:.1} | {:.2} | {:.3} | {:.1} -> {:.1} | {:.2} | {:.1} |",
            round.number,
            middle(&round.available).as_secs_f64(),
            round.available.last().copied().unwrap_or_default().as_secs_f64(),
            round.cpu_seconds(),
            round.cpu_seconds() / number,
            mib(round.resident_kib_before),
            mib(round.resident_kib_after),
            round.mib_per_cluster(),
            round.deletion.as_secs_f64(),
        );
    }
    println!("\nPhases: seconds from creation until a condition of the Cluster held, median / last.\n");
    let numbers = rounds
        .iter()
        .map(|round| format!(" {} |", round.number))
        .collect::<String>();
    println!("| Condition |{numbers}");
    println!("|---|{}", "---:|".repeat(rounds.len()));
    for phase in PHASES {
        let cells = rounds.iter().map(|round| {
            let mut seconds = round.phases.get(phase).cloned().unwrap_or_default();
            seconds.sort_unstable();
            format!(
                " {} / {} |",
                middle(&seconds),
                seconds.last().copied().unwrap_or_default()
            )
        });
        println!("| {phase} |{}", cells.collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_phase_lasts_from_creation_to_transition() {
        let cluster = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Available", "lastTransitionTime": "2026-01-01T00:00:17Z"}]},
        });
        assert_eq!(seconds_until(&cluster, "Available"), Some(17));
        assert_eq!(seconds_until(&cluster, "WorkersAvailable"), None);
    }
}
