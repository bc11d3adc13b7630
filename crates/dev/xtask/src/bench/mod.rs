//! `cargo xtask bench`: figures from a real cluster.

mod claims;
mod clusters;
mod durations;
mod idle;
mod measure;
mod metrics;
mod peers;
mod processors;
mod quantiles;
mod requests;
mod up;

use anyhow::bail;

use crate::target::Target;

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
    /// Clusters in `nephele up --cluster-api`: how long they take, and what each process costs.
    Up(up::Args),
    /// Claims for addresses: how fast they are bound and released, the latency of one under that load, and the
    /// cost.
    Claims(claims::Args),
    /// Idle clusters: CPU time, memory, and a check that nothing is written.
    Idle(idle::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.subject {
        Some(Subject::Clusters(args)) => clusters::run(args),
        Some(Subject::Up(args)) => up::run(args),
        Some(Subject::Claims(args)) => claims::run(args),
        Some(Subject::Idle(args)) => idle::run(args),
        None if args.peer => peers::run(&args.target),
        None => bail!("name what to measure: clusters, claims, idle or --peer"),
    }
}
