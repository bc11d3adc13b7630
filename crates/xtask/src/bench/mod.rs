//! `cargo xtask bench`: figures from a real cluster.

mod claims;
mod clusters;
mod durations;
mod idle;
mod metrics;
mod peers;
mod processors;
mod requests;

use std::path::Path;

use anyhow::{Context, bail};

use crate::{provider::Profile, target::Target};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Measure Cluster API's in-memory provider and the in-cluster IPAM provider beside ours, in turn on the same node,
    /// and write the tables of README and book.
    #[arg(long)]
    peer: bool,
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    subject: Option<Subject>,
}

#[derive(Debug, clap::Subcommand)]
enum Subject {
    /// Clusters of a ClusterClass with one control plane machine and one worker, without delays, all at once.
    Clusters(clusters::Args),
    /// Claims for addresses: how fast they are bound and released, the latency of one under that load, and the
    /// cost.
    Claims(claims::Args),
    /// Idle clusters: CPU time, memory, and a check that nothing is written.
    Idle(idle::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.subject {
        Some(Subject::Clusters(args)) => clusters::run(args),
        Some(Subject::Claims(args)) => claims::run(args),
        Some(Subject::Idle(args)) => idle::run(args),
        None if args.peer => peers::run(&args.target),
        None => bail!("name what to measure: clusters, claims, idle or --peer"),
    }
}

/// Measures on a cluster, with its administrator's kubeconfig.
fn measure(target: &Target, measure: impl AsyncFnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    target.work_installed(Profile::Dist, |found| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("failed to start a runtime")?.block_on(measure(&found.kubeconfig))
    })
}

/// Refuses zero, which would measure nothing.
fn refuse_zero(numbers: &[usize]) -> anyhow::Result<()> {
    if numbers.contains(&0) {
        bail!("there is nothing to measure with 0");
    }
    Ok(())
}

/// The median of sorted values. For an even number of values, the lower one in the middle.
fn middle<T: Copy + Default>(sorted: &[T]) -> T {
    quantile(sorted, 50)
}

/// The percentile of the sorted values: the smallest value that this percentage of the values does not exceed.
fn quantile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!(middle::<i64>(&[]), 0);
        assert_eq!((middle(&[7]), middle(&[1, 2]), middle(&[1, 2, 3])), (7, 1, 2));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<_> = (1..=200).collect();
        assert_eq!((quantile(&values, 50), quantile(&values, 99), quantile(&values, 100)), (100, 198, 200));
        assert_eq!(quantile(&[5], 99), 5);
    }
}
